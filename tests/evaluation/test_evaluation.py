"""Errors over many cases, also of values that come from elsewhere: what `amci evaluate` prints."""

import numpy as np
import pandas as pd
import pytest
import torch
from hidden import hidden
from imperfect import imperfect

import amci_core as amci
from amci_core.evaluation import read_cases
from amci_core.flows import Proposals
from amci_core.models.tail import GaussianTail

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
TOTALS = (2, 10, 100)
Y, THETA = np.array([[1.0], [0.0], [-1.0]]), np.array([[2.0], [1.0], [0.5]])
MU = PROBLEM.truth(Y, THETA)


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

    def progress(*counts):
        seen.append((*counts, torch.get_num_threads()))

    torch.set_num_threads(2)
    try:
        amci.evaluate(PROBLEM, imperfect(), cases=3, runs=2, draws=[2], progress=progress)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert seen == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]


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
    whole, with_zeros = (
        amci.evaluate(PROBLEM, imperfect(), **settings, truth=mu)
        for mu in (truth, np.where(np.arange(4) < 3, 0.0, truth))
    )
    known, found = whole.estimators["amci"], with_zeros.estimators["amci"]
    # The one relative error that is left.
    assert found["remse_median"] == found["remse_max"]
    assert found["remse_max"][0] <= known["remse_max"][0]
    assert found["mse_median"][0] > 0
    assert (found["failed"], found["cases"], known["cases"]) == ([0], [1], [4])
    said = "amci at 10 draws: median over 1 of 4 cases, 3 have no relative error"
    assert said in str(with_zeros)


def test_cases_and_truths_that_are_given_are_those_that_count():
    how = {"runs": 20, "draws": [10, 100], "seed": 3, "estimators": ["amci"]}
    known = amci.evaluate(PROBLEM, imperfect(), cases=(Y, THETA), **how)
    blind = amci.evaluate(hidden("tail-1d"), imperfect(), cases=(Y, THETA), truth=MU, **how)
    assert known.cases == blind.cases == 3
    assert known.estimators == blind.estimators
    assert blind.below_bound == {}
    assert amci.evaluate(PROBLEM, imperfect(), cases=(1.0, 2.0), **how).cases == 1
    assert amci.evaluate("peak", cases=(None, [[0.5, 0.5, 0.5]] * 2), **how).cases == 2


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (0, r"cases: expected a whole number from 1 .* got 0"),
        ((1.0, 2.0, 3.0), r"cases: expected a whole number from 1 .* got \(1\.0"),
        ((Y, None), "theta: tail-1d needs it .* Pass a number or an array"),
        ((Y, 9.0), r"theta: expected .* within \[0, 5\], got 9"),
        ((Y, THETA[:2]), "y and theta: their batch shapes"),
        ((Y[None], THETA), r"cases: expected .* shape \(cases, D\), got batch shape \(1, 3\)"),
    ],
)
def test_cases_that_do_not_fit_are_refused(cases, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.evaluate(PROBLEM, imperfect(), cases=cases, runs=2, draws=[10])


def test_files_of_both_kinds_hold_the_same_with_a_column_for_each_dimension(tmp_path):
    names = [*(f"y{i}" for i in range(1, 6)), *(f"theta{i}" for i in range(1, 6)), "value"]
    row = [0.1, 0.2, 0.3, 0.4, 0.5, 1.1, 1.2, 1.3, 1.4, 1.5, 0.25]
    frame = pd.DataFrame([row], columns=names)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.assign(error=0.01).to_parquet(tmp_path / "b.parquet")
    for name, error in (("a.csv", 0.0), ("b.parquet", 0.01)):
        found = read_cases(tmp_path / name, amci.problem("tail-5d"))
        fields = (found.y, found.theta, found.value[:, None], found.standard_error[:, None])
        np.testing.assert_array_equal(np.hstack(fields), [[*row, error]])


def test_the_error_of_a_problems_own_truth_is_stated():
    twenty = GaussianTail(20)
    proposals = Proposals("tail-20d", "none", None, None, None)
    how = {"draws": [10, 10**7], "estimators": ["bound"]}
    exact, close = amci.evaluate(twenty, proposals, cases=4, **how).estimators["bound"][
        "reference_limited"
    ]
    # The bound at ten draws is 0.4, and at ten million 4e-7; the truth is known to 1e-3.
    assert exact == 0
    assert close > 0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "table: expected a name that ends in .csv or .parquet"),
        ("a.csv", "y,theta\n1,2", "expected the columns y, theta, value and, .*, got y, theta"),
        ("a.csv", "y,theta,value\n1,2,", "a.csv: expected finite numbers as value"),
        ("a.csv", "y,theta,value\n1,two,3", "a.csv: .*'two'"),
        ("a.csv", "y,theta,value\n1,20,0.1", r"theta: expected .* within \[0, 5\], got 20"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_cases(tmp_path / name, PROBLEM)
