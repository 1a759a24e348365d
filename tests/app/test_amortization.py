import csv

import numpy as np
import pytest

import amci_core as amci
from amci_core.amortization import amortization_map, default_plane
from app import export
from app.amortization import axes_of, plane_of
from app.state import State
from app.store import store_of


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
    found = axes_of(amci.problem(name))
    assert list(found.values()) == axes
    assert set(default_plane(amci.problem(name))) <= set(axes)


def test_a_map_stays_while_the_case_moves_within_its_plane():
    state = State("tail-1d")
    before = plane_of(state.problem, state.choice, ("y", "theta"))
    state.move(y=3.0, theta=0.5)
    state.param.update(draws=9, runs=17, seed=4)
    assert plane_of(state.problem, state.choice, ("y", "theta")) == before
    state.variant = "paper"
    assert plane_of(state.problem, state.choice, ("y", "theta")) != before


def test_a_map_follows_the_coordinates_that_its_axes_keep():
    state = State("peak")
    along = ("theta[0]", "theta[1]")
    before = plane_of(state.problem, state.choice, along)
    state.move(theta=(0.2, 0.9, 0.1))
    assert plane_of(state.problem, state.choice, along) == before
    state.move(theta=(0.2, 0.9, 0.6))
    after = plane_of(state.problem, state.choice, along)
    assert after != before
    assert after.choice.theta[2] == 0.6


def test_terms_are_those_with_proposals():
    assert store_of("tail-1d").terms == ("E1_plus", "E2")
    assert store_of("gain-loss").terms == ("E1_plus", "E1_minus", "E2")
    assert store_of("peak").terms == ("E1_plus",)


def test_the_file_has_one_line_for_every_case():
    problem = amci.problem("tail-1d")
    found = amortization_map(problem, amci.load_proposals("tail-1d"), size=(4, 3), draws=64)
    lines = list(csv.DictReader(export.map_csv(found)))
    assert len(lines) == 12
    for name, values in [
        ("relative_variance", found.relative_variance),
        ("effective_share_E1_plus", found.effective_share[0]),
        ("pareto_k_E2", found.pareto_k[1]),
        ("bound_over_amci", found.bound_ratio),
    ]:
        np.testing.assert_array_equal([float(line[name]) for line in lines], values.ravel())
    np.testing.assert_array_equal([float(line["y"]) for line in lines], np.tile(found.x.values, 3))
