"""The product peak: closed forms against quadrature, and estimates whose normalizer is known."""

import numpy as np
import pytest
import torch

import amci_core as amci

PROBLEM = amci.problem("peak")
ORACLE = amci.load_proposals("peak", variant="oracle")


@pytest.mark.parametrize("theta", [(0.5, 0.5, 0.1), (0.3, 0.7, 1.0), (0.0, 1.0, 1.0)])
def test_truth_deviation_and_mismatch_against_quadrature(theta):
    nodes, weights = np.polynomial.legendre.leggauss(800)
    x = torch.from_numpy((nodes + 1) / 2)
    weights = np.outer(weights, weights).ravel() / 4
    f = PROBLEM.f(torch.cartesian_prod(x, x), torch.tensor(theta, dtype=torch.float64)).numpy()
    mu = f @ weights
    assert float(PROBLEM.truth(theta=theta)) == pytest.approx(mu, rel=1e-9)
    deviation = float(PROBLEM.mean_absolute_deviation(theta=theta))
    assert deviation == pytest.approx(abs(f - mu) @ weights, rel=1e-5)
    mismatch = (f * np.log(f)) @ weights / mu - np.log(mu)
    assert float(PROBLEM.mismatch(theta=theta)) == pytest.approx(mismatch, rel=1e-8)


def test_amci_is_exact_with_one_optimal_proposal_and_a_known_normalizer():
    _, theta = PROBLEM.cases(300, seed=1)
    found = amci.estimate(PROBLEM, ORACLE, theta=theta, draws=1)
    np.testing.assert_allclose(found.value, PROBLEM.truth(theta=theta), rtol=1e-13)
    assert found.draws == 1
    assert (found.terms["E2"].value == 1).all()
    assert set(found.diagnostics) == {"E1_plus"}
    curves = amci.error_curves(PROBLEM, ORACLE, theta=theta[0], draws=[10, 100], runs=20)
    # What needs a q2 is left out.
    assert list(curves.by_name) == ["amci", "snis-q1", "bound"]
    assert curves["snis-q1"].remse.min() > 1e-3
