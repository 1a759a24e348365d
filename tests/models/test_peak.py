"""The product peak: closed forms against quadrature, and estimates whose normalizer is known."""

import numpy as np
import pytest
import torch

import amci_core as amci

PROBLEM = amci.problem("peak")
ORACLE = amci.load_proposals("peak", variant="oracle")
POINTS = [(0.5, 0.5, 0.1), (0.3, 0.7, 1.0), (0.0, 1.0, 1.0), (0.2, 0.9, 0.5)]

every_point = pytest.mark.parametrize("theta", POINTS)


def on_a_grid(theta):
    """f at the nodes of a product quadrature, and the weights of these."""
    nodes, weights = np.polynomial.legendre.leggauss(1500)
    nodes, weights = (nodes + 1) / 2, weights / 2
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    x = torch.as_tensor(np.stack([first, second], -1))
    f = PROBLEM.f(x, torch.tensor(theta, dtype=torch.float64)).numpy()
    return f, weights[:, None] * weights


@every_point
def test_truth_deviation_and_mismatch_against_quadrature(theta):
    f, weights = on_a_grid(theta)
    mu = (f * weights).sum()
    assert float(PROBLEM.truth(theta=theta)) == pytest.approx(mu, rel=1e-9)
    deviation = (abs(f - mu) * weights).sum()
    assert float(PROBLEM.mean_absolute_deviation(theta=theta)) == pytest.approx(
        deviation, rel=1e-6
    )
    mismatch = (f * np.log(f) * weights).sum() / mu - np.log(mu)
    assert float(PROBLEM.mismatch(theta=theta)) == pytest.approx(mismatch, rel=1e-8)


def test_the_path_reaches_the_level_asked_for():
    y, theta = PROBLEM.at_mismatch(2.0, theta=(0.3, 0.5, 0.1))
    assert y is None
    assert theta[:2].tolist() == [0.3, 0.5]
    assert float(PROBLEM.mismatch(theta=theta)) == pytest.approx(2.0)


def test_amci_is_exact_with_one_optimal_proposal_and_a_known_normalizer():
    _, theta = PROBLEM.cases(300, seed=1)
    found = amci.estimate(PROBLEM, ORACLE, theta=theta, draws=1)
    np.testing.assert_allclose(found.value, PROBLEM.truth(theta=theta), rtol=1e-13)
    assert found.draws == 1
    assert (found.terms["E2"].value == 1).all()
    assert set(found.diagnostics) == {"E1_plus"}


def test_curves_default_to_what_the_proposals_can_serve():
    curves = amci.error_curves(PROBLEM, ORACLE, theta=POINTS[1], draws=[10, 100], runs=20)
    assert list(curves.by_name) == ["amci", "snis-q1", "bound"]
    assert curves["amci"].remse.max() < 1e-25
    assert curves["snis-q1"].remse.min() > 1e-3
