"""The test of samplers: no false alarms, and alarms where draws do not follow the density."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Exponential, Normal

from amci_core.checking.calibration import Copula, against_copula, calibration


def generator(seed):
    return torch.Generator().manual_seed(seed)


def normal(n, dim, seed):
    return torch.randn(n, dim, generator=generator(seed), dtype=torch.float64)


def log_normal_density(x):
    return Normal(0.0, 1.0).log_prob(x).sum(-1)


@pytest.mark.parametrize("dim", [1, 2, 20])
def test_right_draws_raise_no_alarm(dim):
    for seed in range(200):
        found, _ = against_copula(normal(1024, dim, seed), log_normal_density, generator(seed))
        assert found.judged
        assert not found.alarm


def test_labels_of_right_odds_raise_no_alarm_even_where_they_are_all_but_certain():
    # Where the odds are long, few labels go against them: a normal approximation would be wrong.
    rng = np.random.default_rng(0)
    for spread in (0.1, 1.0, 5.0, 30.0):
        for _ in range(200):
            log_odds = torch.from_numpy(spread * rng.normal(size=500))
            label = torch.from_numpy(rng.random(500)) < torch.sigmoid(log_odds)
            features = torch.stack([log_odds.tanh(), log_odds.sign()], -1)
            assert not calibration(log_odds, label.double(), features).alarm


def test_sources_that_never_meet_are_not_judged():
    label = (torch.arange(1000) % 2).double()
    log_odds = 200 * label - 100
    assert calibration(log_odds, label, label[:, None]) == (False, False)
    # All labels against the odds are an alarm, though their variance is nil.
    assert calibration(-log_odds, label, label[:, None]).alarm


@pytest.mark.parametrize("missing", [0.1, 0.5, 92.0])
def test_a_missing_constant_is_found_with_its_size(missing):
    dim = 100 if missing > 1 else 1
    x = normal(32_768, dim, seed=0)
    found, integral = against_copula(x, lambda x: log_normal_density(x) + missing, generator(1))
    assert found.alarm
    assert math.log(integral) == pytest.approx(missing, abs=0.1)


@pytest.mark.parametrize("scale", [0.9, 1.1])
@pytest.mark.parametrize("dim", [1, 10])
def test_a_scale_that_is_off_by_a_tenth_is_found(scale, dim):
    x = scale * normal(32_768, dim, seed=0)
    assert against_copula(x, log_normal_density, generator(1))[0].alarm


@pytest.mark.parametrize("dim", [1, 2])
def test_the_copula_is_a_density_and_draws_from_it(dim):
    mixed = normal(4096, dim, seed=0).cumsum(-1)
    x = Exponential(1.0).icdf(Normal(0.0, 2.0).cdf(mixed))
    copula = Copula(x)
    low, high = x.amin(0), x.amax(0)
    cells = 1000 if dim == 2 else 200_000
    grid = (torch.arange(cells, dtype=torch.float64) + 0.5) / cells
    points = torch.cartesian_prod(*[grid] * dim).reshape(-1, dim) * (high - low) + low
    mass = copula.log_prob(points)[0].exp().mean() * (high - low).prod()
    # Cells that a step of the margins or the corner cuts err by about their share.
    assert float(mass) == pytest.approx(1, abs=0.02)
    drawn = copula.draw(20_000, generator(1))
    assert ((drawn >= low) & (drawn <= high)).all()
    assert drawn.mean(0).numpy() == pytest.approx(x.mean(0).numpy(), rel=0.1)
    # By the same test: draws of the copula follow the copula.
    assert not against_copula(drawn, lambda x: copula.log_prob(x)[0], generator(2))[0].alarm


@pytest.mark.parametrize("places", [1, 10])
def test_a_sampler_that_repeats_itself_is_found(places):
    x = normal(places, 2, seed=0).repeat(4096 // places, 1)
    assert against_copula(x, log_normal_density, generator(1))[0].alarm
