"""The signed problem: closed forms against quadrature, and the estimator with three proposals."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import amci_core as amci

PROBLEM = amci.problem("gain-loss")
ORACLE = amci.load_proposals("gain-loss", variant="oracle")


@pytest.mark.parametrize(
    ("y", "theta"), [(1.0, 0.4), (-1.0, 2.0), (4.0, -2.0), (0.0, 0.0), (8.0, -3.0)]
)
def test_terms_bound_and_mismatch_are_those_of_quadrature(y, theta):
    m, scale = y / 2, math.sqrt(0.5)

    def expected(function, split=theta):
        """E[function(x - split)] under the posterior."""
        return sum(
            integrate.quad(
                lambda x: function(x - split) * stats.norm.pdf(x, m, scale), *ends, epsabs=0
            )[0]
            for ends in ((min(m, split) - 9, split), (split, max(m, split) + 9))
        )

    terms = PROBLEM.log_terms(y, theta)
    plus, minus = (float(np.exp(terms[t] - terms["E2"])) for t in ("E1_plus", "E1_minus"))
    assert plus == pytest.approx(expected(lambda d: max(d, 0)), rel=1e-9)
    assert minus == pytest.approx(expected(lambda d: max(-d, 0)), rel=1e-9)
    assert float(PROBLEM.truth(y, theta)) == pytest.approx(plus - minus, abs=1e-12)
    deviation = float(PROBLEM.mean_absolute_deviation(y, theta))
    assert deviation == pytest.approx(expected(abs, split=m), rel=1e-9)
    entropy = expected(lambda d: abs(d) * math.log(abs(d) or 1.0))
    divergence = entropy / (plus + minus) - math.log(plus + minus)
    assert float(PROBLEM.mismatch(y, theta)) == pytest.approx(divergence, abs=1e-8)


def test_amci_is_exact_with_three_optimal_proposals_whatever_the_shift():
    y, theta = PROBLEM.cases(300, seed=1)
    found = amci.estimate(PROBLEM, ORACLE, y, theta, draws=3)
    terms = PROBLEM.log_terms(y, theta)
    size = sum(np.exp(terms[name] - terms["E2"]) for name in ("E1_plus", "E1_minus"))
    assert set(found.terms) == {"E1_plus", "E1_minus", "E2"}
    # E1_plus and E1_minus are each right to rounding; their difference is to that of their sum.
    assert abs(found.value - PROBLEM.truth(y, theta)).max() < 1e-13 * size.max()
    plain, shifted = (
        amci.estimate(PROBLEM, ORACLE, 1.0, 0.4, draws=3, shift=shift) for shift in (0.0, 0.5)
    )
    assert shifted.value == pytest.approx(float(plain.value), abs=1e-13)
    assert shifted.terms["E1_plus"].value < 0.9 * plain.terms["E1_plus"].value
    with pytest.raises(ValueError, match=r"^shift: expected theta \+ shift within \[-3, 3\]"):
        amci.estimate(PROBLEM, ORACLE, 1.0, 2.5, shift=1.0)
