"""Every problem on the page: its handles, its pictures, and the way from one to another."""

import re

import numpy as np
import pytest
from amci_explorer.compute.computations import TOTALS
from amci_explorer.numbers.case import shown_estimators
from amci_explorer.problems.presets import PRESETS
from amci_explorer.state.case import Case
from amci_explorer.text import number
from cards import (
    choose,
    click_on_map,
    computed_diagnosis,
    open_diagnostics,
    open_map,
    wait_for_map,
    wait_for_way,
)
from playwright.sync_api import expect
from visit import DATA

import amci_core as amci
from amci_core.proposals import available_variants

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

PROBLEMS = [name for name in amci.problems() if available_variants(name)]


def turn_to(opened, name):
    """Chooses a problem, as a user does."""
    choose(opened, "Problem", amci.problem(name).title)
    opened.unfold("The problem")
    opened.wait_for_text(amci.problem(name).description.splitlines()[0][:40])


def wait_for_case(opened, state):
    """Waits until the page is at the state's problem and point; its cards then speak of these."""
    opened.wait(
        """asked => {
            const address = new URL(location.href).searchParams
            return Object.entries(asked).every(([name, value]) => address.get(name) == value)
        }""",
        {name: state.link().get(name) for name in ("problem", "y", "theta")},
    )


def wait_for_truth(opened, state):
    """Waits until the strip shows the truth at the state's point."""
    shown = number(float(state.problem.truth(*state.settings.pair)), 4)
    opened.page.get_by_text(re.compile(rf"truth {re.escape(shown)}$")).first.wait_for()


def the_mismatch_handle_moves_the_case(opened, state):
    low, high = state.level_range()
    level = round(low + 0.5 * (high - low), 2)
    state.move(level=level)
    opened.move("Mismatch, nats", level)
    wait_for_truth(opened, state)
    known = state.problem.mismatch(*state.settings.pair)
    opened.wait_for_text(f"{number(float(known))} nats")


def its_terms_are_diagnosed_on_a_phone(opened, state):
    opened.page.set_viewport_size({"width": 390, "height": 844})
    open_diagnostics(opened)
    found = computed_diagnosis(state.problem.name, *state.settings.pair, draws=state.draws)
    wait_for_way(opened, found)
    limits = opened.page.get_by_text("Pareto k-hat", exact=True)
    expect(limits).to_be_visible()
    # A picture without a width would keep the page waiting.
    opened.wait("() => Bokeh.documents[0].is_idle")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390


def the_curves_are_those_of_the_core(opened, state):
    problem = state.problem
    proposals = amci.load_proposals(problem.name)
    # Those of the estimate that is shown are among them; a preset sets its draws back.
    draws = opened.data("errors-amci", "draws").astype(int).tolist()
    assert set(draws) >= set(TOTALS)
    settings = {"draws": draws, "runs": 4, "seed": state.seed}
    names = shown_estimators(problem, proposals)
    curves = amci.error_curves(
        problem, proposals, *state.settings.pair, **settings, estimators=names
    )
    expected = 100 * np.sqrt(np.clip(curves["amci"].remse_median, 1e-18, None))
    np.testing.assert_allclose(opened.data("errors-amci", "median"), expected, rtol=1e-9)


def is_moved_and_diagnosed(opened, state):
    wait_for_case(opened, state)
    wait_for_truth(opened, state)
    opened.wait_for_end(4)
    the_curves_are_those_of_the_core(opened, state)
    the_mismatch_handle_moves_the_case(opened, state)
    its_terms_are_diagnosed_on_a_phone(opened, state)
    opened.page.set_viewport_size({"width": 1440, "height": 900})


def is_chosen_and_its_figures_follow(opened, name, draws):
    turn_to(opened, name)
    # Another problem has fewer of them, or more.
    for preset in PRESETS[name]:
        expect(opened.page.get_by_role("button", name=preset.name, exact=True)).to_be_visible()
    state = Case(name)
    state.set(draws=draws)
    is_moved_and_diagnosed(opened, state)
    tab = opened.page.get_by_role("tab", name="Sample reuse")
    if name == "gain-loss":
        # Three proposals have no (alpha, beta).
        expect(tab).to_be_disabled()
    else:
        tab.click()
        opened.page.get_by_role("heading", name="Sample reuse").wait_for(state="visible")


