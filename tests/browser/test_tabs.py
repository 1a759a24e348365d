"""The tabs: diagnostics of the point shown, and the amortization map."""

import json

import numpy as np
import pytest
from amci_explorer.compute.computations import MAP_SIZES
from cards import (
    MAP_IMAGE,
    WAY,
    bars,
    choose,
    click_on_map,
    computed_diagnosis,
    map_image,
    open_diagnostics,
    open_map,
    wait_for_map,
    wait_for_way,
)
from playwright.sync_api import expect

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

Y, THETA = "Observation y", "Threshold θ"


def what_is_shown_is_what_the_draws_say_and_follows_the_case(opened):
    open_diagnostics(opened)
    found = computed_diagnosis("tail-1d", 2.0, 2.0, seed=5)
    wait_for_way(opened, found)
    for term in found.terms:
        weights = f"diagnostics-weights-{term.name}".lower()
        np.testing.assert_allclose(opened.data(bars(term.name), "draws"), term.heights)
        # The weights of E2 are bounded, and have no tail to fit.
        if term.tail.size:
            tail = opened.data(f"{weights}-curve-fitted pareto tail", "weight")
            np.testing.assert_allclose(tail, term.tail, rtol=1e-12)
    off = 100 * (found.along.value / found.mu.value - 1)
    np.testing.assert_allclose(opened.data(WAY, "value"), off, atol=1e-9)
    said = "Judged by 1,000 draws per proposal"
    verdict = opened.page.locator(".verdict").filter(has_text=said)
    expect(verdict).to_contain_text("Reliable")
    # Described when all of it is there: a message of its own, after the last numbers.
    alternative = opened.page.get_by_role("img", name="Histogram of the weights of E₁")
    expect(alternative).to_have_count(1)
    # When a slider is let go, the draws are those of the new case.
    before = opened.data(bars("E1_plus"), "draws")
    opened.look_at("Diagnostics")
    opened.move("Threshold θ", 1.0)
    after = opened.wait_for_other(bars("E1_plus"), "draws", before)
    moved = computed_diagnosis("tail-1d", 2.0, 1.0, seed=5)
    np.testing.assert_allclose(after, moved.terms[0].heights)


def keys_lead_from_card_to_card_and_one_is_open_at_a_time(opened):
    cards = ("Draw by draw", "Sample reuse", "Diagnostics")
    opened.page.get_by_role("tab", name=cards[0]).focus()
    for key, shown in [("ArrowRight", cards[1]), ("ArrowRight", cards[2]), ("Home", cards[0])]:
        opened.page.keyboard.press(key)
        opened.page.keyboard.press("Enter")
        opened.page.get_by_role("heading", name=shown).wait_for(state="visible")
        for other in set(cards) - {shown}:
            opened.page.get_by_role("heading", name=other).wait_for(state="detached")


def a_click_moves_the_case_and_starts_monte_carlo(opened):
    before = map_image(opened)
    bound = opened.data("errors-bound", "median")
    click_on_map(opened, 4.0, 1.0)
    opened.wait_for_other("errors-bound", "median", bound)
    opened.wait_for_value(Y, 4.0, within=0.05)
    opened.wait_for_value(THETA, 1.0, within=0.05)
    y, theta = opened.value(Y), opened.value(THETA)
    opened.wait("at => window.location.search.includes(at)", f"y={y:.6g}&theta={theta:.6g}")
    mark = [
        float(opened.data("amortization-map-yours-your case", name)[0]) for name in ("y", "theta")
    ]
    assert mark == pytest.approx([y, theta])
    # The map is of the proposals: the same ones have the same map.
    np.testing.assert_array_equal(map_image(opened), before)


def a_click_moves_the_case_when_the_card_has_come_back(opened):
    open_map(opened)
    click_on_map(opened, 2.0, 2.0)
    opened.wait_for_value(Y, 2.0, within=0.05)
    opened.wait_for_value(THETA, 2.0, within=0.05)


def other_quantities_can_be_shown_and_taken_home(opened, expected):
    before = map_image(opened)
    choose(opened, "Quantity", "Effective sample size per draw, E₂")
    opened.wait(f"old => (({MAP_IMAGE})()?.data.value[0][0] ?? old) != old", before[0, 0])
    shown = map_image(opened)
    np.testing.assert_allclose(shown, expected.relative_ess[1], rtol=1e-6)
    lines = opened.take_table("Amortization map")
    assert [float(line["relative_ess_E2"]) for line in lines] == pytest.approx(shown.ravel())
    opened.unfold("Share and download")
    with opened.page.expect_download() as download:
        opened.press("Everything, JSON")
    everything = json.loads(download.value.path().read_text())["results"]["map"]
    found = [line["relative_ess_E2"] for line in everything["table"]]
    assert found == pytest.approx(shown.ravel())
    assert everything["answers"]["variant"] == "paper"


def test_diagnostics_and_map_are_computed_when_opened_and_are_those_of_the_core(visit):
    opened = visit("?runs=4&y=2&theta=2&seed=5")
    opened.wait_for_end(4)
    what_is_shown_is_what_the_draws_say_and_follows_the_case(opened)
    density = opened.data("densities", "q1")
    opened.unfold("Proposals")
    opened.press("paper")
    opened.wait_for_other("densities", "q1", density)
    opened.wait_for_end(4)
    assert opened.page.evaluate(f"{MAP_IMAGE} == null || ({MAP_IMAGE})() == null")
    open_map(opened)
    shown = wait_for_map(opened)
    size, draws = MAP_SIZES[1]
    expected = amci.amortization_map(
        amci.problem("tail-1d"),
        amci.load_proposals("tail-1d", variant="paper"),
        size=size,
        draws=draws,
    )
    np.testing.assert_allclose(shown, expected.relative_variance, rtol=1e-6)
    a_click_moves_the_case_and_starts_monte_carlo(opened)
    other_quantities_can_be_shown_and_taken_home(opened, expected)
    keys_lead_from_card_to_card_and_one_is_open_at_a_time(opened)
    a_click_moves_the_case_when_the_card_has_come_back(opened)


def test_an_evaluation_is_shown_stored_and_live(visit):
    opened = visit("?runs=4&card=evaluation")
    opened.wait_for_data("evaluation-curve-amci", "draws")
    assert opened.status("evaluation").startswith("100 cases")
    choose(opened, "Results", "live")
    opened.wait_for_end(20, "evaluation")
