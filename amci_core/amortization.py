r"""Where amortization works: the quality of proposals over a plane of (y, theta).

The plane is filled from coarse to fine: a case that is still to come shows the nearest that has
come, so that the picture is whole from the first step on.
"""

from __future__ import annotations

__all__ = [
    "AmortizationMap",
    "Axis",
    "amortization_map",
    "axis_names",
    "default_plane",
    "map_stream",
]

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from amci_core._arguments import check_count, check_seed, part_seed
from amci_core.diagnostics import pareto_k
from amci_core.estimation.sampling import Sampler, generators, resolve_names
from amci_core.estimators import PROPOSALS, TERMS, moments
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.base import written
from amci_core.parallel import Stream

# Points of one step in one dimension; in D dimensions a point costs about D^2 times as much.
STEP_POINTS = 20_000
LEAST_MAP_DRAWS, MOST_DRAWS, MOST_CASES = 32, 100_000, 1_000_000
# Cases along each axis of the first, coarsest picture, about.
COARSEST = 4
GOLDEN = (np.sqrt(5) - 1) / 2

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """One axis of a plane of cases.

    Arguments:
        variable: Which variable it moves, y or theta.
        coordinate: Which of its coordinates; None for all of them at once.
        values: Where the cases are, increasing, (n,).
    """

    variable: str
    coordinate: int | None
    values: Array

    @property
    def name(self) -> str:
        """As `amortization_map` takes it: y, or theta[1]."""
        return self.variable if self.coordinate is None else f"{self.variable}[{self.coordinate}]"


@dataclass(frozen=True)
class AmortizationMap:
    """The quality of AMCI over a plane of m x n cases, with T terms that are drawn for.

    Arguments:
        x: The axis across, with n values.
        y: The axis upwards, with m values.
        terms: Names of the terms: E1_plus, E1_minus, E2 or some of them.
        relative_variance: Delta-method variance of AMCI's estimate over mu^2, for one draw of each
            proposal, (m, n): where f >= 0 the sum of the terms' relative variances.
        relative_ess: Relative effective sample size of the draws for each term: 1 / (1 + its
            relative variance), (T, m, n).
        pareto_k: k-hat of each term's weights on its own proposal, (T, m, n); -inf where these are
            equal, NaN where there are too few to say.
        bound_ratio: The least mean squared error of self-normalized importance sampling with
            independent draws from one proposal over that of AMCI with as many draws in total, both
            for many draws, (m, n): above 1 where AMCI is below that bound. With more draws both
            fall alike. NaN where the problem does not know its bound.
        done: Which cases are computed, (m, n); others hold the values of the nearest that is.
    """

    x: Axis
    y: Axis
    terms: tuple[str, ...]
    relative_variance: Array
    relative_ess: Array
    pareto_k: Array
    bound_ratio: Array
    done: NDArray[np.bool_]

    def __repr__(self) -> str:
        least = ", ".join(
            f"{term} {np.nanmin(ess):.2g}"
            for term, ess in zip(self.terms, self.relative_ess, strict=True)
        )
        return (
            f"AmortizationMap: {self.cases:,} of {self.done.size:,} cases, {self.x.name} by "
            f"{self.y.name}; least relative ESS: {least}"
        )

    @property
    def cases(self) -> int:
        """Number of cases computed so far."""
        return int(self.done.sum())


def amortization_map(
    problem: Problem | str,
    proposals: Proposals | str | None = None,
    *,
    along: Sequence[str] | None = None,
    size: int | tuple[int, int] = 33,
    draws: int = 256,
    y: Any = None,
    theta: Any = None,
    seed: int = 0,
    on_progress: Callable[[AmortizationMap], object] | None = None,
) -> AmortizationMap:
    """The quality of proposals over a plane of (y, theta), within the ranges shown.

    Arguments:
        problem: The problem.
        proposals: The proposals to evaluate.
        along: The two axes, across and upwards: `y` or `theta` for all coordinates at once,
            `y[0]` or `theta[1]` for one, counted from 0. By default (y, theta); where one of them
            is missing, the first two coordinates of the other.
        size: Number of cases along both axes, or along each; at least 2. Fewer along an axis of
            whole numbers that has not as many.
        draws: Points from each proposal, and as many from a defensive density, in each case.
        y: The value of y where the axes do not move it; by default that of
            `Problem.typical_case`.
        theta: The value of theta where the axes do not move it, with the same default.
        seed: Whole number >= 0.
        on_progress: Called with the map so far after each part of the cases, the last time with
            the result. An exception that it raises ends the computation.

    Returns:
        `AmortizationMap`: axes `x` and `y`, and for each case of the plane the relative
        variance per draw, relative ESS, Pareto k-hat and SNIS bound over AMCI's error.

    Raises:
        ValueError: an argument is out of range, the proposals are another problem's, or a range
            that is needed has no end.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
        >>> found = amci.amortization_map(problem, proposals, size=2, draws=32)
        >>> bool((found.relative_ess > 0.999).all())
        True
    """
    problem, proposals = resolve_names(problem, proposals)
    stream = map_stream(
        problem, proposals, along=along, size=size, draws=draws, y=y, theta=theta, seed=seed
    )
    return stream.run(on_progress)