def coordinates_move_together_or_one_by_one(opened, state):
    opened.move("Observation y, all 5", 1)
    state.move(y=(1.0,) * 5)
    wait_for_truth(opened, state)
    opened.unfold("Each y")
    opened.page.get_by_role("slider", name="Observation y, coordinate 2").wait_for()
    opened.move("Observation y, coordinate 2", 3)
    state.move(y=(1.0, 3.0, 1.0, 1.0, 1.0))
    wait_for_truth(opened, state)
    opened.wait_for_value("Observation y, all 5", 1.4)


def another_coordinate_and_another_pair_can_be_looked_at(opened):
    for label, name, source, column in (
        ("Coordinate", "x₄", "marginal", "target"),
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
    opened.press_in("Amortization map", "Cancel")
    opened.wait_for_text("Cancelled")
    opened.press_in("Amortization map", "Run")
    opened.page.get_by_text("Cancelled").wait_for(state="detached")
    # Left alone, it stops.
    opened.page.get_by_role("tab", name="Diagnostics").click()
    opened.page.get_by_role("heading", name="Diagnostics").wait_for(state="visible")
    open_map(opened)
    opened.wait_for_text("s left")


def a_tab_without_sense_is_disabled(opened):
    opened.wait_for_text("No sample reuse for this problem: E₂ is known")
    expect(opened.page.get_by_role("tab", name="Sample reuse")).to_be_disabled()


def another_plane_of_the_map_keeps_other_coordinates(opened):
    open_map(opened)
    choose(opened, "Vertical axis", "Sharpness s")
    opened.wait(
        "() => Bokeh.documents[0].get_model_by_name('amortization-map')?"
        ".left[0].axis_label == 'Sharpness s'"
    )
    wait_for_map(opened)
    click_on_map(opened, 0.25, 0.75)
    opened.wait_for_value("Centre u₁", 0.25, within=0.02)
    opened.wait_for_value("Sharpness s", 0.75, within=0.02)
    assert opened.value("Centre u₂") == float(PRESETS["peak"][0].link["theta"].split(",")[1])
    # A preset's address, which does not name theta, is then not that from before the click.
    opened.wait("() => new URL(location.href).searchParams.has('theta')")


def test_five_coordinates_are_moved_and_looked_at_and_other_problems_chosen(visit):
    opened = visit("?problem=tail-5d&y=0,1,2,3,1&runs=4&draws=8")
    opened.wait_for_end(4)
    state = Case("tail-5d")
    state.set(draws=8)
    another_coordinate_and_another_pair_can_be_looked_at(opened)
    coordinates_move_together_or_one_by_one(opened, state)
    the_map_can_be_called_off_and_run_again(opened)
    is_moved_and_diagnosed(opened, state)
    # A last move that the server puts off does not move the problem that comes next.
    opened.slider("Observation y, all 5").focus()
    for _ in range(5):
        opened.page.keyboard.press("ArrowRight")
    for name in ("gain-loss", "tail-1d"):
        is_chosen_and_its_figures_follow(opened, name, draws=8)


def test_a_known_normalizer_leaves_a_tab_without_sense_and_other_problems_are_chosen(visit):
    # With the preset's draws: its curves are then those from the beginning, and not new ones.
    opened = visit("?problem=peak&runs=4&draws=64")
    a_tab_without_sense_is_disabled(opened)
    opened.wait_for_end(4)
    another_plane_of_the_map_keeps_other_coordinates(opened)
    opened.press(PRESETS["peak"][0].name)
    is_moved_and_diagnosed(opened, Case("peak"))
    for name in set(PROBLEMS) - {"tail-1d", "tail-5d", "gain-loss", "peak"}:
        is_chosen_and_its_figures_follow(opened, name, draws=64)
        # Between the sizes of one problem the point would be kept.
        turn_to(opened, "peak")
