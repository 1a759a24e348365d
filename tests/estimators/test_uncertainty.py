"""The error of an estimate: its intervals against their definitions, and their level."""

import numpy as np
import pytest
from discrete import judged, prepared, signed
from scipy.special import ndtri, stdtrit

from amci_core.estimators import Draws
from amci_core.estimators.tables import amci, snis_q2
from amci_core.estimators.uncertainty import central_interval

MODEL = signed()
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])
KNOWN_E2 = amci() * [[1], [0], [0]]
TABLES = {"amci": amci(), "snis-q2": snis_q2(), "reuse": REUSE}
COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.02]])


def fieller(mu, covariance, z):
    """Fieller's ends; the standard error says only where there are none."""
    return central_interval(
        np.asarray(mu), np.ones(np.shape(mu)), covariance, reach=z, reach_of_log=None
    )


@pytest.mark.parametrize("mu", [-2.0, 0.0, 0.3, 5.0])
@pytest.mark.parametrize("z", [0.5, 1.96])
def test_fiellers_ends_lie_z_deviations_away(mu, z):
    for end in fieller(mu, COVARIANCE, z):
        direction = np.array([1.0, -float(end)])
        deviations = (mu - end) / np.sqrt(direction @ COVARIANCE @ direction)
        assert abs(deviations) == pytest.approx(z, rel=1e-9)
    low, high = fieller(mu, COVARIANCE, z)
    assert low < mu < high


def test_fiellers_interval_is_the_delta_methods_where_errors_are_small():
    small, mu = 1e-8 * COVARIANCE, 0.7
    low, high = fieller(mu, small, 1.96)
    direction = np.array([1.0, -mu])
    half = 1.96 * np.sqrt(direction @ small @ direction)
    np.testing.assert_allclose([mu - low, high - mu], half, rtol=1e-3)


def test_fiellers_interval_is_infinite_where_e2_cannot_be_told_from_zero():
    assert fieller(1.0, 100 * COVARIANCE, 1.96) == (-np.inf, np.inf)


def test_fiellers_interval_keeps_its_level():
    rng, n = np.random.default_rng(0), 200_000
    numerator, denominator = rng.multivariate_normal([0.3, 1.0], COVARIANCE, size=n).T
    # In units of the estimated denominator, as estimates come.
    scaled = COVARIANCE / denominator[:, None, None] ** 2
    low, high = fieller(numerator / denominator, scaled, 1.959964)
    covered = ((low <= 0.3) & (0.3 <= high)).mean()
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / n)


def test_the_logarithmic_interval_is_symmetric_in_factors():
    low, high = central_interval(
        np.array(1e-20), np.array(2e-20), COVARIANCE, reach=1.0, reach_of_log=1.0
    )
    assert low > 0
    assert low * high == pytest.approx(1e-40)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("paired", [False, True])
def test_standard_errors_and_biases_are_those_of_many_estimates(name, paired):
    n, runs = 200, 3000
    draws = MODEL.draws((n, n, n), runs=runs, seed=3)
    found = judged(prepared(TABLES[name], draws, paired=paired))
    stated = np.sqrt(np.mean(np.square(found.standard_error)))
    # A sample variance of nearly normal values is known to sqrt(2 / runs).
    assert stated == pytest.approx(found.value.std(), rel=4 / np.sqrt(2 * runs) + 0.02)
    error = found.value.std() / np.sqrt(runs)
    assert abs((found.value - found.bias).mean() - MODEL.mu) < 4 * error + 0.3 * found.bias.std()


def cumulants_of(name, paired, n, runs):
    """Mean cumulants over runs."""
    draws = MODEL.draws((n, n, n), runs=runs, seed=4)
    return judged(prepared(TABLES[name], draws, paired=paired)).uncertainty.cumulants


@pytest.mark.parametrize("name", TABLES)
def test_the_third_cumulant_is_that_of_many_estimates(name):
    # n times the skewness squared does not depend on n: it is seen at 6 draws, told from 2000.
    few, many, runs = 6, 2000, 200_000
    draws = MODEL.draws((few, few, few), runs=runs, seed=3)
    error = np.zeros(runs)
    for j in range(3):
        if TABLES[name][j].any():
            plus, minus, one = TABLES[name][j]
            part = draws.stretch(j)
            f = draws.f[:, part]
            factor = plus * f.clip(min=0) - minus * (-f).clip(min=0)
            error += ((factor - one * MODEL.mu) * np.exp(draws.log_weight(j))).mean(-1)
    standardised = (error - error.mean()) / error.std()
    noise = 4 * (standardised**3).std() / np.sqrt(runs)
    found = cumulants_of(name, False, many, 50).third.mean() * np.sqrt(many / few)
    assert found == pytest.approx((standardised**3).mean(), abs=0.01 + noise)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("paired", [False, True])
