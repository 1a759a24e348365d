"""Exact proposals beyond the Gaussian tail: densities that draws follow and that integrate."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import amci_core as amci

GAIN, PEAK = amci.problem("gain-loss"), amci.problem("peak")


@pytest.mark.parametrize("name", ["q1_plus", "q1_minus"])
@pytest.mark.parametrize(("y", "theta"), [(1.0, 0.4), (-4.0, 2.0), (6.0, -3.0)])
def test_weighted_posteriors_are_drawn_as_their_density_says(name, y, theta):
    proposal = getattr(amci.load_proposals("gain-loss", variant="oracle"), name)
    density = proposal(*GAIN.check(y, theta))

    def cumulative(x):
        def q(t):
            return float(density.log_prob(torch.tensor([[t]], dtype=torch.float64)).exp())

        low, high = (theta, x) if name == "q1_plus" else (x, theta)
        mass = integrate.quad(q, low, high, limit=200)[0]
        return mass if name == "q1_plus" else 1 - mass

    assert cumulative(theta + 12 if name == "q1_plus" else theta - 12) == pytest.approx(
        1.0 if name == "q1_plus" else 0.0, abs=1e-8
    )
    x, log_q = density.draw(400, torch.Generator().manual_seed(0))
    torch.testing.assert_close(density.log_prob(x), log_q)
    values = np.array([cumulative(float(t)) for t in x.flatten()])
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_the_truncated_cauchy_is_drawn_as_its_density_says():
    proposal = amci.load_proposals("peak", variant="oracle").q1_plus
    theta = torch.tensor([0.2, 0.9, 0.8], dtype=torch.float64)
    density = proposal(theta[:0], theta)
    x, log_q = density.draw(4000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(density.log_prob(x), log_q)
    sharpness = 100**0.8
    for d, centre in enumerate((0.2, 0.9)):
        cauchy = stats.cauchy(centre, 1 / sharpness)
        low, high = cauchy.cdf([0, 1])
        values = (cauchy.cdf(x[:, d].numpy()) - low) / (high - low)
        assert stats.kstest(values, "uniform").pvalue > 1e-3
    assert (density.log_prob(torch.tensor([[0.5, 1.5]])) == -torch.inf).all()
