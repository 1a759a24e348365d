"""Means and quantiles over runs, and how well they are known."""

import numpy as np
import pytest

from amci_core.evaluation.spread import OverRuns, quantiles


@pytest.fixture
def errors():
    return np.square(np.random.default_rng(0).standard_normal((3, 400, 2)))


def test_figures_are_those_of_numpy(errors):
    found = OverRuns(errors)
    np.testing.assert_allclose(found.mean, errors.mean(axis=1))
    np.testing.assert_allclose(found.mean_error, errors.std(axis=1, ddof=1) / 20)
    expected = np.quantile(errors, (0.25, 0.5, 0.75), axis=1)
    np.testing.assert_allclose(found.quartiles, expected)
    assert found.mean_judged.all()
    assert found.median_judged.all()


def test_runs_without_an_estimate_change_nothing_but_their_number(errors):
    with_failures = np.concatenate([errors, np.full((3, 7, 2), np.nan)], axis=1)
    found, plain = OverRuns(with_failures), OverRuns(errors)
    for name in ("mean", "mean_error", "quartiles", "quartiles_error"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name))
    assert (found.failed == 7).all()
    assert (OverRuns(with_failures, np.array([True, False])).failed == [7, 0]).all()
    assert np.isnan(OverRuns(np.full((4, 1), np.nan)).quartiles).all()


def test_a_median_between_two_sizes_is_not_known():
    errors = np.where(np.arange(40) % 2, 1e-6, 1.0)[:, None]
    assert not OverRuns(errors).median_judged[0]
    assert OverRuns(np.sort(errors, axis=0)[:24]).median_judged[0]


def test_a_mean_of_heavy_tailed_errors_is_not_known():
    heavy = np.random.default_rng(1).pareto(0.9, (1000, 1))
    assert not OverRuns(heavy).mean_judged[0]
    assert not OverRuns(np.ones((50, 1))).mean_judged[0]
    assert OverRuns(np.zeros((50, 1))).mean_judged[0]
    assert not OverRuns(np.array([[1.0], [np.inf]] * 20)).mean_judged[0]


def test_errors_that_most_runs_share_do_not_determine_a_mean():
    # A weight of 1e4 in one run of 1e4 makes the estimates unbiased; here no run has it.
    rng = np.random.default_rng(3)
    missing = np.square(rng.normal(-0.7, 0.1, (1000, 1)))
    assert not OverRuns(missing).mean_judged[0]
    # No estimate above mu can be followed by a larger error from mass that is missing.
    assert OverRuns(np.square(rng.normal(7.0, 0.1, (1000, 1)))).mean_judged[0]


@pytest.mark.parametrize(("runs", "expected"), [(20, False), (200, True), (1000, True)])
def test_a_mean_of_normal_errors_is_determined_by_some_hundred_runs(runs, expected):
    errors = np.square(np.random.default_rng(4).standard_normal((runs, 1)))
    assert OverRuns(errors).mean_judged[0] == expected
    # In units in which one run makes up most of the sum.
    errors[0] = runs
    assert not OverRuns(errors).mean_judged[0]


def test_errors_of_quantiles_are_their_spread():
    rng = np.random.default_rng(2)
    values, stated = quantiles(rng.standard_normal((200, 500)), [0.25, 0.5, 0.95])
    np.testing.assert_allclose(np.sqrt(np.mean(stated**2, 1)), values.std(axis=1), rtol=0.2)
    (largest,), (unknown,) = quantiles(np.array([[1.0], [np.inf]]), [1.0])
    assert largest == np.inf
    assert not unknown > 0
