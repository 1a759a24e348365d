"""Facts that hold for every family of conditional flows: a new family is one line of FLOWS."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.density import FlowProposal

PROBLEM = amci.problem("tail-1d")
NETWORK = {"hidden": (16, 16), "activation": "silu"}
FLOWS: dict[str, Callable[[], FlowProposal]] = {
    "gaussian": partial(FAMILIES["gaussian"], PROBLEM, reads_theta=True, **NETWORK),
    "gaussian, affine in y": partial(
        FAMILIES["gaussian"], PROBLEM, reads_theta=False, hidden=(), activation="relu"
    ),
    "half-line-spline": partial(FAMILIES["half-line-spline"], PROBLEM, bins=8, **NETWORK),
    "half-line-spline, vanishing": partial(
        FAMILIES["half-line-spline"], PROBLEM, bins=8, vanishing=True, **NETWORK
    ),
    "radial, as q1": partial(
        FAMILIES["radial"], PROBLEM, reads_theta=True, layers=10, shift=True, **NETWORK
    ),
    "radial, as q2": partial(
        FAMILIES["radial"],
        PROBLEM,
        reads_theta=False,
        layers=2,
        shift=False,
        hidden=(16,),
        activation="relu",
    ),
}
SHIPPED = [(variant, q) for variant in ("spline", "paper") for q in ("q1_plus", "q2")]
CASES = [(1.0, 3.0), (0.3, 0.0), (8.0, 5.0), (-8.0, 5.0)]

every_flow = pytest.mark.parametrize("name", FLOWS)
every_case = pytest.mark.parametrize(("y", "theta"), CASES)


def randomised(name: str, seed: int = 0) -> FlowProposal:
    """A flow whose parameters are of order one everywhere, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    proposal = FLOWS[name]().double()
    with torch.no_grad():
        for parameter in proposal.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=generator)
    return proposal


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@every_flow
def test_draws_and_densities_broadcast(name):
    proposal = randomised(name)
    y, theta = PROBLEM.check([[[-8.0]], [[1.0]], [[8.0]]], [[0.5], [5.0]])
    assert theta is not None
    density = proposal(y, theta)
    assert density.batch_shape == (3, 2)
    x, log_q = density.draw(7, generator())
    assert x.shape == (3, 2, 7, 1)
    assert log_q.shape == (3, 2, 7)
    assert density.log_prob(x).shape == (3, 2, 7)
    for row, column in np.ndindex(3, 2):
        alone = proposal(y[row, column], theta[row, column]).log_prob(x[row, column])
        torch.testing.assert_close(density.log_prob(x)[row, column], alone, rtol=1e-10, atol=1e-10)
    shared = torch.linspace(5.1, 7, 7, dtype=torch.float64)[:, None]
    torch.testing.assert_close(
        density.log_prob(shared), density.log_prob(shared.expand(3, 2, 7, 1))
    )


@every_flow
def test_every_parameter_gets_a_gradient(name):
    proposal = randomised(name)
    y, theta = PROBLEM.check(*PROBLEM.cases(32, seed=0))
    density = proposal(y, theta)
    x, _ = density.draw(8, generator())
    density.log_prob(x.detach()).mean().backward()
    for parameter in proposal.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert (parameter.grad != 0).any()


@every_flow
@every_case
def test_inverse_of_forward_is_the_identity(name, y, theta):
    proposal = randomised(name)
    context = proposal.context(*PROBLEM.check([[y]], [[theta]]))
    z = proposal(*PROBLEM.check([[y]], [[theta]])).noise(500, generator())
    x = proposal.flow(z, context=context)
    torch.testing.assert_close(proposal.flow.inverse(x, context=context), z, rtol=1e-9, atol=1e-9)


@every_flow
@every_case
def test_log_determinant_is_that_of_autograd(name, y, theta):
    proposal = randomised(name)
    density = proposal(*PROBLEM.check(y, theta))
    z = density.noise(200, generator()).requires_grad_()
    x, log_q = density.transport(z)
    (slope,) = torch.autograd.grad(x.sum(), z)
    expected = proposal.flow.q0.log_prob(z) - slope.abs().log().squeeze(-1)
    torch.testing.assert_close(log_q, expected, rtol=1e-9, atol=1e-9)


@every_flow
@every_case
def test_draws_know_their_density(name, y, theta):
    density = randomised(name)(*PROBLEM.check(y, theta))
    x, log_q = density.draw(500, generator())
    torch.testing.assert_close(density.log_prob(x), log_q, rtol=1e-8, atol=1e-8)


@every_flow
@every_case
@pytest.mark.parametrize("seed", [0, 1])
def test_densities_integrate_to_one(name, y, theta, seed):
    proposal = randomised(name, seed)
    density = proposal(*PROBLEM.check(y, theta))
    x, _ = density.draw(500, generator())
    assert abs(1.0 - integral(density, x, lower=theta if proposal.bounded else None)) < 1e-6


