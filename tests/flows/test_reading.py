"""Exchangeable observations: what networks read of them does not depend on their order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributions import Exponential, Independent, Normal, Poisson, Uniform

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.families import forms
from amci_core.flows.reading import reading_of, summaries
from amci_core.models import Problem


def five_normal() -> Problem:
    """Five values of an unknown mean and spread."""

    def values(x: torch.Tensor) -> Independent:
        mean, spread = x[..., :1], x[..., 1:].exp()
        return Independent(Normal(mean.expand(*x.shape[:-1], 5), spread), 1)

    return amci.model(prior=[Normal(0.0, 2.0)] * 2, likelihood=values, f="x1 > 1", name="five")


def two_groups() -> Problem:
    """Three lifetimes and two counts of a rate, and a measurement."""

    def values(x: torch.Tensor) -> list[torch.distributions.Distribution]:
        wide = x[..., None]
        return [
            Independent(Exponential(wide.expand(*x.shape, 3)), 1),
            Independent(Poisson(wide.expand(*x.shape, 2)), 1),
            Normal(x, 1.0),
        ]

    return amci.model(prior=Exponential(0.2), likelihood=values, f="x > 1", name="groups")


def slope() -> Problem:
    """A line seen at four places: no two of them can change."""
    at = torch.tensor([0.5, 1.0, 2.0, 4.0])
    return amci.model(
        prior=Normal(0.0, 1.0),
        likelihood=lambda x: Independent(Normal(x[..., None] * at, 0.3), 1),
        f="x > 0",
        name="slope",
    )


@pytest.mark.parametrize(
    ("make", "groups"), [(five_normal, [[0, 5]]), (two_groups, [[0, 3], [3, 5]])]
)
def test_places_that_may_change_are_read_in_order_of_size(
    make: Callable[[], Problem], groups: list[list[int]]
) -> None:
    problem = make()
    reading = reading_of(problem)
    assert reading is not None
    assert reading["groups"] == groups
    y, _ = problem.check(*problem.cases(8, seed=0))
    changed = y.clone()
    for first, end in groups:
        changed[:, first:end] = y[:, first:end].flip(-1)
    torch.testing.assert_close(summaries(changed, reading), summaries(y, reading))
    form = forms(problem, reads_theta=False)["spline" if problem.x.dim == 1 else "rotated"]
    q = FAMILIES[form["family"]](problem, **form["arguments"]).double()
    x = problem.sample_prior(8, torch.Generator().manual_seed(0)).double()[:, None]
    torch.testing.assert_close(q(changed, None).log_prob(x), q(y, None).log_prob(x))


def test_measurements_at_different_places_are_read_one_by_one() -> None:
    assert reading_of(slope()) is None
    assert reading_of(amci.problem("tail-5d")) is None
    assert reading_of(amci.problem("peak")) is None


def test_the_mean_and_spread_of_a_group_are_among_what_is_read() -> None:
    problem = five_normal()
    reading = reading_of(problem)
    assert reading is not None
    y = torch.tensor([[3.0, 1.0, 2.0, 5.0, 4.0]], dtype=torch.float64)
    expected = [1.0, 2.0, 3.0, 4.0, 5.0, 3.0, torch.tensor(2.5).sqrt().log()]
    torch.testing.assert_close(summaries(y, reading)[0], torch.tensor(expected).double())


def test_equal_counts_and_zeros_are_read_as_numbers() -> None:
    problem = two_groups()
    reading = reading_of(problem)
    assert reading is not None
    y = torch.tensor([[0.0, 1e-9, 2.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    assert summaries(y, reading).isfinite().all()


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_unit_of_measurement_makes_no_difference(unit: float) -> None:
    """What is read of lifetimes, in units of its own range, is the same in days and in hours."""

    def lifetimes(x: torch.Tensor) -> Independent:
        return Independent(Exponential((x / unit)[..., None].expand(*x.shape, 4)), 1)

    problem = amci.model(prior=Uniform(0.5, 2.0), likelihood=lifetimes, f="x > 1")
    reading = reading_of(problem)
    assert reading is not None
    y = torch.tensor([[0.5, 0.1, 3.0, 0.7]], dtype=torch.float64) * unit
    centre, half_width = (torch.tensor(reading[k]) for k in ("centre", "half_width"))
    in_days = torch.tensor([-0.2136, 0.2129, -0.0431, 0.5442, 0.0986, 0.6322, 0.3217, 0.6090])
    read = ((summaries(y, reading) - centre) / half_width)[0]
    torch.testing.assert_close(read, in_days.double(), atol=0.01, rtol=0)


def test_values_on_the_line_that_are_positive_by_chance_stay_apart() -> None:
    problem = amci.model(
        prior=Normal(7.0, 1.0),
        likelihood=lambda x: Independent(Normal(x[..., None].expand(*x.shape, 3), 1.0), 1),
        f="x > 8",
    )
    reading = reading_of(problem)
    assert reading is not None
    y = torch.tensor([[-1.0, -3.0, -2.0], [-6.0, -7.0, -5.0]], dtype=torch.float64)
    # Sorted values and their mean.
    expected = [[-3.0, -2.0, -1.0, -2.0], [-7.0, -6.0, -5.0, -6.0]]
    torch.testing.assert_close(summaries(y, reading)[:, :4], torch.tensor(expected).double())
