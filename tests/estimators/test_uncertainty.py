"""The error of an estimate: its intervals against their definitions, and their level."""

from dataclasses import replace

import numpy as np
import pytest
from discrete import judged, prepared, signed
from scipy.special import stdtrit

from amci_core.estimators import Draws, relative_variance
from amci_core.estimators.tables import amci, snis_q2
from amci_core.estimators.uncertainty import Uncertainty

MODEL = signed()
REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])
KNOWN_E2 = amci() * [[1], [0], [0]]
TABLES = {"amci": amci(), "snis-q2": snis_q2(), "reuse": REUSE}


@pytest.mark.parametrize(("effective", "freedom"), [(60.0, 60.0), (0.5, 1.0), (np.nan, 1e9)])
def test_an_interval_is_students_t_with_the_effective_number_as_degrees(effective, freedom):
    reach = stdtrit(freedom, 0.975) * 0.2
    plain = Uncertainty(*map(np.array, (0.0, 3.0, 0.2, effective)))
    np.testing.assert_allclose(plain.interval(0.95), [3 - reach, 3 + reach], rtol=1e-9)
    low, high = replace(plain, positive=True).interval(0.95)
    np.testing.assert_allclose([low, high], 3 * np.exp([-reach / 3, reach / 3]), rtol=1e-9)
    low, high = replace(plain, high=4.0).interval(0.95)
    # The log-odds of 3 in 4 have the derivative 4 / 3.
    odds = 3 * np.exp([-reach * 4 / 3, reach * 4 / 3])
    np.testing.assert_allclose([low, high], 4 * odds / (1 + odds), rtol=1e-9)


@pytest.mark.parametrize("name", TABLES)
def test_standard_errors_are_those_of_many_estimates(name):
    n, runs = 200, 3000
    draws = MODEL.draws((n, n, n), runs=runs, seed=3)
    found = judged(prepared(TABLES[name], draws))
    stated = np.sqrt(np.mean(np.square(found.standard_error)))
    # A sample variance of nearly normal values is known to sqrt(2 / runs).
    assert stated == pytest.approx(found.value.std(), rel=4 / np.sqrt(2 * runs) + 0.02)
    predicted = np.sqrt(relative_variance(TABLES[name], MODEL.moments((n, n, n))))
    assert stated == pytest.approx(predicted * MODEL.size, rel=0.02)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("n", [20, 60])
def test_intervals_cover_as_often_as_they_say(name, n):
    runs = 8_000
    draws = MODEL.draws((n, n, n), runs=runs, seed=6)
    found = judged(prepared(TABLES[name], draws))
    low, high = found.interval(0.95)
    covered = ((low < MODEL.mu) & (MODEL.mu < high)).mean()
    # Skewness is of the order of 1 / n.
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs) + 0.4 / n


def lognormal(spread, *, n, runs, seed):
    """Draws whose weights have mean one, with a known E2."""
    z = np.random.default_rng(seed).standard_normal((runs, n))
    log_w = spread * z - spread**2 / 2
    zero = np.zeros_like(log_w)
    return Draws(zero + 1, log_w, {0: zero}, {0: n}, False, np.zeros(runs))


@pytest.mark.parametrize("positive", [False, True])
def test_skew_weights_are_brought_nearer_to_their_level(positive):
    n, runs = 64, 10_000
    draws = lognormal(0.8, n=n, runs=runs, seed=1)
    found = judged(prepared(KNOWN_E2, draws), positive=positive)
    low, high = found.interval(0.95)
    covered = ((low < 1) & (high > 1)).mean()
    error = found.standard_error
    w = np.exp(draws.log_weight(0))
    np.testing.assert_allclose(error, w.std(-1, ddof=1) / n**0.5, rtol=1e-9)
    normal = (abs(found.value - 1) < 1.96 * error).mean()
    assert normal < 0.95 - 8 * np.sqrt(0.95 * 0.05 / runs)
    assert abs(covered - 0.95) < abs(normal - 0.95)
