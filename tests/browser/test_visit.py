"""What every visitor does: one page of the real server, brought back by its address each time."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers.case import shown_estimators
from amci_explorer.problems.presets import PRESETS
from amci_explorer.text import number
from axe import violations
from cards import choose, click_on
from playwright.sync_api import expect
from visit import RUNS, SIDEWAYS, Visit

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Y, THETA, LEVEL = "Observation y", "Threshold θ", "Mismatch, nats"
# Texts below 12 pixels that the page shows.
TINY = """() => {
    const all = root => [...root.querySelectorAll("*")].flatMap(
        el => [el, ...(el.shadowRoot ? all(el.shadowRoot) : [])])
    return all(document)
        .filter(el => [...el.childNodes].some(node => node.nodeType == 3 && node.data.trim()))
        .filter(el => el.getClientRects().length && parseFloat(getComputedStyle(el).fontSize) < 12)
        .map(el => [el.tagName, el.textContent, getComputedStyle(el).fontSize])
}"""
CARDS = {
    "Draw by draw": ".draws-player input[max='500']",
    "Sample reuse": "[aria-label^='Relative error over alpha and beta']",
    "Diagnostics": "[aria-label^='Histogram of the weights of E₁']",
    "Amortization map": "[aria-label^='Amortization map']",
    "Evaluation": "text=100 cases drawn from p(y) p(θ)",
    "Train": "role=button[name='Start's]",
}


def density(name, y, theta, x):
    """A proposal's density at points on the line, as the core computes it."""
    proposals = amci.load_proposals("tail-1d")
    q = getattr(proposals, name)(*amci.problem("tail-1d").check(y, theta))
    with torch.inference_mode():
        return q.log_prob(torch.from_numpy(x)[:, None]).exp().numpy()


@pytest.mark.slow
def test_a_handle_moves_as_soon_as_it_is_seen(at):
    at().wait_for_end(RUNS)
    later = at()
    stood = later.value("Observation y")
    with later.dragged(later.slider("Observation y"), by=0.1):
        assert later.value("Observation y") > stood


def test_a_click_on_the_errors_chooses_the_draws(visit):
    # Fewer do not determine the errors.
    opened = visit("?runs=100")
    opened.wait_for_end(100)
    click_on(opened, "errors", 1000, 10)
    opened.wait("() => Number(new URLSearchParams(location.search).get('draws')) > 300")


def test_a_drag_paints_every_place_of_the_handle_at_once(at):
    opened = at()
    opened.reach(THETA)
    opened.watch_threshold(THETA)
    with opened.dragged(opened.slider(THETA), by=-0.4):
        handle, threshold = opened.seen().T
    assert len(np.unique(handle)) > 10
    np.testing.assert_allclose(threshold, handle, atol=1e-9)


def test_a_released_handle_has_all_figures_follow(at):
    opened = at()
    opened.wait_for_end(RUNS)
    before = opened.data("errors-amci", "error")
    opened.move(THETA, 1.5)
    opened.wait("() => location.search.includes('y=1&theta=1.5')")
    opened.wait_for_other("errors-amci", "error", before)
    opened.wait_for_end(RUNS)
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    x = opened.data("densities", "x")
    for name in ("q1_plus", "q2"):
        shown = opened.data("densities", name.removesuffix("_plus"))
        expected = density(name, 1.0, 1.5, x)
        np.testing.assert_allclose(shown, expected, rtol=1e-8, atol=1e-20)
    draws = opened.data("errors-amci", "draws").astype(int).tolist()
    shown = {"draws": draws, "estimators": shown_estimators(problem, proposals)}
    curves = amci.error_curves(problem, proposals, 1.0, 1.5, **shown, runs=RUNS)
    for name in ("amci", "snis-qm"):
        shown = opened.data(f"errors-{name}", "error")
        np.testing.assert_allclose(shown, 100 * np.sqrt(curves[name].remse), rtol=1e-12)
    opened.page.get_by_role("button", name="All numbers").click()
    cells = opened.page.get_by_role("row").filter(has_text="AMCI").get_by_role("cell")
    estimate = amci.estimate(problem, proposals, 1.0, 1.5, draws=146, seed=0, estimator="amci")
    expect(cells.nth(2)).to_have_text(number(float(estimate.standard_error), 2))
    opened.press("Reset")
    opened.wait("() => location.search == '?problem=tail-1d&y=1&theta=3'")
    opened.wait_for_value(THETA, 3.0)


