"""Splines coordinate by coordinate: all coordinates at once against one after the other."""

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.spline import Knots, spline_widths
from amci_core.flows.supports import bounds

NETWORK = {"hidden": (16, 16), "activation": "silu"}
COORDINATES = {
    "tail-5d": [{"kind": "half-line", "scale": 0.5}] * 5,
    "peak": [{"kind": "unit", "centre": 0.5, "scale": 0.3}] * 2,
    "cancer": [
        {"kind": "positive", "centre": 6.2, "scale": 0.2},
        {"kind": "response", "centre": -4.0, "scale": 3.0},
    ],
}


def one_by_one(q, x, y, theta):
    """log q(x), the factors one after the other, every point with a copy of its case."""
    cases, n, dim = x.shape
    y, theta = (None if v is None else v.repeat_interleave(n, 0) for v in (y, theta))
    points, log_q = x.reshape(cases * n, dim), 0.0
    bound = bounds(q.problem, q.bijectors, theta, points)
    features = []
    for i, (bijector, network) in enumerate(zip(q.bijectors, q.networks, strict=True)):
        inputs = torch.cat([network.inputs(y, theta), *features], -1)
        *of_spline, own = network.network(inputs).split(
            [*spline_widths(q.bins), bijector.width], -1
        )
        end = None if bound is None else bound[i]
        z, of_free = bijector.unconstrained(points[:, i : i + 1], end)
        u, of_kind = bijector.cumulative(z, bijector.prepare(own[:, None]))
        _, of_spline = Knots(*of_spline).inverse(u[:, 0])
        log_q = log_q + of_spline[:, None] + sum(v for v in (of_free, of_kind) if v is not None)
        features.append((z - bijector.centre) / bijector.scale)
    return log_q.reshape(cases, n)


@pytest.mark.parametrize("name", COORDINATES)
def test_all_coordinates_at_once_are_the_factors_one_by_one(name):
    problem = amci.problem(name)
    q = FAMILIES["autoregressive-spline"](
        problem, coordinates=COORDINATES[name], bins=8, **NETWORK
    ).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=generator)
    y, theta = problem.check(*problem.cases(4, seed=0))
    density = q(y, theta)
    x = density.draw(40, generator)[0].detach()
    both = density.log_prob(x), one_by_one(q, x, y, theta)
    torch.testing.assert_close(*both, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(log_q.mean(), list(q.parameters())) for log_q in both]
    for at_once, alone in zip(*gradients, strict=True):
        torch.testing.assert_close(at_once, alone, rtol=1e-9, atol=1e-12)
