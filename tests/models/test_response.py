"""The coordinate of a tumour's response: a map, its inverse and its derivative."""

import math

import numpy as np
import pytest
import torch

from amci_core.models.cancer import Response
from amci_core.models.tumour import LOG_REST, REST_RATE, trajectory


def test_the_inverse_leads_back():
    transform = Response()
    x = torch.linspace(1e-4, 1 - 1e-4, 501, dtype=torch.float64)
    u = transform.inv(x)
    assert (u.diff() > 0).all()
    torch.testing.assert_close(transform(u), x, rtol=1e-11, atol=1e-12)


def test_the_derivative_is_that_of_the_map():
    transform = Response()
    x = torch.linspace(1e-4, 1 - 1e-4, 501, dtype=torch.float64).requires_grad_()
    u = transform.inv(x)
    (slope,) = torch.autograd.grad(u.sum(), x)
    log_det = transform.log_abs_det_jacobian(u, x)
    torch.testing.assert_close(-log_det, slope.log(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_points_stay_inside_with_finite_densities(dtype):
    u = torch.tensor([-1e3, -60.0, 0.0, 30.0, 1e3], dtype=dtype)
    x = Response()(u)
    log_det = Response().log_abs_det_jacobian(u, x)
    assert ((x > 0) & (x < 1)).all()
    assert torch.isfinite(log_det).all()


def test_tumours_come_to_rest_at_the_size_that_the_coordinate_uses():
    for epsilon in (0.3, 0.5, 0.8):
        last = trajectory(500.0, epsilon, np.array([1.0, 2000.0]))[-1]
        assert last == pytest.approx(math.exp(LOG_REST - REST_RATE * epsilon), rel=1e-5)