def test_another_problem_brings_its_own_handles_presets_and_pictures(at):
    opened = at()
    choose(opened, "Problem", amci.problem("gain-loss").title)
    opened.slider("Price θ").wait_for()
    opened.wait_for_data("densities", "q1_minus")
    for preset in PRESETS["gain-loss"]:
        expect(opened.page.get_by_role("button", name=preset.name, exact=True)).to_be_visible()
    last = PRESETS["gain-loss"][-1]
    opened.press(last.name)
    opened.wait("at => location.search.includes(at)", f"problem=gain-loss&y={last.link['y']}")
    opened.wait_for_value("Price θ", float(last.link["theta"]))


def test_a_kept_case_stays_in_sight_beside_another(at):
    opened = at()
    opened.wait_for_end(RUNS)
    kept = opened.data("densities", "q1")
    opened.unfold("Compare")
    opened.press("Keep this case as A")
    opened.wait_for_text("This case is kept as A.")
    opened.move(THETA, 2.0)
    opened.wait_for_text("A, in faint colours, is the case for θ = 3.")
    np.testing.assert_allclose(opened.wait_for_data("densities-a", "q1"), kept)
    opened.wait_for_end(RUNS)
    opened.wait_for_data("errors-a", "xs")
    opened.press("Stop comparing")
    opened.page.get_by_text("A, in faint colours").wait_for(state="detached")


def test_each_tab_opens_its_card(at):
    opened = at()
    for name, content in CARDS.items():
        opened.page.get_by_role("tab", name=name, exact=True).click()
        heading = opened.page.get_by_role("heading", name=name, exact=True)
        expect(heading).to_be_visible()
        # A card out of sight is computed once it is seen, and a page that is laid out can scroll.
        heading.scroll_into_view_if_needed()
        opened.page.locator(content).first.wait_for(state="visible")
    expect(opened.page.get_by_role("alert").filter(visible=True)).to_have_count(0)


def test_the_tour_leads_from_step_to_step_and_sets_the_page(at):
    opened = at("&tour=two-integrals")
    opened.wait_for_text("Step 1 of 13")
    opened.press("Next")
    opened.wait_for_text("Step 2 of 13")
    opened.page.keyboard.press("Escape")
    opened.page.evaluate("() => document.activeElement?.blur()")
    opened.page.keyboard.press("ArrowRight")
    opened.wait_for_text("Step 3 of 13")
    opened.wait("() => location.search.includes('tour=bound')")
    opened.press("Leave")
    opened.page.get_by_text("Step 3 of 13").wait_for(state="hidden")
    opened.press("Tour")
    opened.wait_for_text("Step 3 of 13")


def test_on_a_phone_handles_stay_in_sight_and_nothing_is_too_wide(at):
    opened = at(width=390, height=844)
    opened.wait_for_end(RUNS)
    for place in (".headline", "role=tab[name='Sample reuse']"):
        opened.page.locator(place).scroll_into_view_if_needed()
        for label in (Y, THETA):
            rail = opened.place_of(label)
            assert 600 < rail["y"] + rail["height"] <= 844
    opened.wait(f"() => ({SIDEWAYS})().toString() == '0,0'")


def test_on_a_phone_nothing_is_tiny_and_no_button_can_do_nothing(at):
    opened = at("&problem=cancer", width=390, height=844)
    opened.wait_for_end(RUNS)
    expect(opened.page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    opened.unfold("The problem")
    opened.page.locator("math msub").first.wait_for()
    assert opened.page.evaluate(TINY) == []


def test_a_lost_connection_is_told_and_the_page_comes_back_as_it_was(browser, server):
    opened = Visit(browser.new_context(), f"{server}?y=1.5&theta=2.5&runs={RUNS}", cuts=True)
    lost = opened.page.get_by_role("alert").get_by_text("connection to the server is lost")
    expect(lost).to_have_count(0)
    opened.cut()
    expect(lost).to_be_visible()
    expect(opened.page.get_by_role("button", name="Reload now")).to_be_visible()
    expect(lost).to_have_count(0)
    opened.wait_until_open()
    assert (opened.value(Y), opened.value(THETA)) == (1.5, 2.5)
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(at, scheme):
    opened = at(f"&card={'reuse' if scheme == 'light' else 'diagnostics'}", scheme=scheme)
    opened.wait_for_end(RUNS)
    for fold in ("The problem", "Proposals", "Draws, runs, seed", "Your own f"):
        opened.unfold(fold)
    opened.page.get_by_role("button", name="Details").first.click()
    opened.page.get_by_label("Two proposals, as a table").wait_for(state="visible")
    assert violations(opened.page) == []
