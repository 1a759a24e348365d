r"""Drawing until an estimate is as precise as wanted, for one pair (y, theta) or for many."""

from __future__ import annotations

__all__ = ["Precise", "estimate_to"]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core.checks import check_count
from amci_core.diagnostics import Verdict
from amci_core.diagnostics.verdict import Finding
from amci_core.estimation.result import Estimate
from amci_core.estimation.sampling import MAX_POINTS, generators
from amci_core.estimation.search import FIRST_DRAWS, Rows, Search
from amci_core.estimators.budget import SCHEMES
from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem

# The rounding of an estimate itself.
LEAST_ERROR = 1e-15


@dataclass(frozen=True)
class Precise:
    """Estimates with the precision that was wanted, or what was reached, for a batch (*) of pairs.

    Arguments:
        value: The estimates, (*), in units of f.
        standard_error: Of them, (*), in units of f.
        interval: Lower and upper ends of their 95 % intervals, each (*), in units of f.
        relative_half_width: Half of the width of these over the estimate, (*).
        reached: Whether that is as small as wanted, (*).
        draws: Draws of q1_plus, q1_minus and q2, (*, 3).
        verdict: Whether they can be believed, (*).
        steps: Draws in all and the relative half-width after each step; for a batch, draws of all
            pairs and the largest half-width of those that were looked at.
        single: The estimate of a single pair; None for a batch.
    """

    value: Array
    standard_error: Array
    interval: tuple[Array, Array]
    relative_half_width: Array
    reached: NDArray[np.bool_]
    draws: NDArray[np.int64]
    verdict: Verdict
    steps: tuple[tuple[int, float], ...]
    single: Estimate | None = field(default=None, repr=False)

    @property
    def estimate(self) -> Estimate:
        """The estimate of a single pair with its terms and diagnostics; `draws` are all of them.

        Raises:
            ValueError: there are several pairs.
        """
        if self.single is None:
            raise ValueError(f"estimate: expected a single pair, got batch {self.value.shape}")
        return self.single


def estimate_to(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    relative_error: float = 0.01,
    max_draws: int = 1_000_000,
    estimator: str = "amci",
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Precise:
    """Draws until the half-width of the 95 % interval is below a share of the estimate.

    It starts with 128 draws of each proposal, and splits what follows as their moments say. Draws
    are looked at again and again, so that the stated precision is reached somewhat too early now
    and then; an estimate whose verdict is not "reliable" goes on at least once.

    Of a batch, all pairs start with 32 draws of each proposal. Those are done at once whose
    interval is narrow enough, whose verdict is "reliable" and whose weights hardly vary; the
    others go on to 128 and then as single ones do, with those that need about as many draws. All
    pairs of a batch share one stream of random numbers: what a pair gets depends on the batch.

    Arguments:
        problem: What is integrated.
        proposals: What is drawn from.
        y: As for `amci_core.estimate`.
        theta: Likewise.
        relative_error: Half-width wanted, as a share of the estimate, from 1e-15, the rounding
            of the estimate itself, to 1.
        max_draws: Draws of a pair after which it gives up.
        estimator: `amci` or `reuse-optimal`.
        seed: Whole number >= 0.
        progress: Called after each step with the draws so far and the relative half-width, see
            `Precise.steps`.

    Raises:
        ValueError: an argument is out of range or unknown.

    Example:
        >>> import amci_core as amci
        >>> problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
        >>> found = amci.estimate_to(problem, proposals, [[0.0], [1.0]], 3.0)
        >>> found.reached.tolist(), found.draws.sum(axis=-1).tolist()
        ([True, True], [64, 64])
    """
    if estimator not in SCHEMES:
        raise ValueError(f"estimator: expected one of {', '.join(SCHEMES)}, got {estimator!r}")
    if not isinstance(relative_error, Real) or not LEAST_ERROR <= relative_error < 1:
        raise ValueError(
            f"relative_error: expected a number from {LEAST_ERROR:g} to 1, got {relative_error!r}"
        )
    y, theta = problem.check(y, theta)
    present = [j for j, q in enumerate(proposals.as_tuple) if q is not None]
    check_count("max_draws", max_draws, low=FIRST_DRAWS * len(present), high=MAX_POINTS)
    search = Search(problem, proposals, y, theta, float(relative_error), max_draws, estimator)
    for step in search.run(generators(seed)[0], generators(seed, "reference")[0]):
        if progress is not None:
            progress(*step)
    return _precise(search)


def _precise(search: Search) -> Precise:
    """What has been found of all pairs."""
    values = [np.asarray(row.reshape(search.batch)) for row in search.values]
    value, error, lower, upper, width = values
    return Precise(
        value=value,
        standard_error=error,
        interval=(lower, upper),
        relative_half_width=width,
        reached=search.reached.reshape(search.batch),
        draws=search.draws.reshape(*search.batch, 3),
        verdict=_gathered(search.verdicts, search.batch),
        steps=tuple(search.steps),
        single=search.single,
    )


def _gathered(parts: Sequence[tuple[Rows, Verdict]], batch: tuple[int, ...]) -> Verdict:
    """The verdict on a batch (*) out of those on parts of it."""
    n = math.prod(batch)
    whole: dict[str, Any] = {}
    for name in (each.name for each in fields(Verdict)):
        values = [(rows, getattr(part, name)) for rows, part in parts]
        if isinstance(values[0][1], tuple):
            whole[name] = _findings(values, n)
        else:
            whole[name] = np.zeros(n, dtype=values[0][1].dtype)
            for rows, known in values:
                whole[name][rows] = known
    return Verdict(**whole)[np.arange(n).reshape(batch)]


def _findings(parts: Sequence[tuple[Rows, tuple[Finding, ...]]], n: int) -> tuple[Finding, ...]:
    """Those that hold for one of n pairs or more, most serious first."""
    found: dict[tuple[str, int, str], Finding] = {}
    for rows, findings in parts:
        for one in findings:
            if not one.holds.any():
                continue
            key = (one.about, one.level, one.words)
            if key not in found:
                said = {name for _, name, _, _ in Formatter().parse(one.words) if name}
                numbers = {name: np.full(n, np.nan) for name in said}
                found[key] = replace(one, holds=np.zeros(n, dtype=bool), numbers=numbers)
            found[key].holds[rows] = one.holds
            for name, values in found[key].numbers.items():
                values[rows] = one.numbers[name]
    return tuple(sorted(found.values(), key=lambda finding: -finding.level))
