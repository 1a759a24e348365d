"""Splines of the unit interval: normflows' function, looked up in two ways."""

import pytest
import torch

from amci_core.flows.spline import Knots, SharedKnots, spline_widths


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
