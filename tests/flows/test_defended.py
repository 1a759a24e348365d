"""Facts about mixtures with q2: densities, draws of both components, and who trains them."""

import dataclasses

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.training import learn
from amci_core.training.recipes import TermRecipe

PROBLEM = amci.problem("peak")
NETWORK = {"hidden": (16, 16), "activation": "silu"}
UNIT = [{"kind": "unit"}] * 2
DEFENCE = {"coordinates": UNIT, "bins": 8, **NETWORK}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def mixture(share_bias=0.5):
    """A mixture with parameters of order one; a bias of 0.5 makes the shares about a half."""
    proposal = FAMILIES["defended-spline"](
        PROBLEM, coordinates=UNIT, defence=DEFENCE, bins=8, **NETWORK
    ).double()
    generator = seeded(3)
    with torch.no_grad():
        for parameter in proposal.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=generator)
        last = proposal.share.network[-1]
        last.weight.mul_(0.1)
        last.bias.fill_(share_bias)
    y, theta = PROBLEM.check(*PROBLEM.cases(3, seed=0))
    return proposal, proposal(y, theta), (y, theta)


@pytest.mark.parametrize("share_bias", [-20.0, 0.5, 20.0])
def test_draws_know_their_density(share_bias):
    _, density, _ = mixture(share_bias)
    x, log_q = density.draw(500, seeded())
    assert x.shape == (3, 500, 2)
    torch.testing.assert_close(density.log_prob(x), log_q, rtol=1e-7, atol=1e-7)


def test_the_density_integrates_to_one_and_draws_follow_it():
    _, density, _ = mixture()
    n = 40_000
    x, _ = density.draw(n, seeded(1))
    even = torch.rand(3, n, 2, dtype=x.dtype, generator=seeded(2))
    q = density.log_prob(even).exp()
    assert ((q.mean(-1) - 1).abs() < 4 * q.std(-1) / n**0.5).all()
    for coordinate in range(2):
        drawn, weighted = x[..., coordinate], q * even[..., coordinate]
        error = (drawn.var(-1) + weighted.var(-1)).div(n).sqrt()
        assert ((drawn.mean(-1) - weighted.mean(-1)).abs() < 4 * error).all()


def test_strata_are_those_of_the_mixture():
    # With n strata of the first coordinate, q2 gets its share of the draws to within one.
    proposal, density, (y, theta) = mixture()
    n = 50
    z = density.stratified_noise(n, seeded()).reshape(3, n, 2)
    share = torch.sigmoid(proposal.log_odds(y, theta))
    x, _ = density.transport(z.reshape(-1, 2))
    second, _ = proposal.defence(y, theta).transport(
        torch.stack([z[..., 0] / share, z[..., 1]], -1).clamp(max=1).reshape(-1, 2)
    )
    # Not to the last bit: that depends on how many are computed at once.
    from_q2 = torch.isclose(x, second, rtol=1e-9, atol=1e-9).all(-1).sum(-1)
    assert ((from_q2 - n * share[:, 0]).abs() < 1).all()


def test_it_takes_over_what_q2_has_learnt_and_keeps_it():
    spline = FAMILIES["autoregressive-spline"]
    q2 = spline(PROBLEM, **DEFENCE)
    q2.initialize(seeded(7))
    proposal, _, _ = mixture()
    proposal.float().adopt({"q2": q2})
    for mine, its in zip(proposal.defence.parameters(), q2.parameters(), strict=True):
        assert torch.equal(mine, its)
        assert not mine.requires_grad


def test_training_it_trains_its_own_part_alone():
    problem = amci.problem("cancer")
    refine = TermRecipe(
        family="autoregressive-spline",
        arguments={
            "coordinates": [
                {"kind": "positive", "centre": 6.2, "scale": 0.2},
                {"kind": "probability", "centre": -0.7, "scale": 0.6},
            ],
            "bins": 4,
            "hidden": [8],
            "activation": "silu",
        },
        objective="refine",
        settings={"cases": 8, "uniform_cases": 0, "from_proposal": 3, "from_reference": 1},
        optimizer="adam",
        learning_rate=1e-2,
        annealed=True,
        steps_per_minute=1,
        share=0.5,
    )
    defended = dataclasses.replace(
        refine,
        family="defended-spline",
        arguments={**refine.arguments, "defence": refine.arguments},
    )
    learnt = learn(problem, {"q2": refine, "q1_plus": defended}, steps=2)
    its = learnt.q2.state_dict()
    mine = learnt.q1_plus.state_dict()
    assert all(torch.equal(mine[f"defence.{name}"], value) for name, value in its.items())
    with pytest.raises(ValueError, match=r"^terms: .*q2 to be trained before it"):
        learn(problem, {"q1_plus": defended, "q2": refine}, steps=2)
