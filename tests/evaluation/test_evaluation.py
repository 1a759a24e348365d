"""Errors over many cases: what `amci evaluate` prints."""

import numpy as np
import pytest
import torch
from imperfect import imperfect

import amci_core as amci

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
TOTALS = (2, 10, 100)


@pytest.fixture(scope="module")
def oracle():
    return amci.evaluate(PROBLEM, ORACLE, cases=40, runs=20, draws=TOTALS, seed=3)


def test_the_bound_is_its_closed_form_over_the_cases(oracle):
    mu = PROBLEM.truth(*PROBLEM.cases(40, seed=3))[:, None]
    expected = 4 * (1 - mu) ** 2 / np.array(TOTALS)
    bound = oracle.estimators["bound"]
    quantiles = {"q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95, "max": 1.0}
    for name, level in quantiles.items():
        np.testing.assert_allclose(
            bound[f"remse_{name}"], np.quantile(expected, level, axis=0), rtol=1e-9
        )
    np.testing.assert_allclose(bound["mse_median"], np.median(expected * mu**2, axis=0), rtol=1e-9)


def test_exact_proposals_beat_the_bound_in_every_case(oracle):
    assert max(oracle.estimators["amci"]["remse_max"]) < 1e-24
    assert oracle.below_bound["amci"] == oracle.surely_below_bound["amci"] == [1.0, 1.0, 1.0]


def test_progress_counts_the_cases_in_one_thread():
    seen, threads = [], torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        amci.evaluate(
            PROBLEM,
            imperfect(),
            cases=3,
            runs=2,
            draws=[2],
            progress=lambda *counts: seen.append((*counts, torch.get_num_threads())),
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert seen == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]


def test_the_same_seed_gives_the_same_errors():
    first, again, other = (
        amci.evaluate(PROBLEM, imperfect(), cases=5, runs=5, seed=s) for s in (1, 1, 2)
    )
    assert first.estimators == again.estimators
    assert first.estimators["amci"] != other.estimators["amci"]


def test_counts_below_the_bound_carry_their_doubt(oracle):
    assert oracle.undecided_bound["amci"] == [0.0, 0.0, 0.0]
    # The mixture of exact proposals sits on the bound: with 20 runs most cases are open.
    assert min(oracle.undecided_bound["snis-qm"][1:]) > 0.5
    for name, below in oracle.below_bound.items():
        surely, open_ = oracle.surely_below_bound[name], oracle.undecided_bound[name]
        assert all(s <= b <= s + o for s, b, o in zip(surely, below, open_, strict=True))


def test_cases_with_mu_zero_count_in_absolute_errors_alone():
    settings = {"cases": 4, "runs": 5, "draws": [10], "estimators": ["amci"], "seed": 2}
    truth = PROBLEM.truth(*PROBLEM.cases(4, seed=2))
    zero = np.where(np.arange(4) < 3, 0.0, truth)
    known = amci.evaluate(PROBLEM, imperfect(), **settings, truth=truth).estimators["amci"]
    with_zeros = amci.evaluate(PROBLEM, imperfect(), **settings, truth=zero)
    found = with_zeros.estimators["amci"]
    # The one relative error that is left.
    assert found["remse_median"] == found["remse_max"]
    assert found["remse_max"][0] <= known["remse_max"][0]
    assert found["mse_median"][0] > 0
    assert (found["failed"], found["cases"], known["cases"]) == ([0], [1], [4])
    assert "amci at 10 draws: median over 1 of 4 cases, 3 have no relative error" in str(
        with_zeros
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cases": 0}, r"cases: expected a whole number from 1 .* got 0"),
        ({"cases": (1.0, 2.0, 3.0)}, r"cases: expected a whole number from 1 .* got \(1\.0"),
        ({"draws": [1]}, r"draws: expected at least 2 draws"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    arguments = {"problem": PROBLEM, "proposals": imperfect(), "cases": 2, "runs": 2} | changed
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.evaluate(**arguments)
