import numpy as np
import pytest
from amci_explorer.compute.results import Result, Results
from amci_explorer.state.case import Case
from amci_explorer.state.options import plane_axes
from amci_explorer.views.amortization import MapCard, plane_choice
from bokeh.events import Tap

import amci_core as amci
from amci_core.amortization import amortization_map, default_plane


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("tail-1d", ["y", "theta"]),
        ("peak", ["theta[0]", "theta[1]", "theta[2]"]),
        ("tail-2d", ["y", "y[0]", "y[1]", "theta", "theta[0]", "theta[1]"]),
    ],
)
def test_axes_are_those_the_controls_move(name, axes):
    found = plane_axes(amci.problem(name))
    assert list(found) == axes
    assert set(default_plane(amci.problem(name))) <= set(axes)


@pytest.mark.parametrize(
    ("name", "along", "same", "other"),
    [
        ("tail-1d", ("y", "theta"), {"y": 3.0, "theta": 0.5}, {"variant": "paper"}),
        (
            "peak",
            ("theta[0]", "theta[1]"),
            {"theta": (0.2, 0.9, 0.85)},
            {"theta": (0.2, 0.9, 0.6)},
        ),
    ],
)
def test_a_map_stays_while_the_case_moves_within_its_plane(name, along, same, other):
    state = Case(name)
    before = plane_choice(state.problem, state.settings, along)
    state.move(**same)
    state.set(draws=9, runs=17, seed=4)
    assert plane_choice(state.problem, state.settings, along) == before
    (state.move if "theta" in other else state.set)(**other)
    after = plane_choice(state.problem, state.settings, along)
    assert after != before
    assert (after.variant, after.theta[2:]) == (state.variant, state.theta[2:])


@pytest.fixture(scope="module")
def found():
    return amortization_map("tail-1d", None, size=(4, 3), draws=64)


def opened(state, found):
    card = MapCard(state, Results())
    card.open()
    card.take(Result(card.asked(state), found, 0.0, complete=True))
    return card


def test_a_click_moves_the_case_to_a_point_of_the_plane_that_is_shown(found):
    state = Case("tail-1d")
    card = opened(state, found)
    card.map.get_root()
    for event in card.map.figure._event_callbacks["tap"]:
        event(Tap(card.map.figure, x=1.234567, y=9.0))
    assert (state.y, state.theta) == ((1.23,), (5.0,))
    assert card.map.source("yours-your case").data == {"y": [1.23], "theta": [5.0]}


def test_the_layer_that_is_chosen_is_drawn(found):
    state = Case("tail-1d")
    card = opened(state, found)
    state.set(layer="pareto-E1_plus")
    image = card.map.shown.Map.I
    np.testing.assert_array_equal(image.dimension_values("value", flat=False), found.pareto_k[0])


def test_a_case_outside_the_plane_is_not_marked():
    state = Case("tail-2d")
    card = opened(state, amortization_map("tail-2d", None, size=2, draws=32))
    assert "Your case: relative variance per draw" in card.text.object
    state.move(y=[1, 0])
    assert "outside this plane" in card.text.object
