"""The coordinate of a tumour's response: a map, its inverse and its derivative."""

import math

import numpy as np
import pytest
import torch

from amci_core.flows.response import LARGEST_REST, RATE, Response
from amci_core.models.tumour import trajectory

NONE = torch.empty(0)


def epsilons(n=501):
    return torch.linspace(1e-4, 1 - 1e-4, n, dtype=torch.float64)[:, None]


def test_the_inverse_leads_back():
    layer, x = Response(), epsilons()
    u, log_det = layer._inverse(x, NONE)
    assert (u.diff(dim=0) > 0).all()
    back, log_det_back = layer._forward(u, NONE)
    torch.testing.assert_close(back, x, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(log_det, -log_det_back, rtol=0, atol=1e-9)


def test_the_derivative_is_that_of_the_map():
    layer, x = Response(), epsilons().requires_grad_()
    u, log_det = layer._inverse(x, NONE)
    (slope,) = torch.autograd.grad(u.sum(), x)
    torch.testing.assert_close(log_det, slope.log().squeeze(-1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_points_stay_inside_with_finite_densities(dtype):
    u = torch.tensor([[-1e3], [-60.0], [0.0], [30.0], [1e3]], dtype=dtype)
    x, log_det = Response()._forward(u, NONE)
    assert ((x > 0) & (x < 1)).all()
    assert torch.isfinite(log_det).all()


def test_outside_the_interval_the_density_is_zero():
    x = torch.tensor([[0.0], [1.0], [-0.5], [1.5]], dtype=torch.float64)
    _, log_det = Response()._inverse(x, NONE)
    assert (log_det == -math.inf).all()


def test_tumours_come_to_rest_at_the_size_that_the_coordinate_uses():
    for epsilon in (0.3, 0.5, 0.8):
        last = trajectory(500.0, epsilon, np.array([1.0, 2000.0]))[-1]
        assert last == pytest.approx(LARGEST_REST * math.exp(-RATE * epsilon), rel=1e-5)
