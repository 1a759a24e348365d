"""The shape of the tail of weights: known shapes are found again."""

import numpy as np
import pytest

from amci_core.diagnostics.pareto import pareto_k, pareto_tail

K = (0.2, 0.7, 1.2)


def pareto(k, shape, seed=0):
    """Weights 1 + X with a generalised Pareto X of scale 2."""
    return 1 + 2 / k * np.random.default_rng(seed).pareto(1 / k, shape)


@pytest.mark.parametrize("k", K)
def test_the_shape_of_pareto_weights_is_found(k):
    runs, draws = 200, 4000
    found = pareto_k(pareto(k, (runs, draws)))
    size = int(3 * draws**0.5)
    # The fit comes with a prior: ten draws' worth of k = 1/2.
    expected = (size * k + 5) / (size + 10)
    spread = (1 + k) / np.sqrt(size)
    assert abs(found.mean() - expected) < 4 * spread / np.sqrt(runs) + 1 / size
    assert found.std() == pytest.approx(spread, rel=0.2)


def test_bounded_and_equal_weights_have_no_heavy_tail_and_few_weights_none():
    rng = np.random.default_rng(0)
    assert (pareto_k(rng.uniform(size=(20, 4000))) < 0).all()
    assert (pareto_k(np.ones((2, 3, 100))) == np.full((2, 3), -np.inf)).all()
    assert pareto_k(np.exp(rng.normal(scale=1e-14, size=100))) == -np.inf
    weights = pareto(0.5, 100)
    found = [pareto_k(each) for each in (weights[:24], np.zeros(100), weights[:25])]
    assert np.isnan(found).tolist() == [True, True, False]
    # Neither zeros nor units change it.
    same = 1e-200 * rng.permutation(np.append(weights, np.zeros(700)))
    assert pareto_k(same) == pytest.approx(float(pareto_k(weights)))


@pytest.mark.parametrize("k", K)
def test_the_fitted_tail_is_the_one_that_was_drawn(k):
    log_w = np.log(pareto(k, 100_000))
    tail = pareto_tail(log_w - 700)
    assert tail.k == pytest.approx(float(pareto_k(np.exp(log_w))))
    assert tail.size == int(3 * len(log_w) ** 0.5)
    u = np.exp(tail.log_cutoff + 700)
    # A generalised Pareto distribution above a cutoff is one of the same shape.
    expected = 2 + k * (u - 1)
    assert tail.scale * u == pytest.approx(expected, rel=4 * 2 / np.sqrt(tail.size))


@pytest.mark.parametrize("ties", [90, 96, 200, 950])
def test_a_largest_weight_that_occurs_often_is_not_judged(ties):
    weights = np.append(np.random.default_rng(0).uniform(size=1000 - ties), np.ones(ties))
    assert np.isnan(pareto_k(weights))
    assert np.isnan(pareto_k(weights * np.exp(1e-14 * np.arange(1000))))
    # Ties in a tail would make it look light.
    assert np.isnan(pareto_k(np.append(weights, [2, 3, 5, 9, 17])))
