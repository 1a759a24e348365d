"""The share of the reference is what held-out weights ask for."""

import math

import pytest
from imperfect import Normal

import amci_core as amci
from amci_core.flows import Trainable
from amci_core.flows.mixture import DefensiveComponent
from amci_core.training.shares import SHARES, defended_share
from amci_core.training.targets import TARGETS


class Fixed(Trainable):
    """A proposal without weights."""

    def __init__(self, proposal):
        super().__init__()
        self.proposal = proposal

    def initialize(self, generator):
        pass

    def at(self, y, theta, component=None):
        return self.proposal(y, theta)


@pytest.mark.parametrize(("factor", "share"), [(1.0, SHARES[0]), (0.7, SHARES[-1]), (0.2, 1.0)])
def test_a_good_flow_needs_little_a_narrow_one_much_and_the_prior_may_be_better(factor, share):
    target = TARGETS["q2"](amci.problem("tail-1d"))
    broad = DefensiveComponent(target.problem, target.term)
    # The posterior of tail-1d is N(y / 2, 1 / 2).
    flow = Fixed(Normal(lambda y, theta: y / 2, factor * math.sqrt(0.5)))
    assert defended_share(flow, broad, target) == share
