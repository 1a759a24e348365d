"""Splines of the unit interval: normflows' function, looked up in two ways."""

import pytest
import torch
from normflows.utils.splines import rational_quadratic_spline

from amci_core.flows.spline import IDENTITY, SMALLEST, Knots, SharedKnots, spline_widths


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randomised(cases, bins, scale=1.0):
    """Sizes of bins and free derivatives of splines."""
    widths = spline_widths(bins)
    parameters = torch.randn(cases, sum(widths), dtype=torch.float64, generator=generator())
    return (scale * parameters).split(widths, -1)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("cases", [1, 4])
def test_the_spline_is_that_of_normflows(inverse, cases):
    bins, draws = 6, 300
    sizes, free = randomised(cases, bins)
    points = torch.rand(cases, draws, dtype=torch.float64, generator=generator(1))
    widths, heights, derivatives = (
        part.repeat_interleave(draws, dim=0) for part in (*sizes.split(bins, -1), free)
    )
    expected, expected_log_det = rational_quadratic_spline(
        points.flatten(),
        widths,
        heights,
        derivatives + IDENTITY,
        inverse=inverse,
        min_bin_width=SMALLEST,
        min_bin_height=SMALLEST,
        min_derivative=SMALLEST,
    )
    own = Knots(*(part[:, None].repeat(1, draws, 1) for part in (sizes, free)))
    for knots in (SharedKnots(Knots(sizes, free)), own):
        x, log_det = (knots.inverse if inverse else knots.forward)(points)
        torch.testing.assert_close(x.flatten(), expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(log_det.flatten(), expected_log_det, rtol=1e-8, atol=1e-8)


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
