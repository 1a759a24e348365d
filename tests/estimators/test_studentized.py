"""The studentized error of an estimate: its cumulants, and the level of its intervals."""

import numpy as np
import pytest
from discrete import signed
from scipy.special import ndtri, stdtrit

from amci_core.estimators import Draws, Points
from amci_core.estimators.studentized import Studentized, studentized
from amci_core.estimators.tables import amci, snis_q2

MODEL = signed()
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])
KNOWN_E2 = amci() * [[1], [0], [0]]


def entering(draws, table, j):
    """w (v[j] . (f_plus, -f_minus, -mu)) at the draws of proposal j, (runs, n)."""
    points = draws.of(j)
    plus, minus, one = table[j]
    factor = plus * points.f_plus - minus * points.f_minus - one * MODEL.mu
    return factor * np.exp(draws.log_weight(j))


@pytest.mark.parametrize("table", [amci(), snis_q2(), REUSE], ids=["amci", "snis-q2", "reuse"])
@pytest.mark.parametrize("paired", [False, True])
def test_cumulants_are_those_of_many_estimates(table, paired):
    # n times the skewness squared and n times the kurtosis of the mean of n draws do not depend
    # on n: they are seen at 4 draws, and told from 2000.
    few, many, runs = 4, 2000, 400_000
    short = MODEL.draws((few, few, few), runs=runs, seed=3)
    rows = [entering(short, table, j) for j in range(3) if table[j].any()]
    error = sum(rows).mean(-1)
    centred = error - error.mean()
    deviation = centred.std()
    skewness, kurtosis = ((centred / deviation) ** 3).mean(), ((centred / deviation) ** 4).mean()
    long = MODEL.draws((many, many, many), runs=50, seed=4)
    found = studentized(table, long, np.full(50, MODEL.mu), paired=paired)
    ratio = many / few
    noise = 4 * ((centred / deviation) ** 3).std() / runs**0.5
    assert found.skewness.mean() * ratio**0.5 == pytest.approx(skewness, abs=0.01 + noise)
    if not paired:
        noise = 4 * ((centred / deviation) ** 4).std() / runs**0.5
        assert found.kurtosis.mean() * ratio == pytest.approx(kurtosis - 3, abs=0.02 + noise)


def lognormal(spread, *, n, runs, seed, log_scale=0.0):
    """Draws whose weights have mean one, with a known E2."""
    z = np.random.default_rng(seed).standard_normal((runs, n))
    log_w = spread * z - spread**2 / 2
    points = Points(
        f_plus=np.ones_like(log_w),
        f_minus=None,
        log_joint=log_w + log_scale,
        log_q=(np.zeros_like(log_w), None, None),
    )
    return Draws((points, None, None), np.zeros(runs))


def test_skew_weights_are_brought_nearer_to_their_level():
    n, runs = 64, 20_000
    draws = lognormal(0.8, n=n, runs=runs, seed=1)
    w = np.exp(draws.log_weight(0))
    value, error = w.mean(-1), w.std(-1, ddof=1) / n**0.5
    reach = studentized(KNOWN_E2, draws, value).quantile(0.95)
    deviations = abs(value - 1) / error
    normal, corrected = (deviations < ndtri(0.975)).mean(), (deviations < reach).mean()
    noise = np.sqrt(0.95 * 0.05 / runs)
    assert normal < 0.95 - 8 * noise
    assert normal + 4 * noise < corrected < 0.95 + 4 * noise


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_a_normal_error_has_students_quantiles(level):
    # The expansion of Student's quantile goes on with 1 / n^2.
    n = 50
    found = Studentized(np.array(0.0), np.array(0.0), np.array(1 / (n - 1)))
    expected = stdtrit(n - 1, (1 + level) / 2)
    assert float(found.quantile(level)) == pytest.approx(expected, abs=20 / n**2)


def test_one_draw_that_outweighs_all_doubles_the_reach():
    draws = lognormal(20.0, n=400, runs=1, seed=2)
    value = np.exp(draws.log_weight(0)).mean(-1)
    found = studentized(KNOWN_E2, draws, value)
    assert found.skewness[0] == pytest.approx(1.0, rel=0.05)
    assert 3.5 < found.quantile(0.95)[0] < 4.5


def test_a_tiny_mu_has_the_cumulants_of_a_large_one():
    large = lognormal(1.0, n=50, runs=5, seed=4)
    tiny = lognormal(1.0, n=50, runs=5, seed=4, log_scale=-600.0)
    of_large, of_tiny = (studentized(KNOWN_E2, draws, np.ones(5)) for draws in (large, tiny))
    np.testing.assert_allclose(of_tiny.skewness, of_large.skewness)
    np.testing.assert_allclose(of_tiny.kurtosis, of_large.kurtosis)


def test_equal_weights_leave_a_normal():
    found = studentized(KNOWN_E2, lognormal(0.0, n=10, runs=3, seed=0), np.ones(3))
    np.testing.assert_allclose(found.quantile(0.95), ndtri(0.975))


@pytest.mark.parametrize("level", [0, 1, 1.5, "half", None])
def test_levels_out_of_range_are_refused(level):
    found = Studentized(np.array(0.0), np.array(0.0), np.array(0.0))
    with pytest.raises(ValueError, match=r"^level: expected a number between 0 and 1, got"):
        found.quantile(level)