@pytest.mark.parametrize(("variant", "q"), SHIPPED)
@pytest.mark.parametrize(
    ("y", "theta"), [(8.0, 5.0), (-8.0, 5.0), (-8.0, 0.0), (8.0, 0.0), (1.0, 3.0)]
)
def test_what_is_shipped_is_a_density_and_knows_it(variant, q, y, theta):
    proposal = getattr(amci.load_proposals("tail-1d", variant=variant), q)
    density = proposal(*PROBLEM.check(y, theta))
    x, log_q = density.draw(2000, generator())
    torch.testing.assert_close(density.log_prob(x), log_q, rtol=1e-8, atol=1e-8)
    assert abs(1.0 - integral(density, x, lower=theta if proposal.bounded else None)) < 1e-6


@torch.no_grad()
def integral(density, x, lower):
    """Adaptive Gauss-Legendre over the gaps between draws, and on to far beyond the last ones.

    A gap is halved until halving changes nothing: a density has kinks at a spline's knots and at
    a radial layer's centre.
    """
    x = x.flatten().sort().values.numpy()
    beyond = (x[-1] - x[0]) * np.expm1(np.linspace(0, np.log(50), 100))[1:]
    left = [lower] if lower is not None else x[0] - beyond[::-1]
    edges = np.concatenate([left, x, x[-1] + beyond])
    gaps = np.stack([edges[:-1], edges[1:]])
    coarse, total = gauss_legendre(density, gaps), 0.0
    while gaps.size:
        low, high = gaps
        halves = np.stack([[low, (low + high) / 2], [(low + high) / 2, high]])
        fine = gauss_legendre(density, halves)
        settled = abs(fine.sum(axis=0) - coarse) < 1e-11
        total += fine[:, settled].sum()
        gaps = np.concatenate(halves[..., ~settled], axis=-1)
        coarse = np.concatenate(fine[:, ~settled])
    return total


def gauss_legendre(density, gaps):
    nodes, weights = np.polynomial.legendre.leggauss(8)
    low, high = np.moveaxis(gaps, -2, 0)
    half = (high - low)[..., None] / 2
    points = low[..., None] + half * (1 + nodes)
    values = density.log_prob(torch.as_tensor(points).reshape(-1, 1)).exp().numpy()
    return (half * weights * values.reshape(points.shape)).sum(axis=-1)


@every_flow
def test_the_conditioner_runs_once_per_case(name):
    proposal = randomised(name)
    seen = []
    proposal.conditioner.network.register_forward_hook(
        lambda module, inputs, output: seen.append(len(inputs[0]))
    )
    density = proposal(*PROBLEM.check([[0.0], [1.0], [2.0]], 3.0))
    x, _ = density.draw(50, generator())
    density.log_prob(x)
    assert seen == [3]


@every_flow
def test_building_and_drawing_leave_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    first = FLOWS[name]()
    y, theta = torch.tensor([1.0]), torch.tensor([3.0])
    x, _ = first(y, theta).draw(5, generator(1))
    assert torch.equal(torch.random.get_rng_state(), before)
    again, _ = FLOWS[name]()(y, theta).draw(5, generator(1))
    assert torch.equal(x, again)
    other, _ = first(y, theta).draw(5, generator(2))
    assert (x != other).all()


@every_flow
def test_initialising_by_seed(name):
    first, second = FLOWS[name](), FLOWS[name]()
    first.conditioner.initialize(generator(5))
    weights = {key: value.clone() for key, value in first.state_dict().items()}
    second.conditioner.initialize(generator(5))
    torch.testing.assert_close(second.state_dict(), weights, rtol=0, atol=0)
    second.conditioner.initialize(generator(6))
    assert any(not torch.equal(weights[k], v) for k, v in second.state_dict().items())


def test_a_bounded_density_lives_above_the_bound():
    proposal = randomised("half-line-spline")
    density = proposal(*PROBLEM.check(1.0, 3.0))
    outside = torch.tensor([[3.0], [2.0], [-100.0]], dtype=torch.float64)
    assert (density.log_prob(outside) == -torch.inf).all()
    # The end of the unit interval is carried onto the bound: rounding must not leave it there.
    for precision in (torch.float32, torch.float64):
        x, _ = proposal.to(precision)(
            torch.tensor([1.0], dtype=precision), torch.tensor([3.0], dtype=precision)
        ).transport(torch.ones(1, 1, dtype=precision))
        assert (x > 3).all()
        assert torch.allclose(x, torch.full_like(x, 3), atol=1e-5)


def test_an_unknown_activation_is_named():
    with pytest.raises(ValueError, match=r"^activation: expected one of .*silu.* got 'sine'"):
        FAMILIES["gaussian"](PROBLEM, reads_theta=True, hidden=(4,), activation="sine")
