r"""Where amortization works: the quality of proposals over a plane of (y, theta).

The plane is filled from coarse to fine: every other point of the grid is first drawn as its
coarser neighbour, so that the picture is whole from the first step on.
"""

from __future__ import annotations

__all__ = [
    "AmortizationMap",
    "Axis",
    "amortization_map",
    "axis_names",
    "default_plane",
    "stream_amortization_map",
]

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core.checks import check_count
from amci_core.estimation.sampling import generators
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem, Variable
from amci_core.quality import TermQuality, term_quality
from amci_core.streams import last_item

# Points of one step in one dimension; in D dimensions a point costs about D^2 times as much.
STEP_POINTS = 20_000
LEAST_DRAWS, MOST_DRAWS, MOST_CASES = 32, 100_000, 1_000_000
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
        effective_share: What a draw for a term is worth, as a share of a perfect one: 1 / (1 + its
            relative variance), (T, m, n).
        pareto_k: k-hat of each term's weights on its own proposal, (T, m, n); -inf where these are
            equal, NaN where there are too few to say.
        bound_ratio: The least mean squared error of any self-normalised importance sampling over
            that of AMCI with as many draws in all, both for many draws, (m, n): above 1 where AMCI
            wins. With more draws both fall alike. NaN where the problem does not know its bound.
        done: Which cases are computed, (m, n); others hold the values of a coarser neighbour.
    """

    x: Axis
    y: Axis
    terms: tuple[str, ...]
    relative_variance: Array
    effective_share: Array
    pareto_k: Array
    bound_ratio: Array
    done: NDArray[np.bool_]

    @property
    def log_variance(self) -> Array:
        """log10 of the per-draw relative variance, (m, n); -inf where it is zero."""
        with np.errstate(divide="ignore"):
            return np.log10(self.relative_variance)

    @property
    def cases(self) -> int:
        """Number of cases computed so far."""
        return int(self.done.sum())


def default_plane(problem: Problem) -> tuple[str, str]:
    """The plane that is looked at first: (y, theta), or two coordinates of what there is."""
    if problem.y is not None and problem.theta is not None:
        return "y", "theta"
    only = "y" if problem.y is not None else "theta"
    return f"{only}[0]", f"{only}[1]"


def stream_amortization_map(
    problem: Problem,
    proposals: Proposals,
    *,
    along: Sequence[str] | None = None,
    size: int | tuple[int, int] = 33,
    draws: int = 256,
    y: Any = None,
    theta: Any = None,
    seed: int = 0,
) -> Iterator[AmortizationMap]:
    """The quality of proposals over a plane of (y, theta), within the ranges shown.

    Arguments:
        problem: What is integrated.
        proposals: The proposals to judge.
        along: The two axes, across and upwards: `y` or `theta` for all coordinates at once,
            `y[0]` or `theta[1]` for one, counted from 0. By default (y, theta); where one of them
            is missing, the first two coordinates of the other.
        size: Number of cases along both axes, or along each; at least 2.
        draws: Points from each proposal, and from a broad reference of each term, in each case.
        y: What y is where the axes do not move it; by default that of `Problem.typical_case`.
        theta: Likewise.
        seed: Whole number >= 0.

    Yields:
        The map from coarse to fine, after each of many small steps. A caller can stop between any
        two; the last item equals `amortization_map`. Arguments are checked at the call. Each step
        has a seed of its own, so that its cases come out the same in whatever order steps are
        taken.

    Raises:
        ValueError: an argument is out of range, the proposals are another problem's, or a range
            that is needed has no end.
    """
    if proposals.problem != problem.name:
        raise ValueError(
            f"proposals: expected ones for {problem.name}, got ones for {proposals.problem}"
        )
    check_count("draws", draws, low=LEAST_DRAWS, high=MOST_DRAWS)
    generators(seed)
    n, m = _checked_size(size)
    across, upwards = _axes(problem, default_plane(problem) if along is None else along, (n, m))
    kept_y, kept_theta = problem.check(*_kept(problem, y, theta))
    if kept_y.ndim > 1:
        raise ValueError(f"y: expected a single one, got batch {tuple(kept_y.shape[:-1])}")
    present = sum(q is not None for q in proposals.as_tuple)
    a_step = max(1, STEP_POINTS // (2 * present * draws * problem.x.dim**2))

    def stream() -> Iterator[AmortizationMap]:
        found: AmortizationMap | None = None
        for number, (cases, stride) in enumerate(_steps(m, n, a_step)):
            at = [(axis, axis.values[cases[:, i]]) for i, axis in ((1, across), (0, upwards))]
            at_y, at_theta = _moved(kept_y, kept_theta, at)
            for_points, _ = generators(np.random.SeedSequence(seed, spawn_key=(number,)))
            quality = term_quality(
                problem, proposals, at_y, at_theta, draws=draws, generator=for_points
            )
            if found is None:
                found = _empty(across, upwards, quality.terms)
            found = _with(found, quality, problem, at_y, at_theta, cases, stride)
            yield found

    return stream()


amortization_map = last_item(stream_amortization_map)


def _steps(m: int, n: int, size: int) -> Iterator[tuple[Indices, int]]:
    """The cases (row, column) of every step, from coarse to fine, and their distance."""
    coarsest = 2 ** int(np.log2(max(1, (max(m, n) - 1) // COARSEST)))
    stride = coarsest
    while stride >= 1:
        rows, columns = np.meshgrid(
            np.arange(0, m, stride), np.arange(0, n, stride), indexing="ij"
        )
        cases = np.stack([rows.ravel(), columns.ravel()], -1)
        if stride < coarsest:
            cases = cases[(cases % (2 * stride) != 0).any(axis=-1)]
        # Multiples of the golden ratio are spread evenly, whatever their number.
        cases = cases[np.argsort(np.arange(len(cases)) * GOLDEN % 1, kind="stable")]
        for start in range(0, len(cases), size):
            yield cases[start : start + size], stride
        stride //= 2


def _empty(x: Axis, y: Axis, terms: tuple[str, ...]) -> AmortizationMap:
    shape = (len(y.values), len(x.values))
    nothing, of_terms = np.full(shape, np.nan), np.full((len(terms), *shape), np.nan)
    return AmortizationMap(
        x, y, terms, nothing, of_terms, of_terms, nothing, np.zeros(shape, dtype=bool)
    )


def _with(
    before: AmortizationMap,
    quality: TermQuality,
    problem: Problem,
    y: Tensor,
    theta: Tensor | None,
    cases: Indices,
    stride: int,
) -> AmortizationMap:
    """The map with more cases, each drawn over the finer ones that it stands for so far."""
    variance, ratio = _compared(quality, problem, y, theta)
    share = 1 / (1 + quality.relative_variance)
    found = replace(
        before,
        relative_variance=before.relative_variance.copy(),
        effective_share=before.effective_share.copy(),
        pareto_k=before.pareto_k.copy(),
        bound_ratio=before.bound_ratio.copy(),
        done=before.done.copy(),
    )
    found.done[cases[:, 0], cases[:, 1]] = True
    new = (
        (found.relative_variance, variance),
        (found.effective_share, share),
        (found.pareto_k, quality.pareto_k),
        (found.bound_ratio, ratio),
    )
    for case, (row, column) in enumerate(cases):
        block = (..., slice(row, row + stride), slice(column, column + stride))
        for array, value in new:
            array[block] = value[..., case, None, None]
    return found


def _compared(
    quality: TermQuality, problem: Problem, y: Tensor, theta: Tensor | None
) -> tuple[Array, Array]:
    """AMCI's relative variance for one draw of each proposal, and the bound over it, (cases)."""
    relative = dict(zip(quality.terms, quality.relative_variance, strict=True))
    log_mean = dict(zip(quality.terms, quality.log_mean, strict=True))
    log_E2 = problem.log_normalizer(y, theta)
    if log_E2 is None:
        log_E2 = log_mean["E2"]
    # mu's positive and negative part, as all points see them.
    parts = {name: log_mean[name] - log_E2 for name in quality.terms if name != "E2"}
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_mu = problem.log_truth(y, theta) if problem.knows_truth else _log_gap(*parts.values())
        if problem.nonnegative:
            log_unit = log_mu
            variance = np.sum(list(relative.values()), axis=0)
        else:
            # mu can be zero where neither part of it is.
            log_unit = np.logaddexp(*parts.values())
            variance = np.exp(2 * (log_mu - log_unit)) * relative.get("E2", 0.0) + sum(
                np.exp(2 * (part - log_unit)) * relative[name] for name, part in parts.items()
            )
        # T draws in all are T / k of each of the k proposals.
        ratio = np.full_like(variance, np.nan)
        if problem.knows_bound:
            log_deviation = np.log(problem.expected_deviation(y, theta))
            ratio = np.exp(2 * (log_deviation - log_unit)) / (len(quality.terms) * variance)
        return variance * np.exp(2 * (log_unit - log_mu)), ratio


