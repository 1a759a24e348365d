"""Every problem on the page: its handles, its pictures, and the way from one to another."""

import numpy as np
import pytest
from visit import DATA

import amci_core as amci
from amci_core.proposals import available_variants
from app.state import State
from app.summary import number

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PROBLEMS = [name for name in amci.problems() if available_variants(name)]


def turn_to(opened, name):
    """Chooses a problem, as a user does."""
    opened.page.get_by_role("combobox", name="Problem").click()
    opened.page.get_by_role("menuitem", name=amci.problem(name).title, exact=True).click()
    opened.wait_for_text(amci.problem(name).description.splitlines()[0][:40])


def wait_for_truth(opened, state):
    """Waits until the strip shows the truth at the state's point."""
    shown = number(float(state.problem.truth(*state.choice.pair)), 4)
    opened.page.get_by_text(shown, exact=True).first.wait_for(state="visible")


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_opens_from_its_address_and_finishes(visit, name):
    opened = visit(f"?problem={name}&runs=4&draws=8")
    wait_for_truth(opened, State(name))
    opened.wait_for_end(4)
    assert opened.complaints == []
    median = opened.data("errors-amci", "median")
    assert np.nanmax(median) > 0


def test_problems_are_chosen_on_the_page_and_their_figures_follow(visit):
    opened = visit("?runs=4&draws=8")
    for name in (*PROBLEMS[1:], PROBLEMS[0]):
        turn_to(opened, name)
        wait_for_truth(opened, State(name))
        opened.wait_for_end(4)
        wanted = "" if name == PROBLEMS[0] else name
        opened.wait(
            "name => (new URL(location.href).searchParams.get('problem') ?? '') == name", wanted
        )
    assert opened.complaints == []


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mismatch_handle_moves_the_case(visit, name):
    opened = visit(f"?problem={name}&runs=4&draws=8")
    opened.wait_for_end(4)
    state = State(name)
    low, high = state.level_range()
    level = round(low + 0.5 * (high - low), 2)
    state.move(level=level)
    opened.move("Mismatch level, nats", level)
    wait_for_truth(opened, state)
    opened.wait_for_text(f"{number(state.level)} nats")
    assert opened.complaints == []


def test_coordinates_move_together_or_one_by_one(visit):
    opened = visit("?problem=tail-5d&runs=4&draws=8")
    opened.wait_for_end(4)
    state = State("tail-5d")
    opened.move("Observation y, all coordinates", 1)
    state.move(y=(1.0,) * 5)
    wait_for_truth(opened, state)
    opened.page.get_by_role("button", name="Observation y, one by one").click()
    opened.page.get_by_role("slider", name="Observation y, coordinate 2").wait_for()
    opened.move("Observation y, coordinate 2", 3)
    state.move(y=(1.0, 3.0, 1.0, 1.0, 1.0))
    wait_for_truth(opened, state)
    opened.wait_for_value("Observation y, all coordinates", 1.4)


def test_sharing_samples_is_shown_only_where_there_is_something_to_share(visit):
    opened = visit("?problem=gain-loss&runs=4&draws=8")
    opened.wait_for_end(4)
    assert not opened.page.get_by_role("heading", name="Sample reuse").is_visible()
    turn_to(opened, "tail-1d")
    opened.page.get_by_role("heading", name="Sample reuse").wait_for(state="visible")


def test_an_unknown_problem_in_the_address_is_told_and_the_page_stays(visit):
    opened = visit("?problem=tail-9&runs=4")
    opened.wait_for_text("expected one of")
    opened.wait_for_end(4)


def test_another_coordinate_and_another_pair_can_be_looked_at(visit):
    opened = visit("?problem=tail-5d&y=0,1,2,3,1&runs=4&draws=8")
    opened.wait_for_end(4)
    for label, name, source, column in (
        ("Coordinate", "x₄", "marginal-data", "target"),
        ("Pair of coordinates", "x₂, x₅", "plane-q1-data", "xs"),
    ):
        before = opened.page.evaluate(DATA, [source, column])
        opened.page.get_by_role("combobox", name=label, exact=True).click()
        opened.page.get_by_role("menuitem", name=name, exact=True).click()
        opened.wait(
            f"([name, column, old]) => JSON.stringify(({DATA})([name, column])) != old",
            [source, column, opened.page.evaluate("data => JSON.stringify(data)", before)],
        )
