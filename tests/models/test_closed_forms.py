"""The signed problem and the peak: closed forms, and estimates of their optimal proposals."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import amci_core as amci

GAIN, PEAK = amci.problem("gain-loss"), amci.problem("peak")


@pytest.mark.parametrize(
    ("y", "theta"), [(1.0, 0.4), (-1.0, 2.0), (4.0, -2.0), (0.0, 0.0), (8.0, -3.0)]
)
def test_gains_and_losses_agree_with_quadrature(y, theta):
    m, scale = y / 2, math.sqrt(0.5)

    def expected(function, split=theta):
        """E[function(x - split)] under the posterior."""
        return sum(
            integrate.quad(
                lambda x: function(x - split) * stats.norm.pdf(x, m, scale), *ends, epsabs=0
            )[0]
            for ends in ((min(m, split) - 9, split), (split, max(m, split) + 9))
        )

    terms = GAIN.log_terms(y, theta)
    plus, minus = (float(np.exp(terms[t] - terms["E2"])) for t in ("E1_plus", "E1_minus"))
    assert plus == pytest.approx(expected(lambda d: max(d, 0)), rel=1e-9)
    assert minus == pytest.approx(expected(lambda d: max(-d, 0)), rel=1e-9)
    assert float(GAIN.truth(y, theta)) == pytest.approx(plus - minus, abs=1e-12)
    deviation = float(GAIN.mean_absolute_deviation(y, theta))
    assert deviation == pytest.approx(expected(abs, split=m), rel=1e-9)
    entropy = expected(lambda d: abs(d) * math.log(abs(d) or 1.0))
    divergence = entropy / (plus + minus) - math.log(plus + minus)
    assert float(GAIN.mismatch(y, theta)) == pytest.approx(divergence, abs=1e-8)


@pytest.mark.parametrize("theta", [(0.5, 0.5, 0.1), (0.3, 0.7, 1.0), (0.0, 1.0, 1.0)])
def test_the_peak_agrees_with_quadrature(theta):
    nodes, weights = np.polynomial.legendre.leggauss(800)
    x = torch.from_numpy((nodes + 1) / 2)
    weights = np.outer(weights, weights).ravel() / 4
    f = PEAK.f(torch.cartesian_prod(x, x), torch.tensor(theta, dtype=torch.float64)).numpy()
    mu = f @ weights
    assert float(PEAK.truth(theta=theta)) == pytest.approx(mu, rel=1e-9)
    deviation = float(PEAK.mean_absolute_deviation(theta=theta))
    assert deviation == pytest.approx(abs(f - mu) @ weights, rel=1e-5)
    mismatch = (f * np.log(f)) @ weights / mu - np.log(mu)
    assert float(PEAK.mismatch(theta=theta)) == pytest.approx(mismatch, rel=1e-8)


@pytest.mark.parametrize(
    ("problem", "terms", "draws"),
    [(GAIN, {"E1_plus", "E1_minus", "E2"}, 3), (PEAK, {"E1_plus"}, 1)],
)
def test_amci_is_exact_with_one_draw_of_each_optimal_proposal(problem, terms, draws):
    y, theta = problem.cases(300, seed=1)
    found = amci.estimate(problem, "oracle", y, theta, draws=draws)
    log_terms = problem.log_terms(y, theta)
    size = sum(np.exp(log_terms[term] - log_terms["E2"]) for term in terms - {"E2"})
    assert set(found.diagnostics) == terms
    # Each term is right to rounding; a difference is to that of their sum.
    assert (abs(found.value - problem.truth(y, theta)) < 1e-13 * size.max()).all()


def test_a_shift_changes_the_terms_and_not_the_estimate():
    plain, shifted = (
        amci.estimate(GAIN, "oracle", 1.0, 0.4, draws=3, shift=shift) for shift in (0.0, 0.5)
    )
    assert shifted.value == pytest.approx(float(plain.value), abs=1e-13)
    assert shifted.terms["E1_plus"].value < 0.9 * plain.terms["E1_plus"].value
    with pytest.raises(ValueError, match=r"^shift: expected theta \+ shift within \[-3, 3\]"):
        amci.estimate(GAIN, "oracle", 1.0, 2.5, shift=1.0)


def test_curves_leave_out_what_needs_a_q2():
    curves = amci.error_curves(PEAK, "oracle", theta=(0.3, 0.7, 1.0), draws=[10, 100], runs=20)
    assert list(curves.by_name) == ["amci", "snis-q1", "bound"]
    assert curves["snis-q1"].remse.min() > 1e-3
