"""The tabs, and the amortization map behind the last of them."""

import csv
import json

import numpy as np
import pytest
from cards import MAP_IMAGE, choose, click_on_map, map_image, open_map, wait_for_map
from playwright.sync_api import expect

import amci_core as amci
from app.store import MAP_SIZES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Y, THETA = "Observation y", "Threshold θ"


def keys_lead_from_card_to_card_and_one_is_open_at_a_time(opened):
    cards = ("Sample reuse", "Diagnostics", "Amortization map")
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
    opened.wait("at => window.location.search.includes(at)", f"y={y:.4g}&theta={theta:.4g}")
    mark = [float(opened.data("amortization-current", name)[0]) for name in ("x", "y")]
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
    choose(opened, "Shown", "Effective share of draws for E₂")
    opened.wait(f"old => ({MAP_IMAGE})().data.value[0][0] != old", before[0, 0])
    shown = map_image(opened)
    np.testing.assert_allclose(shown, expected.effective_share[1], rtol=1e-6)
    with opened.page.expect_download() as download:
        opened.press("Amortization map, CSV")
    lines = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [float(line["effective_share_E2"]) for line in lines] == pytest.approx(shown.ravel())
    with opened.page.expect_download() as download:
        opened.press("Everything, JSON")
    everything = json.loads(download.value.path().read_text())["amortization_map"]
    assert np.ravel(everything["effective_share"][1]) == pytest.approx(shown.ravel())
    assert everything["proposals"]["variant"] == "paper"


def test_the_map_is_computed_when_its_tab_is_opened_and_is_that_of_the_core(visit):
    opened = visit("?runs=4&variant=paper")
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


def test_a_tab_without_sense_is_disabled_and_another_plane_keeps_other_coordinates(visit):
    opened = visit("?problem=peak&runs=4&draws=8")
    opened.wait_for_text("There is no sample reuse for this problem: E₂ is known")
    expect(opened.page.get_by_role("tab", name="Sample reuse")).to_be_disabled()
    opened.wait_for_end(4)
    open_map(opened)
    choose(opened, "Upwards", "Sharpness s")
    opened.wait(
        "() => Bokeh.documents[0].get_model_by_name('amortization-map')"
        ".left[0].axis_label == 'Sharpness s'"
    )
    wait_for_map(opened)
    click_on_map(opened, 0.25, 0.75)
    opened.wait_for_value("Centre u₁", 0.25, within=0.02)
    opened.wait_for_value("Sharpness s", 0.75, within=0.02)
    assert opened.value("Centre u₂") == 0.5
