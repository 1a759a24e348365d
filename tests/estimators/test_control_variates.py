"""AMCI with control variates: exact where proposals are, and never worse than any table."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from discrete import signed
from imperfect import imperfect
from scipy.stats import norm

import amci_core as amci
from amci_core.estimation.sampling import Sampler
from amci_core.estimators import Draws
from amci_core.estimators.control_variates import regress
from amci_core.models.defensive import DefensiveDensity

MODEL = signed()
EXACT = replace(MODEL, q=MODEL.factors * MODEL.joint / MODEL.terms[:, None])


@pytest.mark.parametrize("ridge", [1e-4, 0.01, 100.0])
@pytest.mark.parametrize("log_E2", [None, np.log(MODEL.terms[2])])
def test_exact_proposals_leave_no_error_whatever_the_ridge(ridge, log_E2):
    counts = (20, 15, 0 if log_E2 is not None else 20, 10)
    draws = EXACT.draws(counts, runs=20, seed=0)
    if log_E2 is not None:
        draws = replace(draws, log_E2=np.full(20, log_E2))
    found = regress(draws, ridge=ridge)
    np.testing.assert_allclose(found.combined.value[:, 0], MODEL.mu, rtol=1e-12)
    assert (found.determined_by == np.inf).all()


def test_a_term_that_no_draw_met_is_never_determined():
    draws = MODEL.draws((4, 4, 4, 4), runs=20, seed=0)
    for blind in (
        replace(draws, f=0 * draws.f),
        replace(draws, log_joint=np.full_like(draws.log_joint, -np.inf)),
    ):
        assert np.isnan(regress(blind).determined_by).all()


def by_quadrature(y, theta, proposals, counts):
    """First-order variances n Var[mu] of the regression and of the best table, by sums over x.

    The table, V* = e' P (P + Q)^-1 Q e / E2^2, shares the draws of q1 and q2 alone.
    """
    problem = amci.problem("tail-1d")
    y, theta = problem.check(y, theta)
    x = torch.linspace(-9, 11, 40_001, dtype=torch.float64)[:, None]
    step = float(x[1] - x[0])
    q1, q2 = (proposals.at(y, theta)[j].log_prob(x).exp().numpy() for j in (0, 2))
    q = np.stack([q1, q2, DefensiveDensity(problem, y, theta).log_prob(x).exp().numpy()])
    p = problem.log_joint(x, y).exp().numpy()
    # In the middle of a step f would count for half of it.
    f = (x > theta).double().numpy().squeeze(-1)
    E1, E2 = (f * p).sum() * step, p.sum() * step
    mu, n = E1 / E2, sum(counts)

    def covariance(values, density):
        mean = (values * density).sum(-1) * step
        return (values * density) @ values.T * step - np.outer(mean, mean)

    a = np.array(counts) / n
    q_m = a @ q
    z, Q = (f - mu) * p / q_m, q / q_m
    within = sum(
        share * covariance(np.vstack([z, Q]), q_j) for share, q_j in zip(a, q, strict=True)
    )
    b = np.linalg.lstsq(within[1:, 1:], within[1:, 0], rcond=1e-10)[0]
    regression = (within[0, 0] - within[0, 1:] @ b) / E2**2
    sign, e = np.diag([1.0, -1.0]), np.array([1.0, mu])
    P, R = (
        sign @ covariance(np.stack([f * p / q_j, p / q_j]), q_j) @ sign / n_j * n
        for q_j, n_j in ((q[0], counts[0]), (q[1], counts[1]))
    )
    return regression, e @ P @ np.linalg.solve(P + R, R @ e) / E2**2


@pytest.mark.parametrize(("y", "theta"), [(1.0, 0.5), (0.0, 1.5), (-2.0, 2.5), (3.0, 0.1)])
def test_to_first_order_its_variance_is_below_that_of_every_table(y, theta):
    counts = [60_000, 60_000, 17_000]
    problem, proposals = amci.problem("tail-1d"), imperfect()
    optimal, best_table = by_quadrature(y, theta, proposals, counts)
    assert optimal < best_table
    sampler = Sampler(problem, proposals, *problem.check(y, theta))
    draws = sampler.draw([counts[0], 0, *counts[1:]], torch.Generator().manual_seed(0))
    weak, plain = (
        float(found.standard_error * np.exp(found.log_unit)) ** 2 * sum(counts)
        for found in (regress(draws, ridge=1e-6).errors, regress(draws).errors)
    )
    assert weak == pytest.approx(optimal, rel=0.05)
    assert plain < best_table


def test_terms_are_intercepts_of_least_squares_as_in_optismixture():
    """Two components, the prior the defensive one, and the formula of `batch.estimation` in the R
    package optismixture (He, Owen, 2015): mean of (f p - beta' (q - p)) / q_alpha, beta fitted by
    `lm`, here NumPy's least squares."""
    rng, n = np.random.default_rng(0), 500
    x = np.append(rng.normal(1.5, 0.5, n), rng.normal(0.0, 1.0, n))
    q, p = norm.pdf(x, 1.5, 0.5), norm.pdf(x)
    draws = Draws(
        f=(x > 1.5) * 1.0,
        log_joint=np.log(p),
        log_q={0: np.log(q), 3: np.log(p)},
        counts={0: n, 3: n},
        signed=False,
        log_E2=np.asarray(0.0),
    )
    mixture = (q + p) / 2
    beta = np.linalg.lstsq(
        np.column_stack([np.ones(2 * n), (q - p) / mixture]), draws.f * p / mixture, rcond=None
    )[0][1]
    each = (draws.f * p - beta * (q - p)) / mixture
    expected = each.mean()
    assert abs(expected - norm.sf(1.5)) < 4 * each.std() / (2 * n) ** 0.5
    found = regress(draws, ridge=1e-9).combined.value.item()
    assert found == pytest.approx(expected, rel=1e-6)
