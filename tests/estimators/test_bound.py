"""The asymptotic bound on self-normalised importance sampling."""

import numpy as np
import pytest

import amci_core as amci
from amci_core.estimators import snis_bound

PROBLEM = amci.problem("tail-1d")


def test_the_bound_of_an_indicator_has_a_closed_form():
    y, theta = PROBLEM.cases(50, seed=0)
    budgets = np.array([2, 10, 1000])
    mu = PROBLEM.truth(y, theta)[:, None]
    relative = snis_bound(PROBLEM.expected_deviation(y, theta), budgets) / mu**2
    np.testing.assert_allclose(relative, 4 * (1 - mu) ** 2 / budgets, rtol=1e-9)


def test_the_bound_is_the_variance_of_the_best_proposal():
    # With q proportional to p |f - mu|, the SNIS error has variance (E|f - mu|)^2 / T.
    p = np.array([0.2, 0.5, 0.3])
    f = np.array([-1.0, 0.5, 4.0])
    deviation = p @ abs(f - p @ f)
    q = p * abs(f - p @ f) / deviation
    variance = q @ (p / q * (f - p @ f)) ** 2
    assert snis_bound(np.array(deviation), [7])[0] == pytest.approx(variance / 7)
