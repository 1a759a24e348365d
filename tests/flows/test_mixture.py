"""Mixtures: densities of mass one, draws of both components, bounded weights, training."""

import math

import pytest
import torch
from scipy import stats
from scipy.integrate import cumulative_trapezoid

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.mixture import Centres
from amci_core.training import Choices, TermRecipe, learn

TAIL, PEAK = amci.problem("tail-1d"), amci.problem("peak")
LINE = [{"kind": "line", "scale": 1.0}]
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
    return proposal.double().requires_grad_(False)


def defensive(term, **arguments):
    return randomised(FAMILIES["defensive"](TAIL, term=term, **arguments))


def at(proposal):
    return proposal(*TAIL.check(0.5, 2.0))


MIXTURES = {
    "centres": randomised(Centres(TAIL, **CENTRES)),
    "with centres": defensive("E2", centres=CENTRES),
    "problem's own": defensive("E1_plus"),
    "a flow with centres": defensive("E1_plus", flow=FLOW, centres=CENTRES, weight=0.2),
    "a flow with the problem's own": defensive("E1_plus", flow=FLOW, weight=0.05),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_densities_have_mass_one_and_draws_follow_them(name):
    density, n = at(MIXTURES[name]), 50_000
    below = cumulative_trapezoid(density.log_prob(GRID).exp(), GRID[:, 0], initial=0)
    # The grid meets the bound of f_plus, where a density jumps, within its step of 2e-4.
    assert abs(below[-1] - 1) < 4e-4
    x, log_q = density.draw(n, seeded(1))
    torch.testing.assert_close(log_q, density.log_prob(x))
    # Whatever component a draw is of, all draws are different ones.
    assert len(x.unique()) > 0.999 * n  # some are rounded to single precision
    values = torch.from_numpy(below)[torch.searchsorted(GRID[:, 0], x[:, 0])]
    # Kolmogorov's distance exceeds 2 / sqrt(n) with probability 7e-4.
    assert stats.kstest(values, "uniform").statistic < 2 / math.sqrt(n) + 4e-4


def test_centres_stay_within_a_range():
    coordinates = [{"kind": "probability", "scale": 1.8}] * 2
    made = randomised(Centres(PEAK, coordinates=coordinates, components=2, **NETWORK))
    density = made(*PEAK.check(None, PEAK.cases(1, seed=0)[1][0]))
    x, log_q = density.draw(1000, seeded())
    assert ((x > 0) & (x < 1)).all()
    torch.testing.assert_close(log_q, density.log_prob(x), rtol=1e-6, atol=1e-6)


def test_weights_are_bounded_by_those_of_the_defensive_component():
    own = at(FAMILIES["defensive"](TAIL, term="E1_plus").double())
    ratio = own.log_prob(GRID) - at(MIXTURES["a flow with the problem's own"]).log_prob(GRID)
    assert ratio.max() <= -math.log(0.05) + 1e-9


def test_strata_are_those_of_the_mixture():
    # With n strata of the first coordinate, q2 gets its weight's part of the draws to within one.
    spline = {"coordinates": [{"kind": "unit"}] * 2, "bins": 8, **NETWORK}
    proposal = randomised(FAMILIES["defensive-spline"](PEAK, defensive=spline, **spline))
    with torch.no_grad():
        proposal.weight.network[-1].weight.mul_(0.1)
        proposal.weight.network[-1].bias.fill_(0.5)  # weights of about a half
    y, theta = PEAK.check(*PEAK.cases(3, seed=0))
    density, n = proposal(y, theta), 50
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
    spline = FLOW["arguments"]

    def term(family, **arguments):
        return TermRecipe(
            family=family,
            arguments=spline | arguments,
            objective="refine",
            settings={"cases": 8, "uniform_cases": 0, "from_proposal": 3, "from_reference": 1},
            optimizer="adam",
            learning_rate=1e-2,
            annealed=True,
            steps_per_minute=1,
            share=0.5,
        )

    q1_plus = term("defensive-spline", defensive=spline)
    terms = {"q2": term("autoregressive-spline"), "q1_plus": q1_plus}
    learnt = learn(TAIL, steps=2, choices=Choices(terms=terms))
    copied = learnt.q1_plus.state_dict()
    for name, value in learnt.q2.state_dict().items():
        assert torch.equal(copied[f"defensive.{name}"], value)
    with pytest.raises(ValueError, match=r"^terms: .*needs a trained q2"):
        learn(TAIL, steps=1, choices=Choices(terms={"q1_plus": q1_plus}))
