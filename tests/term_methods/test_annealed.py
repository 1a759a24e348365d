"""Annealed importance sampling: exact, unbiased, honest about its error, and reproducible."""

import math

import numpy as np
import pytest
import torch
from normals import Normal, normal_above, normal_term
from scipy.special import log_ndtr
from torch.distributions import constraints

from amci_core.term_methods import Annealed, Importance, Integrand


def test_one_that_starts_at_the_integrand_has_no_variance_and_needs_no_moves():
    integrand = normal_term(mean=2.0, scale=0.5, dim=3, log_size=-700.0)
    found = Annealed(chains=20, pilot=50)(integrand, Normal(2.0, 0.5, 3), seed=0)
    assert found.log_value == pytest.approx(-700.0, abs=1e-12)
    assert found.standard_error < 1e-14
    assert found.draws == integrand.evaluations == 70


def test_estimates_are_unbiased_and_their_errors_those_of_the_runs():
    # Three standard deviations away: importance sampling has a variance of exp(9).
    annealed = Annealed(chains=300, pilot=100, moves=3, retained=0.85)
    runs = [annealed(normal_term(mean=3.0), Normal(), seed=seed) for seed in range(100)]
    values = np.exp([run.log_value for run in runs])
    assert abs(values.mean() - 1) < 4 * values.std() / math.sqrt(len(values))
    z = np.array([run.log_value / run.standard_error for run in runs])
    # A standard deviation of 100 is known to 7 %; the logarithm adds a little.
    assert z.std() == pytest.approx(1.0, abs=0.28)


def test_more_chains_bring_the_error_down_as_their_root():
    errors = [
        np.mean(
            [
                Annealed(chains=n)(normal_term(mean=3.0), Normal(), seed=s).standard_error
                for s in range(5)
            ]
        )
        for n in (500, 8000)
    ]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


@pytest.mark.parametrize("bound", [0.0, 4.0, 12.0])
def test_the_tail_of_a_normal(bound):
    # From a density that knows the place and little more; -76 nats at 12.
    start = Normal(bound + 1, 2.0)
    found = Annealed()(normal_above(bound), start, seed=0)
    assert abs(found.log_value - log_ndtr(-bound)) < 4 * found.standard_error
    assert found.standard_error < 0.06


def test_chains_that_start_where_the_integrand_is_zero_count_as_zeros():
    runs = [Annealed(chains=200)(normal_above(0.0), Normal(), seed=seed) for seed in range(50)]
    values = np.exp([run.log_value for run in runs])
    assert abs(values.mean() - 0.5) < 4 * values.std() / math.sqrt(50)
    # Half of 200 weights are 1, and half are 0.
    assert np.mean([run.standard_error for run in runs]) == pytest.approx(200**-0.5, rel=0.05)


def test_an_integrand_that_no_chain_meets_is_zero_with_an_unknown_error():
    nowhere = Integrand(1, lambda x: torch.full(x.shape[:-1], -torch.inf), constraints.real)
    for annealed in (Annealed(), Importance()):
        found = annealed(nowhere, Normal(), seed=0)
        assert found.log_value == -math.inf
        assert math.isnan(found.standard_error)


def test_correlated_integrands_in_five_dimensions():
    rng = np.random.default_rng(0)
    root = torch.from_numpy(rng.normal(size=(5, 5)) + 2 * np.eye(5))
    target = torch.distributions.MultivariateNormal(
        torch.arange(5.0, dtype=torch.float64), scale_tril=torch.linalg.cholesky(root @ root.T)
    )
    integrand = Integrand(5, target.log_prob, constraints.real)
    found = Annealed()(integrand, Normal(0.0, 3.0, 5), seed=1)
    assert abs(found.log_value) < 4 * found.standard_error
    assert found.standard_error < 0.1


def test_a_seed_gives_the_same_estimate_and_leaves_the_global_generators_alone():
    before = torch.random.get_rng_state()
    first, again, other = (
        Annealed()(normal_term(mean=1.0), Normal(), seed=seed) for seed in (3, 3, 4)
    )
    assert first == again
    assert first.log_value != other.log_value
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_start_whose_density_is_no_number_is_refused():
    class Broken(Normal):
        def log_prob(self, x):
            return torch.full(x.shape[:-1], torch.nan)

    with pytest.raises(ValueError, match=r"start: expected finite log densities .* got nan"):
        Annealed()(normal_term(), Broken(), seed=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chains": 1}, "chains: expected a whole number from 2"),
        ({"moves": 0}, "moves: expected a whole number from 1"),
        ({"pilot": 3}, "pilot: expected a whole number from 50"),
        ({"retained": 1.0}, "retained: expected a share between 0 and 1, got 1.0"),
        ({"retained": float("nan")}, "retained: expected a share"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Annealed(**arguments)
