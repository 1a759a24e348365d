"""Layers: gradients far out, and what they read."""

import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.layers import Radial

PROBLEM = amci.problem("tail-5d")
Y, THETA = PROBLEM.check(*PROBLEM.cases(3, seed=0))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_inverse_of_a_radial_layer_has_a_finite_gradient_far_out():
    layer = Radial(1)
    parameters = torch.zeros(1, layer.width, requires_grad=True)
    x = torch.tensor([[[-1e7], [-1.0], [1e-3], [1e5], [1e7]]], requires_grad=True)
    z, log_det = layer.inverse(x, layer.prepare(parameters))
    (z.sum() + log_det.sum()).backward()
    assert torch.isfinite(parameters.grad).all()
    assert torch.isfinite(x.grad).all()


def test_a_proposal_without_theta_is_the_same_for_all_of_them():
    family = FAMILIES["masked-autoregressive"]
    q1, q2 = (
        family(PROBLEM, reads_theta=reads, layers=2, hidden=16, activation="relu").double()
        for reads in (True, False)
    )
    x, other = q1(Y, THETA).draw(10, generator())[0], THETA.flip(0)
    assert torch.equal(q2(Y, THETA).log_prob(x), q2(Y, other).log_prob(x))
    assert not torch.allclose(q1(Y, THETA).log_prob(x), q1(Y, other).log_prob(x))
    assert not torch.allclose(q2(Y, THETA).log_prob(x), q2(Y.flip(0), THETA).log_prob(x))
