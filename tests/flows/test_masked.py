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


def test_a_layer_reads_only_the_coordinates_before():
    def dependence(backwards):
        layer = made(layers=2).layers[int(backwards)]
        context = torch.randn(1, 16, dtype=torch.float64, generator=seeded())
        z = torch.randn(5, dtype=torch.float64, generator=seeded(3))
        return torch.autograd.functional.jacobian(
            lambda point: layer(point[None, None], context)[0][0, 0], z
        )

    for jacobian, zero in ((dependence(False), torch.triu), (dependence(True), torch.tril)):
        assert torch.equal(zero(jacobian), torch.diag(jacobian.diagonal()))
        assert (jacobian.diagonal() > 0).all()
        assert (jacobian - torch.diag(jacobian.diagonal())).abs().max() > 0.01


def test_two_layers_let_every_coordinate_reach_every_other():
    density = made(layers=2)(Y[:1], THETA[:1])
    z = torch.randn(64, 5, dtype=torch.float64, generator=seeded(3))
    jacobian = torch.autograd.functional.jacobian(
        lambda points: density.transport(points)[0][0].sum(0), z
    )
    assert (jacobian.abs().amax(1) > 0).all()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_scales_are_bounded_however_large_the_network_s_output(sign):
    layer = made(layers=1).layers[0]
    with torch.no_grad():
        layer.network.final_layer.bias.fill_(sign * 1e6)
    context = torch.zeros(1, 16, dtype=torch.float64)
    _, log_det = layer(torch.zeros(1, 4, 5, dtype=torch.float64), context)
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
