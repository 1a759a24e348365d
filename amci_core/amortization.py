r"""Where amortization works: the quality of proposals over a plane of (y, theta).

The plane is filled from coarse to fine: a case that is still to come shows the nearest that has
come, so that the picture is whole from the first step on.
"""

from __future__ import annotations

__all__ = ["AmortizationMap", "Axis", "amortization_map", "map_stream"]

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from amci_core._arguments import check_count, check_seed, part_seed
from amci_core.diagnostics import pareto_k
from amci_core.estimation.sampling import Sampler, generators, resolve_names
from amci_core.estimators.draws import DEFENSIVE, TERMS, Array
from amci_core.estimators.mis import moments
from amci_core.estimators.uncertainty import relative_variance
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.base import written
from amci_core.parallel import Stream
from amci_core.printing import Printed

# Points of one step in one dimension; in D dimensions a point costs about D^2 times as much.
STEP_POINTS = 20_000
LEAST_MAP_DRAWS, MOST_DRAWS, MOST_CASES = 32, 100_000, 1_000_000
# Cases along each axis of the first, coarsest picture, about.
COARSEST = 4
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True, repr=False)
class Axis(Printed):
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


@dataclass(frozen=True, repr=False)
class AmortizationMap:
    """The quality of AMCI over a plane of m x n cases, with T terms that are drawn for.

    Arguments:
        x: The axis across, with n values.
        y: The axis upwards, with m values.
        terms: Names of the terms: E1_plus, E1_minus, E2 or some of them.
        relative_variance: Delta-method variance of AMCI's estimate over mu^2, for one draw of each
            proposal, (m, n): where f >= 0 the sum of the terms' relative variances.
        relative_ess: Relative effective sample size of the draws for each term: 1 / (1 + its
            relative variance), (T, m, n); 0 for E1 where no draw has met f.
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
    sizes = size if isinstance(size, tuple) else (size, size)
    for cases in (*sizes, math.prod(sizes)):
        check_count("size", cases, low=2, high=MOST_CASES)
    across, upwards = _axes(problem, along or default_plane(problem), sizes)
    shape = len(upwards.values), len(across.values)
    typical_y, typical_theta = problem.typical_case()
    fixed_y, fixed_theta = problem.check(
        typical_y if y is None else y, typical_theta if theta is None else theta
    )
    if fixed_y.ndim > 1:
        raise ValueError(f"y: expected a single case, got batch shape {tuple(fixed_y.shape[:-1])}")
    points = 2 * len(proposals.present) * draws * problem.x.dim**2
    steps = list(_steps(*shape, max(1, STEP_POINTS // points)))

    def part(number: int) -> dict[str, Array]:
        cases = steps[number]
        at = {"y": fixed_y.repeat(len(cases), 1)}
        if fixed_theta is not None:
            at["theta"] = fixed_theta.repeat(len(cases), 1)
        for axis, indices in zip((upwards, across), cases.T, strict=True):
            moved = slice(None) if axis.coordinate is None else [axis.coordinate]
            at[axis.variable][:, moved] = torch.as_tensor(axis.values[indices])[:, None]
        sampler = Sampler(problem, proposals, at["y"], at.get("theta"))
        for_points, _ = generators(part_seed(seed, number, "map"))
        return _quality(sampler, proposals.present, draws, for_points)

    def merge(parts: Sequence[dict[str, Array]]) -> AmortizationMap:
        done = np.zeros(shape, dtype=bool)
        cases = np.concatenate(steps[: len(parts)])
        done[tuple(cases.T)] = True
        _, nearest = cKDTree(cases).query(np.moveaxis(np.indices(shape), 0, -1))
        fields = {
            name: np.concatenate([part[name] for part in parts], axis=-1)[..., nearest]
            for name in parts[0]
        }
        terms = tuple(TERMS[j] for j in proposals.present)
        return AmortizationMap(x=across, y=upwards, terms=terms, done=done, **fields)

    return Stream(len(steps), part, merge)


def _steps(m: int, n: int, size: int) -> Iterator[NDArray[np.int64]]:
    """The cases (row, column) of every step, from coarse to fine."""
    cases = np.indices((m, n)).reshape(2, -1).T
    coarsest = 2 ** int(np.log2(max(1, (max(m, n) - 1) // COARSEST)))
    strides = np.gcd(np.gcd(*cases.T), coarsest)
    for stride in np.unique(strides)[::-1]:
        level = cases[strides == stride]
        # Multiples of the golden ratio are spread evenly, for any number of them.
        level = level[np.argsort(np.arange(len(level)) * GOLDEN % 1, kind="stable")]
        for start in range(0, len(level), size):
            yield level[start : start + size]


def _quality(
    sampler: Sampler, present: Sequence[int], draws: int, generator: torch.Generator
) -> dict[str, Array]:
    """What a map shows of each case, from draws of every proposal and of the defensive density."""
    problem, k = sampler.problem, len(present)
    counts = np.zeros(DEFENSIVE + 1, dtype=np.int64)
    counts[list(present)], counts[DEFENSIVE] = draws, k * draws
    drawn = sampler.draw(counts, generator)
    seen = moments(drawn)
    # A proposal that all but misses its term has weights that overflow.
    covariance = np.where(np.isnan(seen.covariance), np.inf, seen.covariance)
    # Draws that have not met f at all show no variance of it.
    unseen = (seen.log_mean[..., :2] == -np.inf).all(axis=-1)
    covariance[unseen, :2] = np.inf
    own_terms = np.diag(np.isin(range(len(TERMS)), present).astype(np.float64))
    one_draw = replace(seen, covariance=covariance, counts=np.ones(len(TERMS)))
    variance = np.where(unseen, np.inf, relative_variance(own_terms, one_draw))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The parts of mu, which can be zero where neither of them is.
        log_parts = seen.log_mean[..., :2] - seen.log_mean[..., 2:]
        log_size = np.logaddexp(*np.moveaxis(log_parts, -1, 0))
        plus, minus = np.moveaxis(np.exp(log_parts - log_size[..., None]), -1, 0)
        log_mu = np.log(np.abs(plus - minus)) + log_size
        if problem.knows_truth:
            log_mu, _ = problem.log_truth(sampler.y, sampler.theta)
        log_unit = log_mu if problem.nonnegative else log_size
        # T draws in total are T / k of each of the k proposals.
        ratio = np.full_like(variance, np.nan)
        if problem.knows_bound:
            log_deviation = problem.log_mean_absolute_deviation(sampler.y, sampler.theta)
            ratio = np.exp(2 * (log_deviation - log_unit)) / (k * variance)
        log_weights = [
            drawn.log_weight(j) + drawn.log_factor(j, drawn.stretch(j)) - seen.log_mean[..., [j]]
            for j in present
        ]
        return {
            "relative_variance": variance * np.exp(2 * (log_unit - log_mu)),
            "relative_ess": np.stack([1 / (1 + covariance[..., j, j, j]) for j in present]),
            "pareto_k": np.stack([pareto_k(np.exp(log_weight)) for log_weight in log_weights]),
            "bound_ratio": ratio,
        }


def default_plane(problem: Problem) -> tuple[str, str]:
    """The default plane: (y, theta), of coordinates that are unlike the first; else two of one."""
    first = {name.partition("[")[0]: name for name in reversed(axis_names(problem))}
    if len(first) == 2:
        return first["y"], first["theta"]
    (only,) = first
    return f"{only}[0]", f"{only}[1]"


def axis_names(problem: Problem) -> list[str]:
    """The axes that a plane can have, as `amortization_map` takes them."""
    names = []
    for base in ("y", "theta"):
        variable = getattr(problem, base)
        if variable is None:
            continue
        # Coordinates are moved together only if their ranges are alike.
        if (variable.typical == variable.typical[:, :1]).all():
            names.append(base)
        names += [f"{base}[{i}]" for i in range(variable.dim)]
    return names


def _axes(problem: Problem, along: Sequence[str], sizes: Sequence[int]) -> list[Axis]:
    """The axes across and upwards, by their names."""
    known = axis_names(problem)
    split = [name.removesuffix("]").partition("[") for name in along]
    bases = {base for base, *_ in split}
    # y moves y[0] as well.
    same = len(set(along)) == 1 or (len(bases) == 1 and bases & set(along))
    if len(along) != 2 or not set(along) <= set(known) or same:
        raise ValueError(
            f"along: expected two different coordinates of {', '.join(known)}, got {along!r}"
        )
    axes = []
    for (base, _, index), n in zip(split, sizes, strict=True):
        variable = getattr(problem, base)
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
    return axes
