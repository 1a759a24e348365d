"""Mixtures: densities of mass one, draws of both components, bounded weights, training."""

import dataclasses
import math

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.mixture import Centres
from amci_core.training import Choices, TermRecipe, learn

TAIL = amci.problem("tail-1d")
PEAK = amci.problem("peak")
LINE = [{"kind": "line", "scale": 1.0}]
UNIT = [{"kind": "unit"}] * 2
NETWORK = {"hidden": (8,), "activation": "silu"}
CENTRES = {"coordinates": LINE, "components": 3, **NETWORK}
FLOW = {
    "family": "autoregressive-spline",
    "arguments": {"coordinates": LINE, "bins": 4, **NETWORK},
}
GRID = torch.linspace(-40.0, 40.0, 400_001, dtype=torch.float64)[:, None]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randomised(proposal):
    generator = seeded()
    with torch.no_grad():
        for parameter in proposal.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return proposal.double()


def defensive(**arguments):
    return randomised(FAMILIES["defensive"](TAIL, flow=FLOW, term="E1_plus", **arguments))


def at(proposal):
    return proposal(*TAIL.check(0.5, 2.0))


@pytest.mark.parametrize(
    "proposal",
    [
        randomised(Centres(TAIL, **CENTRES)),
        randomised(FAMILIES["defensive"](TAIL, term="E2", centres=CENTRES)),
        randomised(FAMILIES["defensive"](TAIL, term="E1_plus")),
        defensive(centres=CENTRES, weight=0.2),
        defensive(weight=0.05),
    ],
    ids=[
        "centres",
        "with centres",
        "problem's own",
        "defensive",
        "defensive by the problem's own",
    ],
)
def test_densities_have_mass_one_and_draws_follow_them(proposal):
    density = at(proposal)
    values = density.log_prob(GRID).exp()
    mass = torch.trapezoid(values, GRID[:, 0])
    # The grid meets the bound of f_plus, where a density jumps, within its step of 2e-4.
    assert abs(mass - 1) < 4e-4
    n = 100_000
    x, log_q = density.draw(n, seeded(1))
    torch.testing.assert_close(log_q, density.log_prob(x))
    # Whatever component a draw is of, all draws are different ones.
    assert len(x.unique()) > 0.999 * n  # some are rounded to single precision
    below = torch.cumulative_trapezoid(values, GRID[:, 0])
    for share in (0.02, 0.2, 0.5, 0.8, 0.98):
        place = int((below < share * mass).sum())
        hit = (x[:, 0] < GRID[place, 0]).double().mean()
        assert abs(hit - share) < 5 * math.sqrt(share * (1 - share) / n) + 4e-4


def test_centres_stay_within_a_range():
    coordinates = [{"kind": "probability", "scale": 1.8}] * 2
    made = randomised(Centres(PEAK, coordinates=coordinates, components=2, **NETWORK))
    density = made(*PEAK.check(None, PEAK.cases(1, seed=0)[1][0]))
    x, log_q = density.draw(1000, seeded())
    assert ((x > 0) & (x < 1)).all()
    torch.testing.assert_close(log_q, density.log_prob(x), rtol=1e-6, atol=1e-6)


def test_weights_are_bounded_by_those_of_the_defensive_component():
    own = at(FAMILIES["defensive"](TAIL, term="E1_plus").double())
    ratio = own.log_prob(GRID) - at(defensive(weight=0.05)).log_prob(GRID)
    assert ratio.max() <= -math.log(0.05) + 1e-9


def mixture():
    """A mixture with parameters of order one, and weights of about a half."""
    network = {"hidden": (16, 16), "activation": "silu"}
    spline = {"coordinates": UNIT, "bins": 8, **network}
    proposal = FAMILIES["defensive-spline"](PEAK, defensive=spline, **spline).double()
    generator = seeded(3)
    with torch.no_grad():
        for parameter in proposal.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=generator)
        last = proposal.weight.network[-1]
        last.weight.mul_(0.1)
        last.bias.fill_(0.5)
    y, theta = PEAK.check(*PEAK.cases(3, seed=0))
    return proposal, proposal(y, theta), (y, theta)


def test_strata_are_those_of_the_mixture():
    # With n strata of the first coordinate, q2 gets its weight's part of the draws to within one.
    proposal, density, (y, theta) = mixture()
    n = 50
    z = density.stratified_base_samples(n, seeded()).reshape(3, n, 2)
    weight = torch.sigmoid(-4 + 8 * proposal.weight(y, theta))
    x, _ = density.forward(z.reshape(-1, 2))
    second, _ = proposal.defensive(y, theta).forward(
        torch.stack([z[..., 0] / weight, z[..., 1]], -1).clamp(max=1).reshape(-1, 2)
    )
    # Not to the last bit: that depends on how many are computed at once.
    from_q2 = torch.isclose(x, second, rtol=1e-9, atol=1e-9).all(-1).sum(-1)
    assert ((from_q2 - n * weight[:, 0]).abs() < 1).all()


def test_training_copies_q2_and_trains_the_flow_alone():
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
    defensive = dataclasses.replace(
        refine,
        family="defensive-spline",
        arguments={**refine.arguments, "defensive": refine.arguments},
    )
    terms = {"q2": refine, "q1_plus": defensive}
    learnt = learn(problem, steps=2, choices=Choices(terms=terms))
    q2, q1_plus = learnt.q2.state_dict(), learnt.q1_plus.state_dict()
    assert all(torch.equal(q1_plus[f"defensive.{name}"], value) for name, value in q2.items())
    with pytest.raises(ValueError, match=r"^terms: .*needs a trained q2"):
        learn(problem, steps=1, choices=Choices(terms={"q1_plus": defensive}))
