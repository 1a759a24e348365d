"""A problem is known by what it computes, not by its name or its source."""

import copy

import pytest
import torch
from torch.distributions import Exponential, Normal, Uniform

import amci_core as amci


def exceeds(*, mean=0.0, noise=0.5, bound=0.0):
    return amci.model(
        prior=Normal(mean, 1.0),
        likelihood=lambda x: Normal(x, noise),
        f=lambda x, theta: x > theta + bound,
        theta=Uniform(0.0, 4.0),
    )


def all_exceed(bound):
    return amci.model(prior=Normal(torch.zeros(20), 1.0), f=lambda x: (x > bound).all(-1))


def waits(rate, bound):
    """A density that cannot be computed far out."""

    def likelihood(x):
        if (x > 20).any():
            raise OverflowError("too long")
        return Exponential(rate * x)

    return amci.model(prior=Exponential(1.0), likelihood=likelihood, f=lambda x: x > bound)


# That it is the same in another process every shipped card shows, which holds it.
def test_the_same_problem_in_other_words_has_the_same_fingerprint():
    law = {"prior": Normal(0, 1), "theta": Uniform(0.0, 4.0), "name": "the same"}
    again = amci.model(f="x > theta", likelihood=lambda x: Normal(scale=1 / 2, loc=x), **law)
    assert again.fingerprint == exceeds().fingerprint


@pytest.mark.parametrize(
    ("one", "another", "differ"),
    [
        (exceeds(), exceeds(noise=0.501), {"log_likelihood"}),
        (exceeds(), exceeds(mean=0.001), {"log_prior"}),
        (exceeds(bound=0.1), exceeds(bound=0.12), {"f"}),
        (all_exceed(5.0), all_exceed(5.1), {"f"}),
        (waits(1.0, 2.0), waits(1.0, 3.0), {"f"}),
        (waits(1.0, 2.0), waits(1.01, 2.0), {"log_likelihood"}),
    ],
)
def test_another_prior_likelihood_or_f_has_another_fingerprint(one, another, differ):
    one, another = one.fingerprint, another.fingerprint
    assert differ <= {part for part in one if one[part] != another[part]}
    assert "f" in differ or one["f"] == another["f"]


def test_a_copy_that_is_changed_has_a_fingerprint_of_its_own():
    peak = amci.problem("peak")
    assert peak.fingerprint == copy.copy(peak).fingerprint
    other = copy.copy(peak)
    other.f = lambda x, theta: 2 * peak.f(x, theta)
    assert other.fingerprint["f"] != peak.fingerprint["f"]