def _log_gap(log_plus: Array, log_minus: Array | None = None) -> Array:
    """log|exp(log_plus) - exp(log_minus)|."""
    if log_minus is None:
        return log_plus
    larger = np.maximum(log_plus, log_minus)
    return larger + np.log(-np.expm1(-abs(log_plus - log_minus)))


def _kept(problem: Problem, y: Any, theta: Any) -> tuple[Any, Any]:
    """y and theta as given; else those of a typical case."""
    typical = problem.typical_case()
    return typical[0] if y is None else y, typical[1] if theta is None else theta


def _shown(variable: Variable) -> tuple[float, float] | None:
    """The part of its range that is looked at; None where that has no end."""
    ends = variable.usual_range
    return ends if np.isfinite(ends).all() else None


def _moved(
    y: Tensor, theta: Tensor | None, values: list[tuple[Axis, Array]]
) -> tuple[Tensor, Tensor | None]:
    """y (cases, D_y) and theta (cases, D_theta), moved along both axes."""
    cases = len(values[0][1])
    at = {"y": y.repeat(cases, 1)}
    if theta is not None:
        at["theta"] = theta.repeat(cases, 1)
    for axis, value in values:
        moved = torch.as_tensor(value)
        if axis.coordinate is None:
            at[axis.variable][:] = moved[:, None]
        else:
            at[axis.variable][:, axis.coordinate] = moved
    return at["y"], at.get("theta")


