"""Broad references, and proposals that they defend: densities, shares, and bounded weights."""

import math

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.broad import Mixed, centres

TAIL = amci.problem("tail-1d")
PEAK = amci.problem("peak")
LINE = [{"kind": "line", "scale": 1.0}]
NETWORK = {"hidden": (8,), "activation": "silu"}
FOUND = {"coordinates": LINE, "components": 3, **NETWORK}
OWN = {
    "family": "autoregressive-spline",
    "arguments": {"coordinates": LINE, "bins": 4, **NETWORK},
}
GRID = torch.linspace(-40.0, 40.0, 400_001, dtype=torch.float64)[:, None]


def randomised(proposal):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in proposal.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return proposal.double()


def defended(**arguments):
    return randomised(FAMILIES["defensive"](TAIL, own=OWN, term="E1_plus", **arguments))


def at(proposal):
    return proposal(*TAIL.check(0.5, 2.0))


@pytest.mark.parametrize(
    "proposal",
    [
        randomised(centres(TAIL, **FOUND)),
        randomised(FAMILIES["broad"](TAIL, term="E2", found=FOUND)),
        randomised(FAMILIES["broad"](TAIL, term="E1_plus")),
        defended(found=FOUND, share=0.2),
        defended(share=0.05),
    ],
    ids=["centres", "with centres", "problem's own", "defended", "defended by the problem's own"],
)
def test_densities_have_mass_one_and_draws_follow_them(proposal):
    density = at(proposal)
    values = density.log_prob(GRID).exp()
    mass = torch.trapezoid(values, GRID[:, 0])
    # The grid meets the bound of f_plus, where a density jumps, within its step of 2e-4.
    assert abs(mass - 1) < 4e-4
    n = 100_000
    x, log_q = density.draw(n, torch.Generator().manual_seed(1))
    torch.testing.assert_close(log_q, density.log_prob(x))
    below = torch.cumulative_trapezoid(values, GRID[:, 0])
    for share in (0.02, 0.2, 0.5, 0.8, 0.98):
        place = int((below < share * mass).sum())
        hit = (x[:, 0] < GRID[place, 0]).double().mean()
        assert abs(hit - share) < 5 * math.sqrt(share * (1 - share) / n) + 4e-4


def test_centres_carry_onto_a_range():
    made = randomised(
        centres(
            PEAK, coordinates=[{"kind": "probability", "scale": 1.8}] * 2, components=2, **NETWORK
        )
    )
    density = made(*PEAK.check(None, PEAK.cases(1, seed=0)[1][0]))
    x, log_q = density.draw(1000, torch.Generator().manual_seed(0))
    assert ((x > 0) & (x < 1)).all()
    torch.testing.assert_close(log_q, density.log_prob(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_a_mixture_draws_each_part_in_its_share(share):
    apart = [torch.distributions.Normal(mean, 1.0) for mean in (-50.0, 50.0)]

    class Part:
        batch_shape = ()

        def __init__(self, normal):
            self.normal = normal

        def draw(self, n, generator=None):
            x = self.normal.mean + torch.randn(n, 1, generator=generator, dtype=torch.float64)
            return x, self.log_prob(x)

        def log_prob(self, x):
            return self.normal.log_prob(x).sum(-1)

    n = 100_000
    x, _ = Mixed(*(Part(each) for each in apart), share).draw(n, torch.Generator().manual_seed(0))
    second = x[:, 0] > 0
    assert abs(second.double().mean() - share) < 5 * math.sqrt(share * (1 - share) / n)
    # Whatever part a draw is of, all draws are different ones.
    assert len(x.unique()) == n


def test_weights_are_bounded_by_those_of_the_reference():
    share = 0.05
    proposal = defended(share=share)
    own = at(FAMILIES["broad"](TAIL, term="E1_plus").double())
    ratio = own.log_prob(GRID) - at(proposal).log_prob(GRID)
    assert ratio.max() <= -math.log(share) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"share": 0.0}, "share"),
        ({"share": 0.6}, "share"),
        ({"found": {**FOUND, "components": 0}}, "components"),
        ({"found": {**FOUND, "coordinates": [{"kind": "half-line"}]}}, "carry the line"),
    ],
)
def test_what_is_wrong_is_said(arguments, said):
    with pytest.raises(ValueError, match=said):
        FAMILIES["defensive"](TAIL, own=OWN, term="E1_plus", **arguments)


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="own: expected one of"):
        FAMILIES["defensive"](TAIL, own={"family": "guess", "arguments": {}}, term="E2")
