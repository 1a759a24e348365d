"""Errors counted from values that come from elsewhere, with their cases, from Python or a file."""

import numpy as np
import pandas as pd
import pytest
import torch
from hidden import hidden
from imperfect import imperfect

import amci_core as amci
from amci_core.evaluation import KnownCases, read_cases
from amci_core.flows import Proposals
from amci_core.models.gaussian import log_orthant
from amci_core.models.tail import GaussianTail

PROBLEM = amci.problem("tail-1d")
FIVE = amci.problem("tail-5d")
Y, THETA = np.array([[1.0], [0.0], [-1.0]]), np.array([[2.0], [1.0], [0.5]])
MU = PROBLEM.truth(Y, THETA)


def write(folder, text, name="known.csv"):
    path = folder / name
    path.write_text(text)
    return path


def csv(*columns, header="y,theta,value"):
    return "\n".join(
        [header, *(",".join(map(repr, map(float, row))) for row in zip(*columns, strict=True))]
    )


def test_cases_and_truths_that_are_given_are_those_that_count():
    how = {"runs": 20, "draws": [10, 100], "seed": 3, "estimators": ["amci"]}
    known = amci.evaluate(PROBLEM, imperfect(), cases=(Y, THETA), **how)
    blind = amci.evaluate(hidden("tail-1d"), imperfect(), cases=(Y, THETA), truth=MU, **how)
    assert known.cases == blind.cases == 3
    assert known.estimators == blind.estimators
    assert blind.below_bound == {}
    assert amci.evaluate(PROBLEM, imperfect(), cases=(1.0, 2.0), **how).cases == 1
    assert amci.evaluate("peak", cases=(None, [[0.5, 0.5, 0.5]] * 2), **how).cases == 2


def test_a_reference_that_is_too_rough_is_told():
    def evaluated(error):
        known = KnownCases(Y, THETA, MU, np.array([error, 0.0, 0.0]))
        return amci.evaluate(
            PROBLEM,
            imperfect(),
            cases=(Y, THETA),
            truth=known,
            runs=20,
            draws=[10, 1000],
            seed=1,
        )

    rough, exact = evaluated(0.05 * MU[0]), evaluated(0.0)
    assert exact.estimators["amci"]["reference_limited"] == [0.0, 0.0]
    assert rough.estimators["amci"]["reference_limited"] == [0.0, pytest.approx(1 / 3)]
    assert rough.estimators["amci"]["remse_median"] == exact.estimators["amci"]["remse_median"]


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ((Y, None), "theta: tail-1d needs it .* Pass a number or an array"),
        ((Y, 9.0), r"theta: expected .* within \[0, 5\], got 9"),
        ((Y, THETA[:2]), "y and theta: their batch shapes"),
        ((Y[None], THETA), r"cases: expected .* shape \(cases, D\), got batch shape \(1, 3\)"),
    ],
)
def test_cases_that_do_not_fit_are_refused(cases, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.evaluate(PROBLEM, imperfect(), cases=cases, runs=2, draws=[10])


def test_files_of_both_kinds_hold_the_same(tmp_path):
    error = 0.01 * MU
    wanted = KnownCases(Y, THETA, MU, error)
    columns = {"y": Y[:, 0], "theta": THETA[:, 0], "value": MU, "error": error}
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame(columns).to_parquet(tmp_path / "b.parquet")
    for name in ("a.csv", "b.parquet"):
        found = read_cases(tmp_path / name, PROBLEM)
        for field in ("y", "theta", "value", "standard_error"):
            np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))
    plain = read_cases(write(tmp_path, csv(Y[:, 0], THETA[:, 0], MU)), PROBLEM)
    np.testing.assert_array_equal(plain.standard_error, np.zeros(3))


def test_several_dimensions_have_a_column_each(tmp_path):
    names = [f"{name}{i}" for name in ("y", "theta") for i in range(1, 6)]
    row = [0.1, 0.2, 0.3, 0.4, 0.5, 1.1, 1.2, 1.3, 1.4, 1.5, 0.25]
    text = ",".join([*names, "value"]) + "\n" + ",".join(map(str, row))
    found = read_cases(write(tmp_path, text), FIVE)
    np.testing.assert_array_equal(found.y, [row[:5]])
    np.testing.assert_array_equal(found.theta, [row[5:10]])


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
    with pytest.raises(ValueError, match=message):
        read_cases(write(tmp_path, text, name), PROBLEM)


def test_the_error_of_a_problems_own_truth_is_stated():
    twenty = GaussianTail(20)
    y, theta = twenty.cases(4, seed=0)
    # Other Sobol points: their distance is what the truth is off by.
    mean = twenty.posterior_mean(torch.as_tensor(y)).numpy()
    other, _ = log_orthant(mean, twenty.posterior_covariance, theta, seed=1)
    off = np.abs(other - twenty.log_truth(y, theta)[0]).max()
    proposals = Proposals("tail-20d", "none", None, None, None)
    found = amci.evaluate(
        twenty, proposals, cases=(y, theta), draws=[10, 10**7], estimators=["bound"]
    )
    assert 1e-4 < off < 5 * twenty.truth_error(y, theta).max() < 0.1
    # The bound at ten draws is 0.4, and at ten million 4e-7.
    exact, close = found.estimators["bound"]["reference_limited"]
    assert exact == 0
    assert close > 0
