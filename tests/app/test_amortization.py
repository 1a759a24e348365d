import csv

import numpy as np
import pytest
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.results import Result, Results
from amci_explorer.state.options import plane_axes
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.amortization import MapCard, plane_choice
from bokeh.events import Tap

import amci_core as amci
from amci_core.amortization import amortization_map, default_plane


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("tail-1d", ["y", "theta"]),
        ("cancer", ["y[0]", "y[1]"]),
        ("peak", ["theta[0]", "theta[1]", "theta[2]"]),
        ("tail-5d", ["y", *(f"y[{i}]" for i in range(5)), "theta"]
         + [f"theta[{i}]" for i in range(5)]),
    ],
)  # fmt: skip
def test_axes_are_those_the_controls_move(name, axes):
    found = plane_axes(amci.problem(name))
    assert list(found) == axes
    assert set(default_plane(amci.problem(name))) <= set(axes)


def test_a_map_stays_while_the_case_moves_within_its_plane():
    state = State("tail-1d")
    before = plane_choice(state.problem, state.settings, ("y", "theta"))
    state.move(y=3.0, theta=0.5)
    state.set(draws=9, runs=17, seed=4)
    assert plane_choice(state.problem, state.settings, ("y", "theta")) == before
    state.set(variant="paper")
    assert plane_choice(state.problem, state.settings, ("y", "theta")) != before


def test_a_map_follows_the_coordinates_that_its_axes_keep():
    state = State("peak")
    along = ("theta[0]", "theta[1]")
    before = plane_choice(state.problem, state.settings, along)
    state.move(theta=(0.2, 0.9, 0.85))
    assert plane_choice(state.problem, state.settings, along) == before
    state.move(theta=(0.2, 0.9, 0.6))
    after = plane_choice(state.problem, state.settings, along)
    assert after != before
    assert after.theta[2] == 0.6


@pytest.fixture(scope="module")
def found():
    problem = amci.problem("tail-1d")
    return amortization_map(problem, amci.load_proposals("tail-1d"), size=(4, 3), draws=64)


def test_a_click_moves_the_case_to_a_point_of_the_plane_that_is_shown(found):
    state = State("tail-1d")
    card = MapCard(state, Results())
    card.open()
    card.take(Result(card.asked(card.state), found, 0.0, complete=True))
    card.map.get_root()
    for event in card.map.figure._event_callbacks["tap"]:
        event(Tap(card.map.figure, x=1.234567, y=9.0))
    assert (state.y, state.theta) == ((1.23,), (5.0,))
    assert card.map.source("yours-your case").data == {"y": [1.23], "theta": [5.0]}


def test_the_layer_that_is_chosen_is_drawn(found):
    state = State("tail-1d")
    card = MapCard(state, Results())
    card.open()
    card.take(Result(card.asked(card.state), found, 0.0, complete=True))
    state.set(layer="pareto-E1_plus")
    image = card.map.shown.Map.I
    np.testing.assert_array_equal(image.dimension_values("value", flat=False), found.pareto_k[0])


def test_terms_are_those_with_proposals():
    assert computations_of("tail-1d").terms == ("E1_plus", "E2")
    assert computations_of("gain-loss").terms == ("E1_plus", "E1_minus", "E2")
    assert computations_of("peak").terms == ("E1_plus",)


def test_the_file_has_one_line_for_every_case(found):
    text = export.table(("B", export.frame(found), {"problem": "tail-1d"}))
    assert text.readline() == "# problem=tail-1d\n"
    lines = list(csv.DictReader(text))
    assert len(lines) == 12
    for name, values in [
        ("relative_variance", found.relative_variance),
        ("relative_ess_E1_plus", found.relative_ess[0]),
        ("pareto_k_E2", found.pareto_k[1]),
        ("bound_over_amci", found.bound_ratio),
    ]:
        np.testing.assert_array_equal([float(line[name]) for line in lines], values.ravel())
    np.testing.assert_array_equal([float(line["y"]) for line in lines], np.tile(found.x.values, 3))
