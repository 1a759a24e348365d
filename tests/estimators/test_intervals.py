"""Fieller's interval and the bias of a ratio, against their definitions."""

import numpy as np
import pytest

from amci_core.estimators.intervals import fieller, logarithmic, ratio_bias, ratio_covariance

COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.02]])


@pytest.mark.parametrize("mu", [-2.0, 0.0, 0.3, 5.0])
@pytest.mark.parametrize("z", [0.5, 1.96])
def test_fiellers_ends_lie_z_deviations_away(mu, z):
    for end in fieller(np.array(mu), COVARIANCE, z=z):
        direction = np.array([1.0, -float(end)])
        deviations = (mu - end) / np.sqrt(direction @ COVARIANCE @ direction)
        assert abs(deviations) == pytest.approx(z, rel=1e-9)
    low, high = fieller(np.array(mu), COVARIANCE, z=z)
    assert low < mu < high


def test_fiellers_interval_is_the_delta_methods_where_errors_are_small():
    small, mu = 1e-8 * COVARIANCE, 0.7
    low, high = fieller(np.array(mu), small, z=1.96)
    direction = np.array([1.0, -mu])
    half = 1.96 * np.sqrt(direction @ small @ direction)
    np.testing.assert_allclose([mu - low, high - mu], half, rtol=1e-3)


def test_fiellers_interval_is_infinite_where_e2_is_not_told_from_zero():
    assert fieller(np.array(1.0), 100 * COVARIANCE, z=1.96) == (-np.inf, np.inf)


def test_fiellers_interval_keeps_its_level():
    rng, n = np.random.default_rng(0), 200_000
    numerator, denominator = rng.multivariate_normal([0.3, 1.0], COVARIANCE, size=n).T
    # In units of the estimated denominator, as estimates come.
    scaled = COVARIANCE / denominator[:, None, None] ** 2
    low, high = fieller(numerator / denominator, scaled, z=1.959964)
    covered = ((low <= 0.3) & (0.3 <= high)).mean()
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / n)


def test_the_bias_of_a_ratio_is_that_of_many_ratios():
    rng, n = np.random.default_rng(1), 4_000_000
    small = COVARIANCE / 10
    numerator, denominator = rng.multivariate_normal([0.3, 1.0], small, size=n).T
    ratios = numerator / denominator
    expected = float(ratio_bias(np.array(0.3), small))
    error = ratios.std() / np.sqrt(n)
    # Terms of second order are of relative size Var[E2].
    assert abs(ratios.mean() - 0.3 - expected) < 4 * error + 10 * small[1, 1] * abs(expected)


def test_the_ratios_covariance_takes_terms_in_units_of_e2():
    rng = np.random.default_rng(2)
    root = rng.standard_normal((3, 3))
    terms = root @ root.T
    found = ratio_covariance(terms, np.array(2.0))
    to_ratio = np.array([[1, -1, 0], [0, 0, 1]])
    np.testing.assert_allclose(found, to_ratio @ terms @ to_ratio.T / 4)


def test_the_logarithmic_interval_is_symmetric_in_factors():
    low, high = logarithmic(np.array(1e-20), np.array(2e-20), z=1.0)
    assert low > 0
    assert low * high == pytest.approx(1e-40)
