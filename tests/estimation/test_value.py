"""The estimate alone is the value of the estimate that is judged."""

import numpy as np
import pytest

import amci_core as amci
from amci_core.flows import Proposals


@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "cancer", "gain-loss", "peak"])
def test_it_is_the_value_of_the_estimate(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    cases = problem.cases(7, seed=3)
    judged = amci.estimate(problem, proposals, *cases, draws=20, seed=5)
    found = amci.estimate_value(problem, proposals, *cases, draws=20, seed=5)
    assert found.shape == (7,)
    np.testing.assert_allclose(found, judged.value, rtol=1e-9, atol=1e-14)


def test_perfect_proposals_give_the_truth():
    problem = amci.problem("tail-1d")
    oracle = amci.load_proposals("tail-1d", variant="oracle")
    cases = problem.cases(3, seed=0)
    found = amci.estimate_value(problem, oracle, *cases, draws=1)
    np.testing.assert_allclose(found, problem.truth(*cases), rtol=1e-12)


def test_where_no_draw_reaches_f_it_is_zero():
    problem = amci.problem("tail-1d")
    proposals = amci.load_proposals("tail-1d")
    blind = Proposals(problem.name, "blind", proposals.q2, None, proposals.q2)
    assert amci.estimate_value(problem, blind, 0.0, 5.0, draws=10) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"draws": 0}, "draws: expected a whole number from 1"),
        ({"draws": 2.5}, "draws: expected a whole number"),
        ({"draws": 20_000_000}, "draws, of all proposals and pairs together"),
        ({"seed": -1}, "seed: expected"),
        ({"theta": -3.0}, "theta"),
    ],
)
def test_bad_arguments_are_named(options, said):
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    arguments = {"y": 1.0, "theta": 3.0} | options
    with pytest.raises(ValueError, match=f"^{said}"):
        amci.estimate_value(problem, proposals, **arguments)
