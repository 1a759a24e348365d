"""Layers and splines: what they start from, their ends, gradients far out, what they read."""

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.layers import Radial
from amci_core.flows.spline import Knots, SharedKnots, spline_widths

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


def randomised(cases, bins, scale=1.0):
    """Sizes of bins and free derivatives of splines."""
    widths = spline_widths(bins)
    parameters = torch.randn(cases, sum(widths), dtype=torch.float64, generator=generator())
    return (scale * parameters).split(widths, -1)


def test_the_spline_starts_as_the_identity_and_keeps_the_ends():
    u = torch.linspace(0, 1, 51, dtype=torch.float64)[None]
    x, log_det = SharedKnots(Knots(*randomised(1, 5, scale=0.0))).forward(u)
    torch.testing.assert_close(x, u)
    torch.testing.assert_close(log_det, torch.zeros_like(u), rtol=0, atol=1e-12)
    ends = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(50, 2)
    x, _ = SharedKnots(Knots(*randomised(50, 5, scale=9.0))).forward(ends)
    assert torch.equal(x, ends)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sizes_beyond_the_exponential_s_range_leave_a_spline(dtype):
    sizes = torch.tensor([[-1e4, -1e4, 1e4, 1e4], [-1e4] * 4], dtype=dtype)
    u = torch.linspace(0, 1, 51, dtype=dtype).expand(2, -1)
    x, log_det = SharedKnots(Knots(sizes, torch.zeros(2, 3, dtype=dtype))).forward(u)
    assert torch.isfinite(log_det).all()
    assert (x.diff() > 0).all()
