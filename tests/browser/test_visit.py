"""What every visitor does, on the worker's page: handles, pictures, tabs, the tour, a break."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers.case import shown_estimators
from amci_explorer.text import number
from axe import violations
from cards import click_on
from playwright.sync_api import expect

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Y, THETA = "Observation y", "Threshold θ"
CARDS = {
    "Draw by draw": ".draws-player input[max='500']",
    "Sample reuse": "[aria-label^='Relative error over alpha and beta']",
    "Diagnostics": "[aria-label^='Histogram of the weights of E₁']",
    "Amortization map": "[aria-label^='Amortization map']",
    "Evaluation": "text=100 cases drawn from p(y) p(θ)",
    "Train": "role=button[name='Start's]",
}


def a_drag_paints_every_place_of_the_handle_at_once(opened):
    opened.reach(THETA)
    opened.watch_threshold(THETA)
    with opened.dragged(opened.slider(THETA), by=-0.3):
        handle, threshold = opened.seen().T
    assert len(np.unique(handle)) > 10
    np.testing.assert_allclose(threshold, handle, atol=1e-9)


def all_figures_are_those_of_the_core(opened, runs, theta):
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    x = opened.data("densities", "x")
    for name in ("q1_plus", "q2"):
        q = getattr(proposals, name)(*problem.check(1.0, theta))
        with torch.inference_mode():
            expected = q.log_prob(torch.from_numpy(x)[:, None]).exp().numpy()
        shown = opened.data("densities", name.removesuffix("_plus"))
        np.testing.assert_allclose(shown, expected, rtol=1e-8, atol=1e-20)
    draws = opened.data("errors-amci", "draws").astype(int).tolist()
    shown = {"draws": draws, "estimators": shown_estimators(problem, proposals)}
    curves = amci.error_curves(problem, proposals, 1.0, theta, **shown, runs=runs)
    for name in ("amci", "snis-qm"):
        shown = opened.data(f"errors-{name}", "error")
        np.testing.assert_allclose(shown, 100 * np.sqrt(curves[name].remse), rtol=1e-12)
    opened.page.get_by_role("button", name="All numbers").click()
    cells = opened.page.get_by_role("row").filter(has_text="AMCI").get_by_role("cell")
    estimate = amci.estimate(problem, proposals, 1.0, theta, draws=146, seed=0, estimator="amci")
    expect(cells.nth(2)).to_have_text(number(float(estimate.standard_error), 2))


def test_a_moved_handle_has_all_figures_follow_beside_a_kept_case(visit):
    # Fewer runs do not determine the errors, and then a click on them chooses nothing.
    opened = visit("?runs=100")
    # A handle moves as soon as it is seen.
    with opened.dragged(opened.slider(THETA), by=-0.1):
        assert opened.value(THETA) < 3
    a_drag_paints_every_place_of_the_handle_at_once(opened)
    opened.wait("() => !location.search.includes('theta=3')")
    opened.unfold("Compare")
    opened.press("Keep this case as A")
    opened.wait_for_text("This case is kept as A.")
    kept = opened.data("densities", "q1")
    opened.move(THETA, 1.5)
    opened.wait("() => location.search.includes('y=1&theta=1.5')")
    opened.wait_for_text("A, in faint colours, is the case for θ = ")
    np.testing.assert_allclose(opened.wait_for_data("densities-a", "q1"), kept)
    opened.wait_for_end(100)
    opened.wait_for_data("errors-a", "xs")
    opened.press("Stop comparing")
    opened.page.get_by_text("A, in faint colours").wait_for(state="detached")
    all_figures_are_those_of_the_core(opened, 100, 1.5)
    click_on(opened, "errors", 1000, 10)
    opened.wait("() => Number(new URLSearchParams(location.search).get('draws')) > 300")
    opened.press("Reset")
    opened.wait("() => location.search == '?problem=tail-1d&y=1&theta=3'")
    opened.wait_for_value(THETA, 3.0)


def test_each_tab_opens_its_card_and_axe_finds_nothing_in_either_theme(at):
    opened = at()
    for name, content in CARDS.items():
        opened.page.get_by_role("tab", name=name, exact=True).click()
        heading = opened.page.get_by_role("heading", name=name, exact=True)
        expect(heading).to_be_visible()
        # A card out of sight is computed once it is seen, and a page that is laid out can scroll.
        heading.scroll_into_view_if_needed()
        opened.page.locator(content).first.wait_for(state="visible")
    expect(opened.page.get_by_role("alert").filter(visible=True)).to_have_count(0)
    opened.page.get_by_role("tab", name="Diagnostics").click()
    for fold in ("The problem", "Proposals", "Draws, runs, seed", "Your own f"):
        opened.unfold(fold)
    opened.page.get_by_role("button", name="Details").first.click()
    opened.page.get_by_label("Two proposals, as a table").wait_for(state="visible")
    for theme in ("light", "dark"):
        assert violations(opened.page) == [], theme
        # The mouse over it would show its help.
        opened.page.get_by_label("Toggle theme").dispatch_event("click")


def a_server_that_is_away_for_a_while_leads_back(opened, lost):
    """The page asks for the head of a file until it is answered."""
    asked = []

    def refuse(route):
        if route.request.method != "HEAD":
            return route.continue_()
        asked.append(route.request)
        route.abort()

    opened.page.route("**/*", refuse)
    opened.cut()
    expect(lost).to_be_visible()
    while len(asked) < 2:
        opened.wait_for_frames()
    expect(lost).to_be_visible()
    opened.page.unroute("**/*")
    expect(lost).to_have_count(0)
    opened.wait_until_open()


def test_the_tour_goes_on_by_buttons_and_keys_and_survives_a_lost_connection(at):
    opened = at("&tour=two-integrals")
    opened.wait_for_text("Step 1 of 13")
    opened.press("Next")
    opened.wait_for_text("Step 2 of 13")
    opened.page.keyboard.press("Escape")
    opened.page.evaluate("() => document.activeElement?.blur()")
    opened.page.keyboard.press("ArrowRight")
    opened.wait_for_text("Step 3 of 13")
    opened.wait("() => location.search.includes('tour=bound')")
    # A handle keeps its keys.
    opened.slider(Y).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.wait_for_value(Y, 1.01)
    opened.wait("() => location.search.includes('y=1.01')")
    lost = opened.page.get_by_role("alert").get_by_text("connection to the server is lost")
    expect(lost).to_have_count(0)
    a_server_that_is_away_for_a_while_leads_back(opened, lost)
    assert opened.value(Y) == 1.01
    # One that is there and loses the page again leaves it to its visitor.
    opened.cut()
    expect(lost).to_be_visible()
    opened.page.get_by_role("button", name="Reload now").click()
    expect(lost).to_have_count(0)
    opened.wait_until_open()
    # Bokeh complains of what it could not send.
    opened.complaints.clear()
    opened.press("Leave")
    opened.page.get_by_text("Step 3 of 13").wait_for(state="hidden")
    opened.press("Tour")
    opened.wait_for_text("Step 3 of 13")
