"""The tumour equations: the table against solvers, trajectories, what is refused."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from amci_core.models import tumour
from amci_core.models.tumour import TABLE_ENDS, sizes, trajectory


def reference(c0, epsilon, method="DOP853"):
    """log c5 and log c100, (2, n), by a method of scipy's."""

    def slope(_, state):
        u, v = state.reshape(2, -1)
        growth = -0.1923 * (u - v) - epsilon
        return np.concatenate([growth, 5.85 * np.exp(u - v) - 0.00873 * np.exp(2 * u / 3)])

    start = np.concatenate([np.log(c0), np.full(len(c0), math.log(700))])
    t = [5, 100]
    found = integrate.solve_ivp(slope, (0, 100), start, method, t, rtol=1e-12, atol=1e-12)
    return found.y[: len(c0)].T


def points(n, seed=0, low=TABLE_ENDS[0], high=TABLE_ENDS[1]):
    """Initial sizes, uniform in their logarithm, and responses, some of them at the ends."""
    generator = np.random.default_rng(seed)
    c0 = np.exp(generator.uniform(math.log(low), math.log(high), n))
    epsilon = generator.uniform(0, 1, n)
    epsilon[::10], epsilon[1::10] = 0, 1
    return torch.from_numpy(c0), torch.from_numpy(epsilon)


def extrema(n):
    """Where Chebyshev series of degree below n err most: between the n nodes, and at the ends."""
    return np.cos(np.pi * np.arange(n + 1) / n)


def test_the_table_agrees_with_an_accurate_solver_between_its_nodes_and_at_its_ends():
    middle, half = (tumour.HIGH + tumour.LOW) / 2, (tumour.HIGH - tumour.LOW) / 2
    place = middle + half * extrema(tumour.DEGREE)
    c0 = np.exp(tumour.CENTRE + tumour.WIDTH * np.tan(place)).clip(*TABLE_ENDS)
    epsilon = (1 + extrema(tumour.DEGREE)) / 2
    x = torch.cartesian_prod(torch.from_numpy(c0), torch.from_numpy(epsilon)).unbind(-1)
    found = torch.stack(sizes(*x))
    np.testing.assert_allclose(found, reference(*(z.numpy() for z in x)), rtol=0, atol=1e-8)


def test_the_table_holds_to_its_very_ends():
    c0 = torch.tensor([TABLE_ENDS[0], TABLE_ENDS[1]]).double()
    c0 = torch.cat([c0, c0.nextafter(c0.flip(0)), torch.tensor([1500.0, 6000.0]).double()])
    epsilon = torch.tensor([0.0, 5e-324, 1e-300, 1 - 2**-53, 1.0]).double()
    x = torch.cartesian_prod(c0, epsilon).unbind(-1)
    found = torch.stack(sizes(*x))
    np.testing.assert_allclose(found, reference(*(z.numpy() for z in x)), rtol=0, atol=1e-8)


def test_single_precision_loses_a_few_roundings():
    c0, epsilon = points(3000, low=1e-3, high=1e4)
    single = sizes(c0.float(), epsilon.float())
    assert all(u.dtype == torch.float32 for u in single)
    double = sizes(c0.float().double(), epsilon.float().double())
    np.testing.assert_allclose(torch.stack(single), torch.stack(double), rtol=0, atol=1e-5)


def test_a_table_made_in_inference_mode_serves_outside_of_it():
    c0, epsilon = points(50)
    tumour._coefficients.cache_clear()
    with torch.inference_mode():
        made = torch.stack(sizes(c0, epsilon)).clone()
    outside = c0.clone().requires_grad_()
    found = torch.stack(sizes(outside, epsilon))
    (found * outside).sum().backward()
    np.testing.assert_array_equal(found, made)


def test_the_trajectory_passes_through_the_sizes():
    c0 = np.array([[300.0], [800.0]])
    epsilon = np.array([0.1, 0.5, 0.9])
    log_c5, log_c100 = sizes(torch.tensor(c0), torch.tensor(epsilon))
    c = trajectory(c0, epsilon, [0.0, 5.0, 100.0])
    assert c.shape == (2, 3, 3)
    np.testing.assert_allclose(c[..., 0], c0 + 0 * epsilon)
    np.testing.assert_allclose(np.log(c[..., 1]), log_c5, atol=1e-6)
    np.testing.assert_allclose(np.log(c[..., 2]), log_c100, atol=1e-6)


@pytest.mark.parametrize(
    ("c0", "epsilon", "name"),
    [
        (0.0, 0.3, "c0"),
        (math.nan, 0.3, "c0"),
        (2e6, 0.3, "c0"),
        (500.0, -0.1, "epsilon"),
        (500.0, 1.1, "epsilon"),
        (500.0, math.nan, "epsilon"),
    ],
)
def test_the_equations_refuse_what_they_cannot_solve(c0, epsilon, name):
    with pytest.raises(ValueError, match=f"^{name}: expected .* got"):
        sizes(torch.tensor([c0]), torch.tensor([epsilon]))
    with pytest.raises(ValueError, match=f"^{name}: expected .* got"):
        trajectory(c0, epsilon, [1.0])