def test_the_expansion_is_that_of_the_error_over_its_own_standard_error(name, paired):
    # The variance and the skewness of T = error / standard error, to order 1 / n, against those
    # of many runs: here by Fieller's T, with the standard error at the true mu.
    n, runs = 60, 6_000
    draws = MODEL.draws((n, n, n), runs=runs, seed=5)
    found = judged(prepared(TABLES[name], draws, paired=paired))
    v_11, v_12, v_22 = (found.covariance[:, a, b] for a, b in ((0, 0), (0, 1), (1, 1)))
    T = (found.value - MODEL.mu) / np.sqrt(v_11 - 2 * MODEL.mu * v_12 + MODEL.mu**2 * v_22)
    third, _, with_noise, both, noise = (np.median(c) for c in found.uncertainty.cumulants)
    expected_mean = -with_noise / 2
    expected_variance = 1 + noise - both + 7 / 4 * with_noise**2
    assert T.mean() == pytest.approx(expected_mean, abs=4 / np.sqrt(runs) + 0.02)
    assert T.var() == pytest.approx(expected_variance, abs=4 * np.sqrt(2 / runs) + 0.04)
    skewness = (((T - T.mean()) / T.std()) ** 3).mean()
    assert skewness == pytest.approx(third - 3 * with_noise, abs=4 * np.sqrt(6 / runs) + 0.1)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("n", [20, 60])
def test_intervals_cover_as_often_as_they_say(name, n):
    runs = 8_000
    draws = MODEL.draws((n, n, n), runs=runs, seed=6)
    found = judged(prepared(TABLES[name], draws))
    low, high = found.interval(0.95)
    covered = ((low < MODEL.mu) & (MODEL.mu < high)).mean()
    # What the expansion leaves out is of the order of 1 / n squared, with constants of about ten.
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs) + 12 / n**2 + 0.004


def lognormal(spread, *, n, runs, seed, log_scale=0.0):
    """Draws whose weights have mean one, with a known E2."""
    z = np.random.default_rng(seed).standard_normal((runs, n))
    log_w = spread * z - spread**2 / 2
    return Draws(
        f=np.ones_like(log_w),
        log_joint=log_w + log_scale,
        log_q={0: np.zeros_like(log_w)},
        counts={0: n},
        signed=False,
        log_E2=np.full(runs, log_scale),
    )


@pytest.mark.parametrize("positive", [False, True])
def test_skew_weights_are_brought_nearer_to_their_level(positive):
    n, runs = 64, 20_000
    draws = lognormal(0.8, n=n, runs=runs, seed=1)
    found = judged(prepared(KNOWN_E2, draws), positive=positive)
    low, high = found.interval(0.95)
    covered = ((low < 1) & (high > 1)).mean()
    error = found.standard_error
    w = np.exp(draws.log_weight(0))
    np.testing.assert_allclose(error, w.std(-1, ddof=1) / n**0.5, rtol=1e-9)
    normal = (abs(found.value - 1) < ndtri(0.975) * error).mean()
    noise = np.sqrt(0.95 * 0.05 / runs)
    assert normal < 0.95 - 8 * noise
    assert normal + 4 * noise < covered < 0.95 + 4 * noise


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_a_normal_error_has_students_quantiles(level):
    # f is normal and every weight one: T is Student's. Cumulants of 50 draws are noisy, and the
    # expansion goes on with 1 / n^2.
    n, runs = 50, 1000
    draws = lognormal(0.0, n=n, runs=runs, seed=7)
    f = 10 + np.random.default_rng(8).standard_normal((runs, n))
    normal = Draws(f, draws.log_joint, draws.log_q, draws.counts, True, draws.log_E2)
    found = judged(prepared(KNOWN_E2, normal)).uncertainty.quantile(level)
    expected = stdtrit(n - 1, (1 + level) / 2)
    assert np.median(found) == pytest.approx(expected, abs=25 / n**2 + 0.01)


def test_one_draw_that_outweighs_all_doubles_the_reach():
    found = judged(prepared(KNOWN_E2, lognormal(20.0, n=400, runs=1, seed=2))).uncertainty
    assert found.cumulants.third[0] == pytest.approx(1.0, rel=0.05)
    assert 3.5 < found.quantile(0.95)[0] < 8


def test_a_tiny_mu_has_the_cumulants_of_a_large_one():
    large, tiny = (
        judged(
            prepared(KNOWN_E2, lognormal(1.0, n=50, runs=5, seed=4, log_scale=scale))
        ).uncertainty
        for scale in (0.0, -600.0)
    )
    for one, other in zip(large.cumulants, tiny.cumulants, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_equal_weights_leave_a_normal():
    found = judged(prepared(KNOWN_E2, lognormal(0.0, n=10, runs=3, seed=0))).uncertainty
    np.testing.assert_allclose(found.quantile(0.95), ndtri(0.975))
    assert (found.cumulants.third == 0).all()


@pytest.mark.parametrize("level", [0, 1, 1.5, "half", None])
def test_levels_out_of_range_are_refused(level):
    found = judged(prepared(KNOWN_E2, lognormal(1.0, n=10, runs=1, seed=0))).uncertainty
    with pytest.raises(ValueError, match=r"^level: expected a number between 0 and 1, got"):
        found.quantile(level)
