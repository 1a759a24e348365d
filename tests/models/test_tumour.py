"""The tumour equations: the table against solvers, and trajectories."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from amci_core.models import cancer as tumour
from amci_core.models.cancer import TABLE_ENDS, sizes, trajectory


def reference(c0, epsilon):
    """log c5 and log c100, (2, n), by a method of scipy's."""

    def slope(_, state):
        u, v = state.reshape(2, -1)
        growth = -0.1923 * (u - v) - epsilon
        return np.concatenate([growth, 5.85 * np.exp(u - v) - 0.00873 * np.exp(2 * u / 3)])

    start = np.concatenate([np.log(c0), np.full(len(c0), math.log(700))])
    precision = {"t_eval": [5, 100], "rtol": 1e-12, "atol": 1e-12}
    found = integrate.solve_ivp(slope, (0, 100), start, "DOP853", **precision)
    return found.y[: len(c0)].T


def between_nodes():
    """Where Chebyshev series err most: between the nodes, and at the ends."""
    extrema = np.cos(np.pi * np.arange(tumour.DEGREE + 1) / tumour.DEGREE)
    place = (tumour.HIGH + tumour.LOW) / 2 + (tumour.HIGH - tumour.LOW) / 2 * extrema
    c0 = np.exp(tumour.CENTRE + tumour.WIDTH * np.tan(place)).clip(*TABLE_ENDS)
    return torch.from_numpy(c0), torch.from_numpy((1 + extrema) / 2)


def at_the_ends():
    c0 = torch.tensor([*TABLE_ENDS, 1500.0, 6000.0]).double()
    epsilon = torch.tensor([0.0, 5e-324, 1e-300, 1 - 2**-53, 1.0]).double()
    return torch.cat([c0, c0[:2].nextafter(c0[:2].flip(0))]), epsilon


@pytest.mark.parametrize("axes", [between_nodes, at_the_ends])
def test_the_table_agrees_with_an_accurate_solver(axes):
    x = torch.cartesian_prod(*axes()).unbind(-1)
    found = torch.stack(sizes(*x))
    np.testing.assert_allclose(found, reference(*(z.numpy() for z in x)), rtol=0, atol=1e-8)


def points(n):
    """Initial sizes, uniform in their logarithm, and responses, some of them at the ends."""
    generator = np.random.default_rng(0)
    c0 = np.exp(generator.uniform(math.log(1e-3), math.log(1e4), n))
    epsilon = generator.uniform(0, 1, n)
    epsilon[::10], epsilon[1::10] = 0, 1
    return torch.from_numpy(c0), torch.from_numpy(epsilon)


def test_single_precision_loses_a_few_roundings():
    c0, epsilon = (z.float() for z in points(3000))
    single = torch.stack(sizes(c0, epsilon))
    assert single.dtype == torch.float32
    double = torch.stack(sizes(c0.double(), epsilon.double()))
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5)


def test_a_table_made_in_inference_mode_serves_outside_of_it():
    c0, epsilon = points(50)
    tumour._coefficients.cache_clear()
    with torch.inference_mode():
        made = torch.stack(sizes(c0, epsilon)).clone()
    outside = c0.clone().requires_grad_()
    found = torch.stack(sizes(outside, epsilon))
    (found * outside).sum().backward()
    np.testing.assert_array_equal(found.detach(), made)


def test_the_trajectory_passes_through_the_sizes():
    c0, epsilon = np.array([[300.0], [800.0]]), np.array([0.1, 0.5, 0.9])
    log_c5, log_c100 = sizes(torch.tensor(c0), torch.tensor(epsilon))
    log_c = np.log(trajectory(c0, epsilon, [0.0, 5.0, 100.0]))
    expected = np.stack([np.log(c0) + 0 * epsilon, log_c5, log_c100], -1)
    np.testing.assert_allclose(log_c, expected, atol=1e-6)
