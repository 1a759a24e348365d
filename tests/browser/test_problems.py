"""Every problem on the page: its handles, its pictures, and the way from one to another."""

import numpy as np
import pytest
from cards import (
    MAP_IMAGE,
    choose,
    computed_diagnosis,
    open_diagnostics,
    open_map,
    wait_for_way,
)
from playwright.sync_api import expect
from visit import DATA

import amci_core as amci
from amci_core.proposals import available_variants
from app.state import State
from app.summary import number

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PROBLEMS = [name for name in amci.problems() if available_variants(name)]


def turn_to(opened, name):
    """Chooses a problem, as a user does."""
    choose(opened, "Problem", amci.problem(name).title)
    opened.wait_for_text(amci.problem(name).description.splitlines()[0][:40])


def wait_for_truth(opened, state):
    """Waits until the strip shows the truth at the state's point."""
    shown = number(float(state.problem.truth(*state.choice.pair)), 4)
    opened.page.get_by_text(shown, exact=True).first.wait_for(state="visible")


def the_mismatch_handle_moves_the_case(opened, state):
    low, high = state.level_range()
    level = round(low + 0.5 * (high - low), 2)
    state.move(level=level)
    opened.move("Mismatch level, nats", level)
    wait_for_truth(opened, state)
    opened.wait_for_text(f"{number(state.level)} nats")


def its_terms_are_diagnosed_on_a_phone(opened, state):
    # On a phone the controls would lie on the cards.
    opened.press("Close drawer")
    opened.page.set_viewport_size({"width": 390, "height": 844})
    open_diagnostics(opened)
    found = computed_diagnosis(state.problem.name, *state.choice.pair, draws=8)
    wait_for_way(opened, found)
    gauges = opened.page.get_by_text("Pareto k-hat", exact=True)
    expect(gauges).to_have_count(len(found.terms))
    # A picture without a width would keep the page waiting.
    opened.wait("() => Bokeh.documents[0].is_idle")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    if state.problem.x.dim > 1:
        first = opened.data("diagnostics-points-E1_plus", "x")
        opened.page.get_by_role("combobox", name="Coordinate of x").click()
        opened.page.get_by_role("menuitem").nth(1).click()
        second = opened.wait_for_other("diagnostics-points-E1_plus", "x", first)
        np.testing.assert_allclose(second, found.terms[0].x[:, 1], rtol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_opens_from_its_address_is_moved_and_diagnosed(visit, name):
    opened = visit(f"?problem={name}&runs=4&draws=8")
    state = State(name)
    wait_for_truth(opened, state)
    opened.wait_for_end(4)
    assert np.nanmax(opened.data("errors-amci", "median")) > 0
    the_mismatch_handle_moves_the_case(opened, state)
    its_terms_are_diagnosed_on_a_phone(opened, state)
    assert opened.complaints == []


def test_problems_are_chosen_on_the_page_and_their_figures_follow(visit):
    # A problem that is not known is reported, and the page opens at the first one.
    opened = visit("?problem=tail-9&runs=4&draws=8")
    opened.wait_for_text("expected one of")
    opened.wait_for_end(4)
    for name in (*PROBLEMS[1:], PROBLEMS[0]):
        turn_to(opened, name)
        wait_for_truth(opened, State(name))
        opened.wait_for_end(4)
        wanted = "" if name == PROBLEMS[0] else name
        opened.wait(
            "name => (new URL(location.href).searchParams.get('problem') ?? '') == name", wanted
        )
        if name == "gain-loss":
            # Three proposals have no (alpha, beta).
            reuse = opened.page.get_by_role("heading", name="Sample reuse")
            assert not reuse.is_visible()
    opened.page.get_by_role("heading", name="Sample reuse").wait_for(state="visible")
    assert opened.complaints == []


def coordinates_move_together_or_one_by_one(opened, state):
    opened.move("Observation y, all coordinates", 1)
    state.move(y=(1.0,) * 5)
    wait_for_truth(opened, state)
    opened.page.get_by_role("button", name="Observation y, one by one").click()
    opened.page.get_by_role("slider", name="Observation y, coordinate 2").wait_for()
    opened.move("Observation y, coordinate 2", 3)
    state.move(y=(1.0, 3.0, 1.0, 1.0, 1.0))
    wait_for_truth(opened, state)
    opened.wait_for_value("Observation y, all coordinates", 1.4)


def another_coordinate_and_another_pair_can_be_looked_at(opened):
    for label, name, source, column in (
        ("Coordinate", "x₄", "marginal-data", "target"),
        ("Pair of coordinates", "x₂, x₅", "plane-q1-data", "xs"),
    ):
        before = opened.page.evaluate(DATA, [source, column])
        choose(opened, label, name)
        opened.wait(
            f"([name, column, old]) => JSON.stringify(({DATA})([name, column])) != old",
            [source, column, opened.page.evaluate("data => JSON.stringify(data)", before)],
        )


def the_map_can_be_called_off_and_run_again(opened):
    open_map(opened)
    opened.wait(f"() => ({MAP_IMAGE})()?.data.value.length")
    opened.page.get_by_role("button", name="Cancel", exact=True).last.click()
    opened.wait_for_text("cancelled after")
    opened.page.get_by_role("button", name="Run again", exact=True).last.click()
    opened.page.get_by_text("cancelled after").wait_for(state="detached")
    # Left alone, it stops.
    opened.page.get_by_role("tab", name="Diagnostics").click()
    opened.page.get_by_role("heading", name="Diagnostics").wait_for(state="visible")
    open_map(opened)
    opened.wait_for_text("s left")


def test_five_coordinates_can_be_moved_and_looked_at(visit):
    opened = visit("?problem=tail-5d&y=0,1,2,3,1&runs=4&draws=8")
    opened.wait_for_end(4)
    another_coordinate_and_another_pair_can_be_looked_at(opened)
    coordinates_move_together_or_one_by_one(opened, State("tail-5d"))
    the_map_can_be_called_off_and_run_again(opened)
