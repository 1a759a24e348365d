"""The comparison of draws with a density: no false alarms, and small errors are seen."""

import math

import pytest
import torch
from torch.distributions import Exponential, Normal, StudentT

from amci_core.checking.comparison import compare

MANY = 131_072


def generator(seed):
    return torch.Generator().manual_seed(seed)


def normal(n, dim, seed=0):
    return torch.randn(n, dim, generator=generator(seed), dtype=torch.float64)


def log_normal_density(x):
    return Normal(0.0, 1.0).log_prob(x).sum(-1)


def spikes(z):
    """Two narrow modes far apart."""
    return z * 0.01 + torch.where(z[:, :1] > 0, 10.0, -10.0)


def log_spikes(x):
    """Each coordinate in [-10, 10] + half a normal one, all on the same side."""
    side = x[:, :1].sign()
    z = (x - 10 * side) / 0.01
    half = (z[:, 0] * side[:, 0]).masked_fill(z[:, 0] * side[:, 0] < 0, math.inf)
    rest = Normal(0.0, 1.0).log_prob(z[:, 1:]).sum(-1)
    return Normal(0.0, 1.0).log_prob(half) + rest - z.shape[1] * math.log(0.01)


def log_wide_part(x):
    parts = [Normal(0.0, 1.0).log_prob(x), Normal(0.0, 100.0).log_prob(x)]
    return torch.logaddexp(parts[0] + math.log(0.999), parts[1] + math.log(0.001)).sum(-1)


# Standard normal draws (n, D) made into others, and their density.
RIGHT = {
    "normal": (lambda z: z, log_normal_density),
    "log-normal": (
        torch.exp,
        lambda x: (
            log_normal_density(x.clamp(min=1e-300).log()) - x.clamp(min=1e-300).log().sum(-1)
        ),
    ),
    "exponential": (
        lambda z: -torch.special.log_ndtr(z),
        lambda x: Exponential(1.0, validate_args=False).log_prob(x).sum(-1),
    ),
    "heavy tails": (
        lambda z: (math.pi * (torch.special.ndtr(z) - 0.5)).tan(),
        lambda x: StudentT(1.0).log_prob(x).sum(-1),
    ),
    "a wide part": (
        lambda z: z * torch.where(torch.rand(z.shape, generator=generator(1)) < 0.001, 100, 1),
        log_wide_part,
    ),
    "two modes": (spikes, log_spikes),
}


@pytest.mark.parametrize("dim", [1, 20])
@pytest.mark.parametrize("kind", RIGHT)
def test_right_draws_raise_no_alarm(kind, dim):
    made, log_density = RIGHT[kind]
    for seed in range(20):
        found = compare(made(normal(2048, dim, seed)), log_density, generator(1000 + seed))
        assert not found.alarm


def test_a_density_that_no_normal_one_resembles_is_not_judged():
    found = compare(spikes(normal(2048, 20)), log_spikes, generator(0))
    assert not found.judged


@pytest.mark.parametrize("missing", [-0.05, 0.05, 0.5, 92.0])
def test_a_missing_constant_is_found_with_its_size(missing):
    dim = 100 if missing > 1 else 1
    found = compare(normal(16_384, dim), lambda x: log_normal_density(x) + missing, generator(1))
    assert not found.shape
    assert math.log(found.integral) == pytest.approx(missing, abs=0.02)


@pytest.mark.parametrize("kind", ["normal", "exponential"])
@pytest.mark.parametrize(("scale", "shift"), [(1.02, 0.0), (0.98, 0.0), (1.0, 0.02)])
@pytest.mark.parametrize("dim", [1, 5])
def test_an_error_of_two_per_cent_in_one_coordinate_is_found(dim, scale, shift, kind):
    made, log_density = RIGHT[kind]
    z = normal(MANY, dim)
    z[:, 0] = scale * z[:, 0] + shift
    assert compare(made(z), log_density, generator(1)).shape


def test_a_correlation_of_a_tenth_is_found():
    z = normal(MANY, 2)
    z[:, 1] += 0.1 * z[:, 0]
    z[:, 1] /= math.sqrt(1.01)
    assert compare(z, log_normal_density, generator(1)).shape


@pytest.mark.parametrize("places", [1, 10])
def test_a_sampler_that_repeats_itself_is_found(places):
    x = normal(places, 2).repeat(4096 // places, 1)
    assert compare(x, log_normal_density, generator(1)).alarm
