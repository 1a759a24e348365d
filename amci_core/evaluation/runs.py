r"""Independent runs of estimators, and their squared errors, in chunks that fit in the cache."""

from __future__ import annotations

__all__ = [
    "MAX_RUNS",
    "Estimators",
    "Runs",
    "Truth",
    "checked_budgets",
    "chosen_estimators",
    "reserve",
    "usual_estimators",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amci_core._arguments import check_count
from amci_core.estimation.sampling import MAX_POINTS, Sampler
from amci_core.estimators import ESTIMATORS, Draws, Estimator, resolve
from amci_core.estimators.combine import Combined, Counts
from amci_core.estimators.draws import DEFENSIVE, Array
from amci_core.evaluation.spread import OverRuns
from amci_core.flows import Proposals
from amci_core.models import Problem

# Points of one chunk in one dimension; in D dimensions a point costs about D^2 times as much.
CHUNK_POINTS = 200_000
MAX_RUNS = 1_000_000
# What fewer runs than this should have met is as good as unseen, and matters from that share on.
FEW_RUNS, UNSEEN_SHARE = 10, 0.1

Budgets = NDArray[np.int64]
Estimators = Sequence[str] | Mapping[str, Any]
BOUND = "bound"
USUAL = ("amci", "snis-q2", "snis-qm", "snis-qm-stratified", "snis-q1", BOUND)


@dataclass(frozen=True)
class Truth:
    """What estimates are held against, for a batch (*) of pairs.

    Arguments:
        log_unit: log|mu| in nats, (*), the unit in which errors are computed; 0 where mu is zero:
            errors are then in units of f.
        sign: Sign of mu, (*); zero where mu is.
        error: Standard error of mu, (*), in that unit; zero where mu is exact.
        given: Whether it is a value from elsewhere, and not the problem's own.
    """

    log_unit: Array
    sign: Array
    error: Array
    given: bool = False

    @classmethod
    def of(cls, problem: Problem, y: Tensor, theta: Tensor | None, given: Any = None) -> Truth:
        """The truth at y and theta, as `Problem.check` returns them.

        Arguments:
            problem: What is integrated.
            y: Observations (*, D_y).
            theta: Parameters of f (*, D_theta), or None.
            given: What is taken for mu in the place of the problem's own, in units of f: numbers
                that broadcast to (*), or an object with such a `value` and `standard_error`, as
                `amci_core.reference` returns. None for the problem's own.

        Raises:
            ValueError: what is given does not broadcast, is not finite, or has a sign that mu
                cannot have; or nothing is given and the problem does not know its truth.
        """
        batch = tuple(y.shape[:-1])
        if given is None:
            log_truth, sign = np.asarray(problem.log_truth(y, theta)), problem.truth_sign(y, theta)
            error = problem.truth_error(y, theta)
        else:
            error = _checked(
                "truth.standard_error", getattr(given, "standard_error", 0.0), batch, True
            )
            value = _checked("truth", getattr(given, "value", given), batch, problem.nonnegative)
            size, sign = np.abs(value), np.sign(value)
            error = error / np.where(size > 0, size, 1.0)
            with np.errstate(divide="ignore"):
                log_truth = np.log(size)
        at_zero = np.isneginf(log_truth)
        log_unit, sign = np.where(at_zero, 0.0, log_truth), np.where(at_zero, 0.0, sign)
        return cls(log_unit, sign, error, given is not None)

    def __getitem__(self, case: int) -> Truth:
        return Truth(self.log_unit[case], self.sign[case], self.error[case], self.given)

    @property
    def unit(self) -> Array:
        """|mu|, or 1 where mu is zero, (*), in units of f."""
        return np.exp(self.log_unit)

    @property
    def size(self) -> Array:
        """|mu|, (*), in units of f."""
        return np.abs(self.sign) * self.unit

    @property
    def relative_error(self) -> Array:
        """Standard error of mu over |mu|, (*); NaN where mu is zero."""
        return np.where(self.sign == 0, np.nan, self.error)

    @property
    def standard_error(self) -> Array:
        """Standard error of mu, (*), in units of f."""
        return self.error * self.unit

    def squared_errors(self, found: Combined) -> Array:
        """(estimate - mu)^2 over the squared unit, of estimates (*, runs, B); NaN for NaN."""
        with np.errstate(over="ignore"):
            relative = found.ratio * np.exp(found.log_unit - self.log_unit[..., None, None])
            return np.square(relative - self.sign[..., None, None])


class Runs:
    """Creates independent runs of estimators for a batch (*) of pairs.

    All estimators see the same draws, so that differences between them are not noise; those with
    common random numbers have draws of their own.

    Arguments:
        sampler: What is drawn from.
        estimators: The estimators by name.
        truth: What errors are counted from.
        budgets: Total draws of an estimator, increasing, (B,).

    Raises:
        ValueError: the budgets are too small or too large.
    """

    def __init__(
        self,
        sampler: Sampler,
        estimators: Mapping[str, Estimator],
        truth: Truth,
        *,
        budgets: Budgets,
    ) -> None:
        self._sampler, self._drawn = sampler, estimators
        self._truth, self._budgets = truth, budgets
        self._sides = {name: each.sides(sampler.present) for name, each in estimators.items()}
        # Each side under the name that it is asked for by, if it is, so that it is computed once.
        self._side_names = {
            side: next(
                (n for n, each in estimators.items() if each is ESTIMATORS[side]), f"all {side}"
            )
            for shares in self._sides.values()
            for side in shares
        }
        of_sides = {name: ESTIMATORS[side] for side, name in self._side_names.items()}
        self._estimators = {**of_sides, **estimators}
        self._counts = {
            common: reserve(
                {n: each for n, each in self._estimators.items() if each.common is common},
                sampler,
                budgets=budgets,
            )
            for common in sorted({each.common for each in self._estimators.values()})
        }
        # The numbers of runs made at a time do not depend on defensive draws.
        points = sum(int(counts[:DEFENSIVE].sum()) for counts in self._counts.values())
        points *= truth.log_unit.size
        of_all = "budgets, of all proposals and pairs"
        check_count(of_all, points, low=1, high=MAX_POINTS)
        dim = sampler.problem.x.dim
        self._largest = max(1, CHUNK_POINTS // (dim**2 * points))
        self._first = 4 if dim == 1 else 1

    def sizes(self, runs: int) -> list[int]:
        """How many of so many runs are made at a time: for some 50 ms, at first fewer."""
        found: list[int] = []
        while (done := sum(found)) < runs:
            found.append(min(self._largest, runs - done, max(self._first, 2 * done)))
        return found

    def squared_errors(
        self, runs: int, for_points: torch.Generator, for_choices: np.random.Generator
    ) -> dict[str, Array]:
        """Squared errors in units of the truth's: name -> (*, runs, B).

        NaN where an estimate has no value (no weight at all), and for a budget with fewer draws
        than proposals.
        """
        draws = {
            common: self._sampler.draw(counts, for_points, common=common, runs=runs)
            for common, counts in self._counts.items()
        }
        return {
            name: self._errors_of(chosen, draws[chosen.common], for_choices)
            for name, chosen in self._estimators.items()
        }

    def over(self, parts: Sequence[Mapping[str, Array]]) -> dict[str, OverRuns]:
        """What chunks of runs say of each estimator asked for, in its order.

        Arguments:
            parts: What `squared_errors` returned, once or more.
        """
        found = {}
        for name, each in self._estimators.items():
            tried = self._budgets >= each.least(self._sampler.present)
            found[name] = OverRuns(np.concatenate([part[name] for part in parts], axis=-2), tried)
        runs = next(iter(found.values())).errors.shape[-2]
        for name, sides in self._sides.items():
            mean = found[name].mean
            unseen = [
                self._unseen(mean, share, found[self._side_names[side]].mean, runs)
                for side, share in sides.items()
            ]
            if unseen:
                found[name] = replace(found[name], unseen=np.any(unseen, axis=0))
        return {name: found[name] for name in self._drawn}

    def _unseen(self, mean: Array, share: float, of_side: Array, runs: int) -> Any:
        """Where runs of which all draws come from one side matter, and hardly any did, (*, B)."""
        of_all = np.exp(self._budgets * np.log(share))
        with np.errstate(invalid="ignore", over="ignore"):
            return (runs * of_all < FEW_RUNS) & (of_side * of_all > UNSEEN_SHARE * mean)

    def _errors_of(self, chosen: Estimator, draws: Draws, rng: np.random.Generator) -> Array:
        least = chosen.least(self._sampler.present)
        found = chosen.prepare(draws, _afforded(self._budgets, least), rng).combine()
        return np.where(self._budgets < least, np.nan, self._truth.squared_errors(found))


def reserve(estimators: Mapping[str, Estimator], sampler: Sampler, *, budgets: Budgets) -> Counts:
    """How many draws of each proposal a run of all these estimators shares, (3,).

    Raises:
        ValueError: no budget is large enough for an estimator.
    """
    counts = []
    for chosen in estimators.values():
        least = chosen.least(sampler.present)
        if budgets[-1] < least:
            raise ValueError(
                f"budgets: expected at least {least} draws, one of each proposal, "
                f"got {budgets[-1]}"
            )
        counts.append(chosen.reserve(_afforded(budgets, least), sampler.present))
    return np.asarray(np.max(counts, axis=0))


def _afforded(budgets: Budgets, least: int) -> list[int]:
    return [max(int(total), least) for total in budgets]


def _checked(name: str, value: Any, batch: tuple[int, ...], nonnegative: bool) -> Array:
    expected = (
        f"{name}: expected finite numbers{' >= 0' if nonnegative else ''} that broadcast to the "
        f"batch shape {batch} of y and theta"
    )
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise ValueError(f"{expected}, got {value!r}") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{expected}, got {value!r}")
    bad = ~np.isfinite(array) | (nonnegative & (array < 0))
    if bad.any():
        raise ValueError(f"{expected}, got {array[bad][0]:g}")
    try:
        return np.broadcast_to(array, batch).astype(np.float64)
    except ValueError:
        raise ValueError(f"{expected}, got shape {array.shape}") from None


def chosen_estimators(
    wanted: Estimators | None, problem: Problem, proposals: Proposals
) -> dict[str, Estimator | None]:
    """The estimators asked for, by name and in their order; None for the bound, without draws.

    Arguments:
        wanted: Names, or a mapping of names to names, tables (3, 3) or estimators; by default
            those of `USUAL` that these proposals can serve, with the bound where it is known.
        problem: What is integrated.
        proposals: What is drawn from.

    Raises:
        ValueError: no estimator has a name, a table is not one, or nothing is asked for.
    """
    if wanted is None:
        wanted = usual_estimators(problem, proposals)
    named: Mapping[str, Any] = {}
    if isinstance(wanted, Mapping):
        named = wanted
    elif not isinstance(wanted, str) and np.iterable(wanted):
        names = list(wanted)
        named = {name: name for name in names} if all(isinstance(n, str) for n in names) else {}
    known = (*ESTIMATORS, BOUND)
    texts = [name for name in named.values() if isinstance(name, str)]
    if not named or not all(text.partition(":")[0] in known for text in texts):
        raise ValueError(f"estimators: expected some of {', '.join(known)}, got {wanted!r}")
    return {name: None if name == BOUND else resolve(each) for name, each in named.items()}


def usual_estimators(problem: Problem, proposals: Proposals) -> tuple[str, ...]:
    """Those of `USUAL` that these proposals can serve, and the bound where it is known."""
    # With q1_plus alone the mixture is q1_plus.
    without_q2 = ("amci", "snis-q1", BOUND)
    served = USUAL if proposals.q2 is not None else without_q2
    return tuple(name for name in served if name != BOUND or problem.knows_bound)


def checked_budgets(budgets: Sequence[int]) -> Budgets:
    """The budgets as an array (B,).

    Raises:
        ValueError: they are not increasing whole numbers from 1 to `MAX_POINTS`.
    """
    if isinstance(budgets, str) or not np.iterable(budgets):
        raise ValueError(f"budgets: expected increasing numbers of draws, got {budgets!r}")
    checked = [check_count("budgets", total, low=1, high=MAX_POINTS) for total in budgets]
    if not checked or sorted(set(checked)) != checked:
        raise ValueError(f"budgets: expected increasing numbers of draws, got {list(budgets)!r}")
    return np.array(checked)
