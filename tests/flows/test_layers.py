"""The layers that flows are made of, against normflows' own."""

import normflows as nf
import numpy as np
import pytest
import torch
from normflows.utils.splines import rational_quadratic_spline

from amci_core.flows.radial import Radial
from amci_core.flows.spline import IDENTITY, SMALLEST, RationalQuadratic


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("inverse", [False, True])
def test_the_spline_is_that_of_normflows(inverse):
    bins, cases, draws = 6, 4, 300
    layer = RationalQuadratic(bins)
    parameters = torch.randn(cases, layer.width, dtype=torch.float64, generator=generator())
    z = torch.rand(cases, draws, 1, dtype=torch.float64, generator=generator(1))
    layer.columns = slice(0, layer.width)
    call = layer.inverse if inverse else layer
    x, log_det = call(z.reshape(-1, 1), context=parameters)

    per_point = parameters.repeat_interleave(draws, dim=0)
    widths, heights, derivatives = per_point.split([bins, bins, bins + 1], dim=-1)
    expected, expected_log_det = rational_quadratic_spline(
        z.flatten(),
        widths,
        heights,
        derivatives + IDENTITY,
        inverse=inverse,
        min_bin_width=SMALLEST,
        min_bin_height=SMALLEST,
        min_derivative=SMALLEST,
    )
    torch.testing.assert_close(x.flatten(), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(log_det, expected_log_det, rtol=1e-8, atol=1e-8)


def test_the_spline_starts_as_the_identity():
    layer = RationalQuadratic(5)
    layer.columns = slice(0, layer.width)
    z = torch.rand(50, 1, dtype=torch.float64, generator=generator())
    x, log_det = layer(z, context=torch.zeros(1, layer.width, dtype=torch.float64))
    torch.testing.assert_close(x, z)
    torch.testing.assert_close(log_det, torch.zeros(50, dtype=torch.float64))


@pytest.mark.parametrize("dim", [1, 3])
def test_the_radial_layer_is_that_of_normflows(dim):
    centre = torch.randn(dim, generator=generator())
    # b may lie anywhere above -a: contracting and expanding layers.
    for a, b in [(0.7, -0.5), (0.7, 2.0), (3.0, -2.9)]:
        theirs = nf.flows.Radial((dim,), z_0=centre[None])
        with torch.no_grad():
            theirs.alpha.fill_(a)
            theirs.beta.fill_(np.log(np.expm1(a + b)))
        ours = Radial(dim).double()
        ours.columns = slice(0, ours.width)
        raw = torch.tensor([np.log(np.expm1(v - 1e-3)) for v in (a, a + b)])
        context = torch.cat([centre.double(), raw])[None]
        z = 2 * torch.randn(100, dim, generator=generator(1))
        x, log_det = ours(z.double(), context=context)
        expected, expected_log_det = theirs(z)
        torch.testing.assert_close(x.float(), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(log_det.float(), expected_log_det, rtol=1e-4, atol=1e-4)
        back, log_det_back = ours.inverse(x, context=context)
        torch.testing.assert_close(back, z.double(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(log_det_back, -log_det, rtol=1e-8, atol=1e-8)


def test_the_radial_inverse_has_a_finite_gradient_far_out():
    layer = Radial(1)
    layer.columns = slice(0, layer.width)
    context = torch.zeros(1, layer.width, requires_grad=True)
    x = torch.tensor([[-1e7], [-1.0], [1e-3], [1e5], [1e7]], requires_grad=True)
    z, log_det = layer.inverse(x, context=context)
    (z.sum() + log_det.sum()).backward()
    assert context.grad is not None
    assert torch.isfinite(context.grad).all()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
