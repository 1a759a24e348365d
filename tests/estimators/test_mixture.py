"""SNIS with the mixture of all proposals, independent and stratified."""

import numpy as np
from discrete import signed

from amci_core.estimators import ESTIMATORS

MODEL = signed()


def test_stratifying_lowers_the_variance_of_a_term():
    total, runs = 30, 20_000
    draws = MODEL.draws((total, total, total), runs=runs, seed=3)
    E1 = {}
    for name in ("snis-qm", "snis-qm-stratified"):
        prepared = ESTIMATORS[name].running(draws, [total], np.random.default_rng(4))
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
