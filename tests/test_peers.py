"""What AMCI is compared with estimates the same mu."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from peer_cases import Case, problem_of
from peer_methods import METHODS, PROPOSALS
from peer_tables import needs

import amci_core as amci


@pytest.mark.parametrize("name", ["tail-5d", "gain-loss", "corner-peak-5d"])
def test_sobol_points_give_the_truth_and_are_counted(name):
    problem = problem_of(name)
    y, theta = problem.cases(2, seed=3)
    for i in range(2):
        case = Case(problem, *(None if v is None else v[i] for v in (y, theta)))
        found = METHODS["sobol"].run(case, 2.0**15, 0)
        assert abs(found / case.mu - 1) < 0.03
        # As many points as were asked for, but for the rounding to a power of two for each part.
        assert 2**14 <= case.spent <= 2**15


@pytest.mark.parametrize("name", ["tail-5d", "gain-loss"])
def test_the_value_alone_is_that_of_an_estimate(name):
    problem, PROPOSALS[name] = problem_of(name), amci.load_proposals(name)
    case = Case(problem, *problem.cases(4, seed=3))
    e = amci.estimate(
        problem, PROPOSALS[name], *case.given, draws=12, seed=2, estimator="amci", defensive=0
    )
    assert METHODS["amci-value"].batch(case, 12, 2) == pytest.approx(e.value, rel=1e-9)
    assert case.spent == 4 * e.draws


def test_a_need_is_read_between_two_budgets_from_where_the_error_stays_below():
    rows = [
        {"budget": n, "evaluations": n, "ms": 1.0, "rms": rms}
        for n, rms in ((1, 0.001), (10, 1.0), (100, 0.1), (1000, 0.01))
    ]
    # The first budget was lucky. The error falls tenfold for ten times the evaluations.
    assert needs(rows, 0.1**1.5)["evaluations"] == pytest.approx(100 * 10**0.5)
    assert needs(rows, 0.1)["evaluations"] == pytest.approx(100)
    assert needs(rows, 0.001) is None
