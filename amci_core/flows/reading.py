r"""How networks read y: exchangeable observations sorted, beside their mean and spread.

Eight lifetimes of one law come in an order that says nothing. A network that reads them one by one
has to learn from examples that 8! orders mean the same. Where coordinates of y can change places
without a change of p(y | x), it reads their order statistics, and the mean and the standard
deviation that most posteriors depend on. Coordinates that cannot be negative are read by their
logarithm. Both are tried at draws.

References:
    Zaheer et al., Deep Sets, 2017, for functions of exchangeable inputs.
"""

from __future__ import annotations

__all__ = ["Reading", "reading_of", "summaries"]

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.models.base import Problem

# Groups of exchangeable coordinates, as [first, last + 1]; the unit of each coordinate that is
# read by log(1 + y / unit), or 0; and where most values of the summaries lie.
Reading = Mapping[str, Any]
# Draws from p(y), for units and ranges; and those at which the likelihood is compared.
DRAWS, COMPARED = 1024, 128
# Of these so many have to differ in two coordinates.
LEAST = 8
# More numbers than this are read as they are: every neighbour costs a comparison.
MOST = 100
# Levels of the quantiles that become -1 and 1.
LEVELS = 0.05, 0.95


def reading_of(problem: Problem) -> Reading | None:
    """How networks read the y of a problem; None if it is read as it is, as more than 100 numbers.

    Example:
        >>> from torch.distributions import Independent, Normal
        >>> from amci_core import model
        >>> def five_values(x):
        ...     return Independent(Normal(x[..., None].expand(*x.shape, 5), 1.0), 1)
        >>> mean = model(prior=Normal(0.0, 2.0), likelihood=five_values, f="x > 1")
        >>> reading_of(mean)["groups"]
        [[0, 5]]
    """
    if problem.y is None or problem.y.dim > MOST:
        return None
    generator = torch.Generator().manual_seed(0)
    groups = _groups(problem, generator)
    if not groups:
        return None
    y, _ = problem.sample_cases(DRAWS, generator)
    y = y.double()
    counts = bool(np.any(problem.y.whole))
    # Values on the line may be positive by chance, but then they are not skewed.
    known = torch.from_numpy(problem.y.ends[0] >= 0)
    positive = (y >= 0).all(0) & (known | (y.quantile(0.98, 0) > 4 * y.median(0).values))
    # Of counts about one half.
    unit = y.clamp(min=0.5 if counts else 0.0).quantile(0.02, 0)
    for first, end in groups:
        unit[first:end] = unit[first:end].mean() * positive[first:end].all()
    reading: dict[str, Any] = {
        "groups": groups,
        "unit": [float(f"{u:.3g}") for u in unit.where(positive, 0.0).tolist()],
        # Equal counts have no spread.
        "least_spread": 0.1 if counts else 1e-30,
    }
    low, high = np.quantile(summaries(y, reading).numpy(), LEVELS, axis=0)
    width = np.maximum(high - low, 1e-6 * (1 + np.abs(low)))
    for name, values in (("centre", (low + high) / 2), ("half_width", width / 2)):
        reading[name] = [float(f"{value:.6g}") for value in values]
    return reading


def summaries(y: Tensor, reading: Reading) -> Tensor:
    """What is read of y (*, D_y): (*, S).

    Of each group its sorted values, their mean and log standard deviation and, where it is read by
    logarithms, those of the values themselves; then the other coordinates.
    """
    unit = y.new_tensor(reading["unit"])
    in_units = (y / unit.where(unit > 0, 1.0)).clamp(min=0)
    scaled = torch.where(unit > 0, in_units.log1p(), y)
    rest = torch.ones(y.shape[-1], dtype=torch.bool)
    columns = []
    for first, end in reading["groups"]:
        group = scaled[..., first:end]
        columns += [group.sort(-1).values, *_moments(group, reading["least_spread"])]
        if unit[first] > 0:
            mean, log_spread = _moments(in_units[..., first:end], reading["least_spread"])
            columns += [mean.log1p(), log_spread]
        rest[first:end] = False
    return torch.cat([*columns, scaled[..., rest]], -1)


def _moments(values: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """The mean, and the logarithm of the standard deviation, of values (*, n): (*, 1) each."""
    spread = values.std(-1, keepdim=True)
    return values.mean(-1, keepdim=True), spread.clamp(min=least).log()


def _groups(problem: Problem, generator: torch.Generator) -> list[list[int]]:
    """Neighbouring coordinates of y that can change places: [first, last + 1] of each group."""
    x = problem.sample_prior(COMPARED, generator).double()
    y = problem.sample_likelihood(x, generator).double()
    log_p = problem.log_likelihood(x, y)
    groups = [[0, 1]]
    for i in range(1, y.shape[-1]):
        swapped = y.clone()
        swapped[:, [i - 1, i]] = y[:, [i, i - 1]]
        alike = torch.isclose(problem.log_likelihood(x, swapped), log_p, rtol=1e-9, atol=1e-9)
        # Equal counts show nothing.
        differ = y[:, i - 1] != y[:, i]
        if differ.sum() >= LEAST and alike.all():
            groups[-1][1] = i + 1
        else:
            groups.append([i, i + 1])
    return [[first, end] for first, end in groups if end - first > 1]
