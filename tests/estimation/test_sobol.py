"""Scrambled Sobol points through the proposals."""

import numpy as np
import pytest
import torch
from imperfect import imperfect
from scipy.stats import ks_2samp
from torch.distributions import Exponential, Normal, Uniform

import amci_core as amci
from amci_core.estimation.sobol import scrambled_sobol
from amci_core.estimators import resolve
from amci_core.flows import Proposals
from amci_core.flows.mixture import DefensiveComponent, Mixture
from amci_core.models import DefensiveDensity

Y, THETA = 1.0, 1.0


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_mean_over_scrambled_points_has_no_bias_and_little_variance():
    n, sets = 64, 4000
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


def mine():
    return amci.model(
        prior=[Normal(0.0, 2.0), Exponential(0.5)],
        likelihood=lambda x: Normal(x[..., 0], x[..., 1]),
        f=lambda x, theta: x[..., 0] > theta,
        theta=Uniform(0.0, 4.0),
    )


def on_the_line():
    return amci.model(
        prior=Normal(0.0, 1.0),
        likelihood=lambda x: Normal(x, 0.5),
        f=lambda x, theta: x > theta,
        theta=Uniform(0.0, 4.0),
    )


@pytest.mark.parametrize(
    "make", ["tail-1d", "tail-5d", "gain-loss", "peak", "cancer", mine, on_the_line]
)
def test_the_defensive_density_transports_to_what_it_draws(make):
    problem = amci.problem(make) if isinstance(make, str) else make()
    y, theta = problem.sample_cases(1, seeded(5))
    y, theta = problem.check(y[0] if problem.y else None, None if theta is None else theta[0])
    density = DefensiveDensity(problem, y, theta)
    x, log_q = density.draw(3000, seeded(1))
    u = scrambled_sobol(1024, problem.x.dim, 3, seeded(2)).flatten(0, 1)
    moved, log_moved = density.draw_from_uniform(u)
    assert density.takes_uniform
    for k in range(problem.x.dim):
        assert ks_2samp(x[:, k], moved[:, k]).pvalue > 1e-4
    assert ks_2samp(log_q, log_moved).pvalue > 1e-4


def test_gamma_and_beta_transport_to_what_they_draw():
    problem = amci.problem("cancer")
    y, theta = problem.sample_cases(2, seeded(3))
    q1 = amci.load_proposals(problem, variant="paper").q1_plus(*problem.check(y, theta))
    x, log_q = q1.draw(2000, seeded(1))
    u = scrambled_sobol(1024, 2, 4, seeded(2)).flatten(0, 1)
    moved, log_moved = q1.draw_from_uniform(u)
    for case in range(2):
        for k in range(2):
            assert ks_2samp(x[case, :, k], moved[case, :, k]).pvalue > 1e-4
        assert ks_2samp(log_q[case], log_moved[case]).pvalue > 1e-4


def test_a_mixture_transports_its_flow_and_draws_its_defence():
    problem = amci.problem("tail-1d")
    own = Mixture(amci.load_proposals(problem).q2, DefensiveComponent(problem, "E2"), 0.3)
    density = own(*problem.check(Y, THETA))
    u = scrambled_sobol(1024, 1, 3, seeded()).flatten(0, 1)
    x, log_q = density.draw_from_uniform(u, seeded(4))
    drawn = density.draw(3000, seeded(1))[0]
    assert ks_2samp(x[:, 0], drawn[:, 0]).pvalue > 1e-4
    torch.testing.assert_close(log_q, density.log_prob(x))


@pytest.mark.parametrize("estimator", ["amci-cv", "amci"])
def test_runs_scatter_less_without_bias_and_intervals_cover(estimator):
    runs, problem = 600, amci.problem("tail-1d")
    truth = problem.truth(Y, THETA)
    ys = np.full((runs, 1), Y)
    errors, spread = {}, {}
    for points in ("sobol", "independent"):
        e = amci.estimate(
            problem, imperfect(), ys, THETA, draws=1000, estimator=estimator, points=points
        )
        errors[points] = e.value / truth - 1
        low, high = e.interval()
        covered = np.mean((low <= truth) & (truth <= high))
        assert abs(covered - 0.95) < 4 * np.sqrt(0.05 * 0.95 / runs)
        spread[points] = np.mean(errors[points] ** 2)
        assert abs(errors[points].mean()) < 4 * errors[points].std() / runs**0.5
        assert e.draws <= 1000
    assert spread["sobol"] < spread["independent"] / 2


def test_error_curves_have_the_errors_of_estimates():
    problem = amci.problem("tail-1d")
    named = {"amci": "amci", "sobol": resolve("amci-cv", points="sobol"), "q2": "snis-q2"}
    curves = amci.error_curves(
        problem, imperfect(), Y, THETA, draws=[10, 1000], runs=600, estimators=named
    )
    assert curves["sobol"].remse[1] < curves["amci"].remse[1] / 2
    e = amci.estimate(
        problem, imperfect(), np.full((600, 1), Y), THETA, draws=1000, points="sobol", seed=1
    )
    squares = (e.value / problem.truth(Y, THETA) - 1) ** 2
    noise = np.hypot(squares.std() / 600**0.5, curves["sobol"].remse_error[1])
    assert abs(squares.mean() - curves["sobol"].remse[1]) < 4 * noise
    of_all = amci.error_curves(
        problem, imperfect(), Y, THETA, draws=[1000], runs=100, points="sobol"
    )
    assert of_all["amci"].remse[0] < curves["amci"].remse[1]


def test_a_precision_takes_fewer_draws():
    problem = amci.problem("tail-1d")
    truth = problem.truth(Y, 3.0)
    draws = {}
    for points in ("sobol", "independent"):
        found = amci.estimate_to(problem, y=Y, theta=3.0, relative_error=3e-5, points=points)
        assert found.reached
        assert abs(found.value / truth - 1) < 6e-5
        draws[points] = int(found.draws)
    assert draws["sobol"] < draws["independent"] / 2


def test_what_takes_no_sobol_points_is_refused():
    how = {"y": Y, "theta": THETA}
    for estimator in ("snis-qm", "snis-qm-stratified", "reuse-paper"):
        with pytest.raises(ValueError, match="points: sobol needs"):
            amci.estimate("tail-1d", **how, estimator=estimator, points="sobol")
    with pytest.raises(ValueError, match="points: expected one of independent, sobol"):
        amci.estimate("tail-1d", **how, points="halton")
    with pytest.raises(ValueError, match="points: expected one of independent, sobol"):
        amci.error_curves("tail-1d", None, **how, estimators=["snis-q2"], points="halton")


def test_what_transports_nothing_draws_independent_points():
    problem = amci.problem("tail-1d")
    made = Proposals.from_distributions(
        problem,
        q1_plus=lambda y, theta: Normal(theta + 0.2, 0.8),
        q2=lambda y, theta: Normal(y / 2 + 0 * theta, 0.8),
    )
    e = amci.estimate(problem, made, Y, THETA, draws=1000, points="sobol")
    assert dict(e.prepared.draws.sets).keys() == {3}
    with pytest.raises(ValueError, match="transform uniform points, which these cannot"):
        amci.estimate(problem, made, Y, THETA, draws=1000, points="sobol", defensive=0)