def map_stream(
    problem: Problem,
    proposals: Proposals,
    *,
    along: Sequence[str] | None,
    size: int | tuple[int, int],
    draws: int,
    y: Any,
    theta: Any,
    seed: int = 0,
) -> Stream[AmortizationMap]:
    """The map of `amortization_map` in parts, from coarse to fine; arguments as there."""
    check_count("draws", draws, low=LEAST_MAP_DRAWS, high=MOST_DRAWS)
    check_seed(seed)
    n, m = size if isinstance(size, tuple) else (size, size)
    for each in (n, m, n * m):
        check_count("size", each, low=2, high=MOST_CASES)
    across, upwards = _axes(problem, along or default_plane(problem), (n, m))
    n, m = len(across.values), len(upwards.values)
    typical = problem.typical_case()
    fixed_y, fixed_theta = problem.check(
        typical[0] if y is None else y, typical[1] if theta is None else theta
    )
    if fixed_y.ndim > 1:
        raise ValueError(f"y: expected a single case, got batch shape {tuple(fixed_y.shape[:-1])}")
    present = proposals.present
    terms = tuple(TERMS[j] for j in present)
    step = max(1, STEP_POINTS // (2 * len(present) * draws * problem.x.dim**2))
    steps = list(_steps(m, n, step))

    def part(number: int) -> dict[str, Array]:
        cases = steps[number]
        at = {"y": fixed_y.repeat(len(cases), 1)}
        if fixed_theta is not None:
            at["theta"] = fixed_theta.repeat(len(cases), 1)
        for column, axis in ((1, across), (0, upwards)):
            values = torch.as_tensor(axis.values[cases[:, column]])
            which = slice(None) if axis.coordinate is None else [axis.coordinate]
            at[axis.variable][:, which] = values[:, None]
        for_points, _ = generators(part_seed(seed, number, "map"))
        return _quality(Sampler(problem, proposals, at["y"], at.get("theta")), draws, for_points)

    def merge(parts: Sequence[dict[str, Array]]) -> AmortizationMap:
        done = np.zeros((m, n), dtype=bool)
        cases = np.concatenate(steps[: len(parts)])
        done[tuple(cases.T)] = True
        _, nearest = cKDTree(cases).query(np.moveaxis(np.indices((m, n)), 0, -1))
        fields = {
            name: np.concatenate([each[name] for each in parts], -1)[..., nearest]
            for name in parts[0]
        }
        return AmortizationMap(x=across, y=upwards, terms=terms, done=done, **fields)

    return Stream(len(steps), part, merge)


def _steps(m: int, n: int, size: int) -> Iterator[Indices]:
    """The cases (row, column) of every step, from coarse to fine."""
    coarsest = 2 ** int(np.log2(max(1, (max(m, n) - 1) // COARSEST)))
    stride = coarsest
    while stride >= 1:
        rows, columns = np.meshgrid(
            np.arange(0, m, stride), np.arange(0, n, stride), indexing="ij"
        )
        cases = np.stack([rows.ravel(), columns.ravel()], -1)
        if stride < coarsest:
            cases = cases[(cases % (2 * stride) != 0).any(axis=-1)]
        # Multiples of the golden ratio are spread evenly, for any number of them.
        cases = cases[np.argsort(np.arange(len(cases)) * GOLDEN % 1, kind="stable")]
        for start in range(0, len(cases), size):
            yield cases[start : start + size]
        stride //= 2


def _quality(sampler: Sampler, draws: int, generator: torch.Generator) -> dict[str, Array]:
    """What a map shows of each case, from draws of every proposal and of the reference."""
    problem = sampler.problem
    present = [j for j in sampler.present if j < len(PROPOSALS)]
    drawn = sampler.draw(
        [*(draws if j in present else 0 for j in range(len(PROPOSALS))), draws * len(present)],
        generator,
    )
    seen = moments(drawn)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_mean = seen.log_mean
        spread = [seen.covariance[..., j, j, j] for j in present]
        # A proposal that all but misses its term has weights that overflow.
        relative = np.stack([np.where(np.isnan(each), np.inf, each) for each in spread])
        log_w = [drawn.log_weight(j) - log_mean[..., j, None] for j in present]
        own = [
            np.exp(w + drawn.log_factor(j, drawn.stretch(j)))
            for w, j in zip(log_w, present, strict=True)
        ]
        # mu's positive and negative part, as all points see them.
        log_parts = [log_mean[..., j] - log_mean[..., 2] for j in (0, 1) if j in present]
        if problem.knows_truth:
            log_mu, _ = problem.log_truth(sampler.y, sampler.theta)
        elif len(log_parts) == 1:
            log_mu = log_parts[0]
        else:  # log|exp(plus) - exp(minus)|
            gap = np.abs(log_parts[0] - log_parts[1])
            log_mu = np.maximum(*log_parts) + np.log(-np.expm1(-gap))
        if problem.nonnegative:
            log_unit, variance = log_mu, relative.sum(axis=0)
        else:
            # mu can be zero where neither part of it is.
            log_unit = np.logaddexp(*log_parts)
            sizes = [*log_parts, log_mu][: len(present)]
            variance = sum(
                np.exp(2 * (size - log_unit)) * each
                for size, each in zip(sizes, relative, strict=True)
            )
        # T draws in total are T / k of each of the k proposals.
        ratio = np.full_like(variance, np.nan)
        if problem.knows_bound:
            log_deviation = problem.log_mean_absolute_deviation(sampler.y, sampler.theta)
            ratio = np.exp(2 * (log_deviation - log_unit)) / (len(present) * variance)
        return {
            "relative_variance": variance * np.exp(2 * (log_unit - log_mu)),
            "relative_ess": 1 / (1 + relative),
            "pareto_k": np.stack([pareto_k(weights) for weights in own]),
            "bound_ratio": ratio,
        }


def default_plane(problem: Problem) -> tuple[str, str]:
    """The default plane: (y, theta), or two coordinates of the one that there is."""
    names = axis_names(problem)
    only = names[0]
    return ("y", "theta") if {"y", "theta"} <= set(names) else (f"{only}[0]", f"{only}[1]")


def _axes(problem: Problem, along: Sequence[str], size: tuple[int, int]) -> list[Axis]:
    """The axes across and upwards, by their names."""
    known = axis_names(problem)
    if len(along) != 2 or not set(along) <= set(known) or along[0] == along[1]:
        raise ValueError(f"along: expected two of {', '.join(known)}, got {along!r}")
    axes = []
    for name, n in zip(along, size, strict=True):
        base, _, index = name.removesuffix("]").partition("[")
        variable = getattr(problem, base)
        # Coordinates are moved together only if their ranges are alike.
        low, high = variable.typical[:, int(index or 0)].tolist()
        if not math.isfinite(low) or not math.isfinite(high):
            raise ValueError(
                f"along: {base} has an infinite range, {written(variable.ends)}. Declare its "
                "typical_range"
            )
        values = np.linspace(low, high, n)
        if np.all(variable.whole):
            # Evenly spaced whole numbers, at most as many.
            values = np.arange(low, high + 1, max(1, math.ceil((high - low) / (n - 1))))
        axes.append(Axis(base, int(index) if index else None, values))
    if axes[0].variable == axes[1].variable and None in [axis.coordinate for axis in axes]:
        raise ValueError(
            f"along: expected two different coordinates, got {along[0]} and {along[1]}"
        )
    return axes


def axis_names(problem: Problem) -> list[str]:
    """The axes that a plane can have, as `amortization_map` takes them."""
    found = []
    for name in ("y", "theta"):
        variable = getattr(problem, name)
        if variable is not None:
            together = [name] if (variable.typical == variable.typical[:, :1]).all() else []
            found += [*together, *(f"{name}[{i}]" for i in range(variable.dim))]
    return found