def _axes(problem: Problem, along: Sequence[str], size: tuple[int, int]) -> tuple[Axis, Axis]:
    if isinstance(along, str) or len(along) != 2 or along[0] == along[1]:
        raise ValueError(f"along: expected two axes, such as ('y', 'theta'), got {along!r}")
    across, upwards = (_axis(problem, name, n) for name, n in zip(along, size, strict=True))
    if across.variable == upwards.variable and None in (across.coordinate, upwards.coordinate):
        raise ValueError(f"along: {along[0]} and {along[1]} move the same coordinate")
    return across, upwards


def _axis(problem: Problem, name: str, size: int) -> Axis:
    match = re.fullmatch(r"(y|theta)(?:\[(\d+)\])?", str(name))
    variable: Variable | None = getattr(problem, match[1]) if match else None
    if match is None or variable is None:
        raise ValueError(f"along: expected one of {_allowed(problem)}, got {name!r}")
    coordinate = None if match[2] is None else int(match[2])
    if coordinate is not None and coordinate >= variable.dim:
        raise ValueError(f"along: expected one of {_allowed(problem)}, got {name!r}")
    ends = _shown(variable)
    if ends is None:
        raise ValueError(
            f"along: the range of {match[1]} has no end, [{variable.low:g}, {variable.high:g}]; "
            "declare the part of it that is shown"
        )
    return Axis(match[1], coordinate, np.linspace(*ends, size))


def axis_names(problem: Problem) -> list[str]:
    """The axes that a plane can have, as `amortization_map` takes them."""
    found = []
    for name in ("y", "theta"):
        variable = getattr(problem, name)
        if variable is not None:
            found += [name, *(f"{name}[{i}]" for i in range(variable.dim))]
    return found


def _allowed(problem: Problem) -> str:
    return ", ".join(axis_names(problem))


def _checked_size(size: int | tuple[int, int]) -> tuple[int, int]:
    n, m = size if isinstance(size, tuple) and len(size) == 2 else (size, size)
    for each in (n, m):
        check_count("size", each, low=2, high=MOST_CASES)
    check_count("size: cases in all", n * m, low=4, high=MOST_CASES)
    return n, m
