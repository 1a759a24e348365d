"""Splines of the unit interval: normflows' function, looked up in two ways."""

import pytest
import torch
from normflows.utils.splines import rational_quadratic_spline

from amci_core.flows.spline import IDENTITY, SMALLEST, Bins, OwnKnots, Spline, spline_width


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("cases", [1, 4])
def test_the_spline_is_that_of_normflows(inverse, cases):
    bins, draws = 6, 300
    parameters = torch.randn(cases, spline_width(bins), dtype=torch.float64, generator=generator())
    points = torch.rand(cases, draws, dtype=torch.float64, generator=generator(1))
    shared = Spline(bins, parameters).knots(parameters).bins(points, inverse=inverse)
    widths, heights, derivatives = (
        part.repeat_interleave(draws, dim=0)
        for part in parameters.split([bins, bins, bins + 1], dim=-1)
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
    x, log_det = getattr(Bins(*shared), "inverse" if inverse else "forward")(points)
    torch.testing.assert_close(x.flatten(), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(log_det.flatten(), expected_log_det, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("inverse", [False, True])
def test_points_with_knots_of_their_own_find_the_same_bins(inverse):
    bins, draws = 6, 300
    parameters = torch.randn(4, spline_width(bins), dtype=torch.float64, generator=generator())
    points = torch.rand(4, draws, dtype=torch.float64, generator=generator(1))
    spline = Spline(bins, parameters)
    order = torch.tensor(spline.padding)
    padded = parameters[:, order].masked_fill(order < 0, -torch.inf)
    edges, free = spline.edges(padded[:, None].expand(-1, draws, -1))
    own = OwnKnots(edges, free).bins(points, inverse=inverse)
    shared = spline.knots(parameters).bins(points, inverse=inverse)
    torch.testing.assert_close(own, shared, rtol=1e-14, atol=1e-15)


def test_the_spline_starts_as_the_identity_and_keeps_the_ends():
    zero = torch.zeros(1, spline_width(5), dtype=torch.float64)
    u = torch.linspace(0, 1, 51, dtype=torch.float64)[None]
    x, log_det = Bins(*Spline(5, zero).knots(zero).bins(u, inverse=False)).forward(u)
    torch.testing.assert_close(x, u)
    torch.testing.assert_close(log_det, torch.zeros_like(u), rtol=0, atol=1e-12)
    steep = 9 * torch.randn(50, spline_width(5), dtype=torch.float64, generator=generator())
    ends = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(50, 2)
    x, _ = Bins(*Spline(5, steep).knots(steep).bins(ends, inverse=False)).forward(ends)
    assert torch.equal(x, ends)
