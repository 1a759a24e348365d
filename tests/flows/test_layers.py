"""Layers: radial ones against normflows' own."""

import normflows as nf
import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.layers import Radial

PROBLEM = amci.problem("tail-5d")
Y, THETA = PROBLEM.check(*PROBLEM.cases(3, seed=0))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dim", [1, 3])
def test_the_radial_layer_is_that_of_normflows(dim):
    centre = torch.randn(dim, generator=generator())
    # b may lie anywhere above -a: contracting and expanding layers.
    for a, b in [(0.7, -0.5), (0.7, 2.0), (3.0, -2.9)]:
        theirs = nf.flows.Radial((dim,), z_0=centre[None])
        with torch.no_grad():
            theirs.alpha.fill_(a)
            theirs.beta.fill_(np.log(np.expm1(a + b)))
        ours = Radial(dim)
        raw = torch.tensor([np.log(np.expm1(v - 1e-3)) for v in (a, a + b)])
        prepared = ours.prepare(torch.cat([centre.double(), raw])[None])
        z = 2 * torch.randn(100, dim, generator=generator(1))
        x, log_det = ours(z[None].double(), prepared)
        expected, expected_log_det = theirs(z)
        torch.testing.assert_close(x[0].float(), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(log_det[0].float(), expected_log_det, rtol=1e-4, atol=1e-4)
        back, log_det_back = ours.inverse(x, prepared)
        torch.testing.assert_close(back[0], z.double(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(log_det_back, -log_det, rtol=1e-8, atol=1e-8)


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
