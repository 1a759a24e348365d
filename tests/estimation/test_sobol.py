"""Scrambled Sobol points through the proposals."""

import numpy as np
import pytest
import torch
from imperfect import imperfect
from scipy.stats import ks_2samp
from torch.distributions import Exponential, Normal, Uniform

import amci_core as amci
from amci_core.estimation.sampling import scrambled_sobol
from amci_core.flows import Proposals
from amci_core.flows.mixture import DefensiveComponent, Mixture
from amci_core.models import DefensiveDensity

PROBLEM, Y, THETA = amci.problem("tail-1d"), 1.0, 1.0


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_mean_over_scrambled_points_has_no_bias_and_little_variance():
    n, sets = 64, 2000
    means = scrambled_sobol(n, 3, sets, seeded()).exp().prod(-1).mean(1)
    truth = (np.e - 1) ** 3
    assert abs(means.mean() - truth) < 4 * means.std() / sets**0.5
    independent = ((np.e**2 - 1) / 2) ** 3 - truth**2
    assert n * means.var() < independent / 50
    # Sets share no point, and each has one in every stratum of a coordinate.
    points = scrambled_sobol(n, 3, 2, seeded())
    assert len(points.flatten(0, 1).unique(dim=0)) == 2 * n
    strata = (n * points).ceil().sort(dim=1).values
    assert (strata == torch.arange(1, n + 1)[:, None]).all()


MINE = amci.model(
    prior=[Normal(0.0, 2.0), Exponential(0.5)],
    likelihood=lambda x: Normal(x[..., 0], x[..., 1]),
    f=lambda x, theta: x[..., 0] > theta,
    theta=Uniform(0.0, 4.0),
)
# Defensive densities; Gamma and Beta; a mixture, of which the flow alone is moved.
DENSITIES = {
    **dict.fromkeys(("tail-5d", "gain-loss", "peak", "cancer", MINE), DefensiveDensity),
    amci.problem("cancer"): lambda problem, *case: amci.load_proposals(
        problem, variant="paper"
    ).q1_plus(*case),
    PROBLEM: lambda problem, *case: Mixture(
        amci.load_proposals(problem).q2, DefensiveComponent(problem, "E2"), 0.3
    )(*case),
}


@pytest.mark.parametrize(("problem", "make"), DENSITIES.items())
def test_uniform_points_become_what_is_drawn_in_x_and_in_log_density(problem, make):
    problem = amci.problem(problem) if isinstance(problem, str) else problem
    y, theta = problem.sample_cases(1, seeded(5))
    case = y[0] if problem.y else None, None if theta is None else theta[0]
    density = make(problem, *problem.check(*case))
    assert density.takes_uniform
    x, log_q = density.draw(3000, seeded(1))
    u = scrambled_sobol(1024, x.shape[-1], 3, seeded(2)).flatten(0, 1)
    moved, log_moved = density.draw_from_uniform(u, seeded(4))
    torch.testing.assert_close(log_moved, density.log_prob(moved))
    drawn, became = (torch.cat([a, b[:, None]], -1).T for a, b in ((x, log_q), (moved, log_moved)))
    assert all(ks_2samp(*pair).pvalue > 1e-4 for pair in zip(drawn, became, strict=True))


@pytest.mark.parametrize("estimator", ["amci-cv", "amci"])
def test_runs_scatter_less_without_bias_and_intervals_cover(estimator):
    runs, truth, spread = 400, PROBLEM.truth(Y, THETA), {}
    for points in ("sobol", "independent"):
        how = {"draws": 1000, "estimator": estimator, "points": points}
        e = amci.estimate(PROBLEM, imperfect(), np.full((runs, 1), Y), THETA, **how)
        errors = e.value / truth - 1
        low, high = e.interval()
        covered = np.mean((low <= truth) & (truth <= high))
        assert abs(covered - 0.95) < 4 * np.sqrt(0.05 * 0.95 / runs)
        assert abs(errors.mean()) < 4 * errors.std() / runs**0.5
        assert e.draws <= 1000
        spread[points] = np.mean(errors**2)
    assert spread["sobol"] < spread["independent"] / 2


def test_what_takes_no_sobol_points_is_refused():
    for estimator in ("snis-qm", "snis-qm-stratified", "reuse-paper"):
        with pytest.raises(ValueError, match="points: sobol needs"):
            amci.estimate(PROBLEM, y=Y, theta=THETA, estimator=estimator, points="sobol")
    for of in (amci.estimate, amci.error_curves):
        with pytest.raises(ValueError, match="points: expected one of independent, sobol"):
            of(PROBLEM, None, Y, THETA, points="halton")


def test_what_transports_nothing_draws_independent_points():
    made = Proposals.from_distributions(
        PROBLEM,
        q1_plus=lambda y, theta: Normal(theta + 0.2, 0.8),
        q2=lambda y, theta: Normal(y / 2 + 0 * theta, 0.8),
    )
    how = {"draws": 1000, "points": "sobol"}
    e = amci.estimate(PROBLEM, made, Y, THETA, **how)
    assert dict(e.prepared.draws.sets).keys() == {3}
    with pytest.raises(ValueError, match="transform uniform points, which these cannot"):
        amci.estimate(PROBLEM, made, Y, THETA, **how, defensive=0)
