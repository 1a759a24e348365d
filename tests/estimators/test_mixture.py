"""SNIS with the mixture of all proposals, independent and stratified."""

import numpy as np
from discrete import signed

from amci_core.estimators import ESTIMATORS
from amci_core.estimators.mixture import (
    mixture_draws,
    random_components,
    stratified_components,
    stratified_moments,
)

MODEL = signed()


def test_points_are_weighted_by_the_density_of_the_mixture():
    draws = MODEL.draws((8, 8, 8), runs=3, seed=0)
    components = random_components((3, 8), proposals=3, rng=np.random.default_rng(0))
    mixed = mixture_draws(draws, components).draws
    assert mixed.present == (2,)
    for run, i in np.ndindex(3, 8):
        source = draws.of(int(components[run, i]))
        q = [np.exp(source.log_q_of(j)[run, i]) for j in range(3)]
        expected = source.log_joint[run, i] - np.log(np.mean(q))
        np.testing.assert_allclose(mixed.log_weight(2)[run, i], expected, rtol=1e-12)
        assert mixed.of(2).f_plus[run, i] == source.f_plus[run, i]


def test_components_are_equally_likely_at_every_place():
    runs, n, J = 30_000, 5, 3
    rng = np.random.default_rng(1)
    for components in (
        random_components((runs, n), proposals=J, rng=rng),
        stratified_components((runs, n), proposals=J, rng=rng),
    ):
        tolerance = 4 * np.sqrt(1 / J * (1 - 1 / J) / runs)
        for j in range(J):
            assert (abs((components == j).mean(axis=0) - 1 / J) < tolerance).all()


def test_stratified_components_are_balanced_in_every_run():
    rng = np.random.default_rng(2)
    components = stratified_components((100, 10), proposals=3, rng=rng)
    for n in range(1, 11):
        shares = np.stack([(components[:, :n] == j).sum(axis=1) for j in range(3)])
        assert np.ptp(shares, axis=0).max() <= 1
    assert len(np.unique(components[:, 0])) == 3


def test_stratifying_lowers_the_variance_of_a_term():
    total, runs = 30, 20_000
    draws = MODEL.draws((total, total, total), runs=runs, seed=3)
    E1 = {}
    for name in ("snis-qm", "snis-qm-stratified"):
        prepared = ESTIMATORS[name].prepare(draws, [total], np.random.default_rng(4))
        E1[name] = np.exp(prepared.combine().log_terms[:, 0, 0])

    # Within components instead of over the mixture: the spread between their means goes.
    w = MODEL.joint / MODEL.q.mean(axis=0)
    first = MODEL.q @ (MODEL.factors[0] * w)
    second = MODEL.q @ (MODEL.factors[0] * w) ** 2
    independent = (second.mean() - first.mean() ** 2) / total
    stratified = (second - first**2).mean() / total
    # A sample variance of nearly normal values is known to sqrt(2 / runs).
    tolerance = 4 * np.sqrt(2 / runs) + 0.02
    np.testing.assert_allclose(E1["snis-qm"].var(), independent, rtol=tolerance)
    np.testing.assert_allclose(E1["snis-qm-stratified"].var(), stratified, rtol=tolerance)
    assert stratified < 0.8 * independent


def test_stratified_moments_are_those_within_the_components():
    runs, n = 400, 3000
    draws = MODEL.draws((n, n, n), runs=runs, seed=5)
    components = stratified_components((runs, n), proposals=3, rng=np.random.default_rng(6))
    found = stratified_moments(mixture_draws(draws, components))
    covariance = np.exp(2 * found.log_scale)[:, None, None] * found.covariance[:, 2]
    values = MODEL.factors * MODEL.joint / MODEL.q.mean(axis=0)
    within = [np.cov(values, aweights=q, ddof=0) for q in MODEL.q]
    error = abs(covariance.mean(axis=0) - np.mean(within, axis=0))
    # Ratios of means over n draws have a bias of order 1 / n.
    tolerance = 4 * covariance.std(axis=0) / np.sqrt(runs) + abs(np.mean(within, axis=0)) / 300
    assert (error < tolerance).all()
    mean = np.exp(found.log_scale)[:, None] * found.mean
    assert (abs(mean.mean(0) - MODEL.terms) < 4 * mean.std(0) / np.sqrt(runs)).all()
