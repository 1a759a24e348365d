"""Masked autoregressive flows: densities of five coordinates, and the order they are drawn in."""

import math

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES

PROBLEM = amci.problem("tail-5d")
Y, THETA = PROBLEM.check(*PROBLEM.cases(3, seed=0))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def made(*, layers=4, reads_theta=True, problem=PROBLEM):
    """A flow with parameters of order one, in double precision."""
    q = FAMILIES["masked-autoregressive"](
        problem, reads_theta=reads_theta, layers=layers, hidden=16, activation="relu"
    ).double()
    draws = seeded(1)
    with torch.no_grad():
        for parameter in q.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=draws)
    return q


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_draws_know_their_density(layers):
    density = made(layers=layers)(Y, THETA)
    x, log_q = density.draw(200, seeded())
    assert x.shape == (3, 200, 5)
    torch.testing.assert_close(density.log_prob(x), log_q, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_inverse_of_forward_is_the_identity(layers):
    q = made(layers=layers)
    context = q.context(Y, THETA)
    z = q(Y, THETA).noise(200, seeded())
    x = q.flow(z, context=context)
    torch.testing.assert_close(q.flow.inverse(x, context=context), z, rtol=1e-8, atol=1e-8)


def test_log_density_is_that_of_autograd():
    q = made()
    flow = q.flow.at(q.context(Y[:1], THETA[:1]))
    z = q(Y[:1], THETA[:1]).noise(1, seeded())
    _, log_q = q(Y[:1], THETA[:1]).transport(z)
    jacobian = torch.autograd.functional.jacobian(
        lambda point: flow.transport(point)[0][0, 0], z[0]
    )
    expected = q.flow.q0.log_prob(z) - torch.linalg.slogdet(jacobian).logabsdet
    torch.testing.assert_close(log_q[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reads_theta", [True, False])
def test_the_density_integrates_to_one(reads_theta):
    density = made(reads_theta=reads_theta)(Y, THETA)
    n = 40_000
    own, _ = density.draw(n, seeded())
    # h, a Gaussian about the flow's own draws, four times as wide; half the points from each.
    centre, spread = own.mean(-2, keepdim=True), 2 * own.std(-2, keepdim=True)
    h = torch.distributions.Independent(torch.distributions.Normal(centre, spread), 1)
    other = centre + spread * torch.randn(own.shape, dtype=own.dtype, generator=seeded(2))
    both = torch.cat([own, other], -2)
    # The means of q / m and of h / m, m = (q + h) / 2, are the masses of q and of h.
    ratio = 2 * torch.sigmoid(density.log_prob(both) - h.log_prob(both))
    halves = ratio.unflatten(-1, (2, n))
    error = (halves.var(-1).sum(-1) / (4 * n)).sqrt()
    assert (abs(ratio.mean(-1) - 1) < 4 * error).all()
    assert (error < 0.01).all()


def test_a_layer_reads_only_the_coordinates_before():
    def dependence(backwards):
        layer = made(layers=2).flow.flows[int(backwards)]
        context = torch.randn(1, 32, dtype=torch.float64, generator=seeded())
        z = torch.randn(5, dtype=torch.float64, generator=seeded(3))
        return torch.autograd.functional.jacobian(
            lambda point: layer(point[None], context=context)[0][0], z
        )

    for jacobian, zero in ((dependence(False), torch.triu), (dependence(True), torch.tril)):
        assert torch.equal(zero(jacobian), torch.diag(jacobian.diagonal()))
        assert (jacobian.diagonal() > 0).all()
        assert (jacobian - torch.diag(jacobian.diagonal())).abs().max() > 0.01


def test_two_layers_let_every_coordinate_reach_every_other():
    q = made(layers=2)
    flow = q.flow.at(q.context(Y[:1], THETA[:1]))
    z = torch.randn(64, 5, dtype=torch.float64, generator=seeded(3))
    jacobian = torch.autograd.functional.jacobian(
        lambda points: flow.transport(points)[0][0].sum(0), z
    )
    assert (jacobian.abs().amax(1) > 0).all()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_scales_are_bounded_however_large_the_network_s_output(sign):
    layer = made(layers=1).flow.flows[0]
    with torch.no_grad():
        layer.network.final_layer.bias.fill_(sign * 1e6)
    context = torch.zeros(1, 16, dtype=torch.float64)
    _, log_det = layer(torch.zeros(4, 5, dtype=torch.float64), context=context)
    torch.testing.assert_close(log_det, torch.full_like(log_det, sign * 15))


def test_a_proposal_without_theta_is_the_same_for_all_of_them():
    x, _ = made()(Y, THETA).draw(10, seeded())
    other = THETA.flip(0)
    q1, q2 = made(), made(reads_theta=False)
    assert torch.equal(q2(Y, THETA).log_prob(x), q2(Y, other).log_prob(x))
    assert not torch.allclose(q1(Y, THETA).log_prob(x), q1(Y, other).log_prob(x))
    assert not torch.allclose(q2(Y, THETA).log_prob(x), q2(Y.flip(0), THETA).log_prob(x))


def test_single_precision_agrees_with_double():
    q = made()
    x, _ = q(Y, THETA).draw(100, seeded())
    log_q = q(Y, THETA).log_prob(x)
    single = q.float()(Y.float(), THETA.float()).log_prob(x.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single, log_q.float(), rtol=1e-3, atol=1e-3)


def test_every_parameter_gets_a_gradient():
    q = made()
    density = q(Y, THETA)
    x, _ = density.draw(64, seeded())
    density.log_prob(x.detach()).mean().backward()
    for parameter in q.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert (parameter.grad != 0).any()


def test_weights_come_from_the_generator_alone():
    def fresh():
        return FAMILIES["masked-autoregressive"](
            PROBLEM, reads_theta=True, layers=2, hidden=16, activation="relu"
        )

    before = torch.random.get_rng_state()
    first, second = fresh(), fresh()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.testing.assert_close(second.state_dict(), first.state_dict(), rtol=0, atol=0)
    first.initialize(seeded(5))
    assert all(not torch.equal(a, b) for a, b in zip(*weights(first, second), strict=True))
    second.initialize(seeded(5))
    torch.testing.assert_close(second.state_dict(), first.state_dict(), rtol=0, atol=0)


def weights(*proposals):
    return [[p for p in q.parameters() if p.ndim > 1] for q in proposals]


def test_an_untrained_flow_is_near_its_base():
    q = FAMILIES["masked-autoregressive"](
        PROBLEM, reads_theta=True, layers=4, hidden=64, activation="relu"
    )
    x, log_q = q(Y.float(), THETA.float()).draw(2000, seeded())
    base = -0.5 * x.square().sum(-1) - 2.5 * math.log(2 * math.pi)
    assert (log_q - base).abs().median() < 0.5


def test_one_dimension_is_a_conditional_gaussian():
    problem = amci.problem("tail-1d")
    density = made(layers=2, problem=problem)(*problem.check(1.0, 3.0))
    x, log_q = density.draw(50, seeded())
    design = torch.stack([torch.ones(50).double(), x[:, 0], x[:, 0].square()], -1)
    solution = torch.linalg.lstsq(design, log_q[:, None]).solution
    torch.testing.assert_close(design @ solution, log_q[:, None], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "sine"}, r"^activation: expected one of relu, silu, got 'sine'"),
        ({"layers": 0}, r"^layers: expected"),
        ({"layers": 2.5}, r"^layers: expected"),
        ({"hidden": 3}, r"^hidden: expected"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    good = {"reads_theta": True, "layers": 2, "hidden": 16, "activation": "relu"}
    with pytest.raises(ValueError, match=message):
        FAMILIES["masked-autoregressive"](PROBLEM, **{**good, **arguments})
