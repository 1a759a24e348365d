"""What a training has cost, and when it pays."""

import sys

import numpy as np
import pytest
import torch
from conjugate import Share
from scipy import integrate
from scipy.stats import norm

import amci_core as amci
from amci_core.checking import Checked
from amci_core.training import cost, learn
from amci_core.training.quality import HeldOut

SIZES = {"particles": ["PARTICLES"], "quality": ["PARTICLES", "BESIDE", "WEIGHT_DRAWS"]}


class Counting(Share):
    """Counts the points at which its likelihood is evaluated."""

    name = "counting"
    points = 0

    def log_likelihood(self, x, y):
        value = super().log_likelihood(x, y)
        self.points += value.numel()
        return value


def test_the_card_counts_every_evaluation_and_a_short_training_promises_nothing(monkeypatch):
    # The check of a problem is no part of its training.
    module = sys.modules["amci_core.training.learn"]
    monkeypatch.setattr(module, "check", lambda problem, **_: Checked("", (), (), 0.0))
    # Few particles, cases and draws are enough to be counted.
    for module, names in SIZES.items():
        for name in names:
            monkeypatch.setattr(sys.modules[f"amci_core.training.{module}"], name, 32)
    for option in ("cases", "draws"):
        monkeypatch.setitem(HeldOut.__init__.__kwdefaults__, option, 16)
    problem, said = Counting(), []
    assert problem.fingerprint  # which evaluates some points
    problem.points = 0
    proposals = learn(problem, steps=2, say=said.append)
    spent = proposals.card["configuration"]["cost"]
    # But for a few points at which training looks at how y is read.
    assert 0 <= problem.points - spent["evaluations"] < 1e-3 * problem.points
    assert said[-1] == spent["text"]
    assert repr(proposals).endswith(spent["text"])
    assert "pays" not in spent["text"]


class Common(type(amci.problem("tail-1d"))):
    """tail-1d with a threshold that is not rare: p(x | y) = N(y / 2, 1 / 2)."""

    def sample_theta(self, n, generator):
        return torch.rand(n, 1, generator=generator)


def prior_variance(y, theta):
    """Relative variance of SNIS for a prior draw, by quadrature, and that of a posterior draw."""
    E2, mu = norm.pdf(y, 0, np.sqrt(2)), norm.sf(theta, y / 2, np.sqrt(0.5))

    def above_and_below(f):
        return lambda x: norm.pdf(x) * norm.pdf(y, x) ** 2 * (f - mu) ** 2

    parts = integrate.quad(above_and_below(1), theta, 12)[0]
    parts += integrate.quad(above_and_below(0), -12, theta)[0]
    return parts / (E2 * mu) ** 2, (1 - mu) / mu


def test_prices_are_those_of_the_variances():
    problem = Common(1)
    exact = amci.load_proposals("tail-1d", variant="oracle")
    found = cost.prices(problem, exact)
    generator = torch.Generator().manual_seed(cost.SEED)
    y, theta = problem.check(*problem.sample_cases(cost.CASES, generator))
    of_prior, of_posterior = np.mean(
        [prior_variance(*case) for case in zip(y[:, 0].numpy(), theta[:, 0].numpy(), strict=True)],
        axis=0,
    )
    # AMCI is exact, and counts as one of four digits: a relative variance of 1e-8 from a query.
    assert found["prior draws"] * 1e-8 == pytest.approx(of_prior, rel=0.05)
    # A chain's evaluations are worth less than independent draws of the posterior.
    assert of_posterior < found["MCMC"] * 1e-8 < 40 * of_posterior


def test_break_even_is_where_both_bills_are_the_same():
    spent = {"evaluations": 9_000, "seconds": 5.0, "prices": {"prior draws": 1_200, "MCMC": 900.0}}
    assert cost.in_words(spent) == (
        "9,000 density evaluations in 5 s; pays after 45 queries against prior draws, "
        "never against MCMC (1,000 draws each, means over cases)"
    )


def test_without_y_there_is_no_chain():
    (name,) = cost.prices(amci.problem("peak"), amci.load_proposals("peak"))
    assert name == "prior draws"
