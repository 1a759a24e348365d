r"""What follows from the user's choices: numbers for pictures, no widgets."""

from __future__ import annotations

__all__ = [
    "BUDGETS",
    "COLUMNS",
    "REUSE_GRID",
    "SMALLEST_DENSITY",
    "Densities",
    "LineStore",
    "MarginalStore",
    "PlaneStore",
    "Store",
    "TumourDensities",
    "TumourStore",
    "store_of",
    "x_range",
]

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

import amci_core as amci
from amci_core.amortization import AmortizationMap
from amci_core.errors import ErrorCurves, ReuseErrors
from amci_core.errors.runs import usual_estimators
from amci_core.estimators.draws import TERMS, Array
from amci_core.flows import Proposal, Proposals, Snapshot
from amci_core.models import Problem
from amci_core.models.cancer import TumourTreatment
from amci_core.streams import Stream
from app.diagnosis import Diagnosis, diagnosis
from app.planes import (
    Course,
    MarginalDensities,
    PlaneDensities,
    course,
    marginal_densities,
    plane_densities,
)
from app.state import Choice, shown_range
from app.summary import Summary, summarize

BUDGETS = tuple(np.unique(2 * np.rint(np.geomspace(1, 5000, 28)).astype(int)).tolist())
# Cases along each axis of an amortization map and draws for each: both cost more in more
# dimensions.
MAP_SIZES = {1: (33, 256), 2: (25, 256)}
SMALL_MAP = (25, 128)
REUSE_GRID = np.linspace(-0.5, 1.5, 41).round(10)

SMALLEST_DENSITY = 1e-30
# Just above the threshold, where g jumps, and not so near that rounding shows.
EDGE = 1e-7
REGION_MASS = 0.99
COLUMNS = ("x", "target", "posterior", "q1", "q2", "log_ratio")
COLUMNS_MINUS = ("target_minus", "q1_minus", "log_ratio_minus")


@dataclass(frozen=True)
class Densities:
    """Densities over x at one (y, theta), all normalised, on n points.

    Arguments:
        x: Points, increasing, closer to the threshold; (n,).
        target: g, proportional to f_plus p(x | y); (n,).
        posterior: p(x | y), (n,).
        q1: The learnt proposal for E1_plus, (n,).
        q2: The learnt proposal for E2, (n,).
        log_ratio: log q1 - log g in nats, NaN where g is zero; (n,).
        region: The shortest interval that carries 99 % of g.
        threshold: theta.
        target_minus: Where f takes both signs, as `target` for f_minus; (n,).
        q1_minus: Likewise, the learnt proposal for E1_minus, (n,).
        log_ratio_minus: Likewise, (n,).
    """

    x: Array
    target: Array
    posterior: Array
    q1: Array
    q2: Array
    log_ratio: Array
    region: tuple[float, float]
    threshold: float
    target_minus: Array | None = None
    q1_minus: Array | None = None
    log_ratio_minus: Array | None = None

    @property
    def columns(self) -> dict[str, Array]:
        """What there is, by name, each (n,)."""
        names = COLUMNS if self.q1_minus is None else COLUMNS + COLUMNS_MINUS
        return {name: getattr(self, name) for name in names}

    @property
    def divergence(self) -> float:
        """KL(g || q1) in nats, by the trapezoid rule."""
        g = np.where(np.isfinite(self.log_ratio), self.target, 0)
        return float(-np.trapezoid(g * np.nan_to_num(self.log_ratio), self.x))


class Store(ABC):
    """Derived data for one problem.

    Arguments:
        problem: The problem.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The training film, read when it is first asked for."""
        return amci.load_snapshots(self.problem.name)

    @cached_property
    def estimators(self) -> tuple[str, ...]:
        """The estimators whose errors are shown."""
        return usual_estimators(self.problem, amci.load_proposals(self.problem.name))

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that have proposals to draw from."""
        proposals = amci.load_proposals(self.problem.name).as_tuple
        return tuple(name for name, q in zip(TERMS, proposals, strict=True) if q is not None)

    @property
    def shares_samples(self) -> bool:
        """Whether E1 and E2 have one proposal each, so that draws can serve both."""
        return self.problem.nonnegative and "snis-q2" in self.estimators

    def proposals(self, choice: Choice) -> Proposals:
        """The proposals chosen, or those of a frame of the film."""
        if choice.snapshot is not None and self.snapshots:
            return self.snapshots[min(choice.snapshot, len(self.snapshots) - 1)].proposals
        return amci.load_proposals(self.problem.name, variant=choice.variant)

    @abstractmethod
    def densities(self, choice: Choice, look: Any = None) -> Any:
        """What the proposals look like beside what they should be.

        Arguments:
            choice: The point and the proposals.
            look: What the picture is to show, where there is a choice of that.
        """

    def summary(self, choice: Choice) -> Stream[Summary]:
        """The figures of the strip, in a single part."""
        y, theta = choice.pair

        def part(_: int) -> Summary:
            return summarize(
                self.problem,
                self.proposals(choice),
                y=y,
                theta=theta,
                draws=choice.draws,
                seed=choice.seed,
            )

        return Stream(1, part, lambda parts: parts[0])

    def diagnosis(self, choice: Choice) -> Stream[Diagnosis]:
        """What the draws say of every term's proposal."""
        y, theta = self.problem.check(*choice.pair)
        return diagnosis(
            self.problem,
            self.proposals(choice),
            y=y,
            theta=theta,
            draws=choice.draws,
            seed=choice.seed,
        )

    def amortization(self, choice: Choice, along: tuple[str, str]) -> Stream[AmortizationMap]:
        """The quality of the proposals over a plane, from coarse to fine.

        Arguments:
            choice: The proposals, and the case where the axes do not move it.
            along: The axes across and upwards.
        """
        y, theta = choice.pair
        size, draws = MAP_SIZES.get(self.problem.x.dim, SMALL_MAP)
        return amci.stream_amortization_map(
            self.problem,
            self.proposals(choice),
            along=along,
            size=size,
            draws=draws,
            y=y,
            theta=theta,
        )

    def error_curves(self, choice: Choice) -> Stream[ErrorCurves]:
        """Errors against total draws, over more and more runs."""
        return amci.stream_error_curves(
            self.problem,
            self.proposals(choice),
            *choice.pair,
            budgets=BUDGETS,
            runs=choice.runs,
            seed=choice.seed,
        )

    def reuse(
        self, choice: Choice, share: float = 0.5, common: bool = False
    ) -> Stream[ReuseErrors]:
        """Errors over (alpha, beta), over more and more runs.

        Arguments:
            choice: The case.
            share: Share of the draws that q1 gets.
            common: Whether both proposals transport the same random numbers.
        """
        return amci.stream_reuse_errors(
            self.problem,
            self.proposals(choice),
            *choice.pair,
            alphas=REUSE_GRID.tolist(),
            betas=REUSE_GRID.tolist(),
            draws=choice.draws,
            share=share,
            common=common,
            runs=choice.runs,
            seed=choice.seed,
        )


class LineStore(Store):
    """For x on a line, where the exact proposals are known."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._exact = amci.load_proposals(problem.name, variant="oracle")
        low, high = x_range(problem)
        self._uniform = np.linspace(low, high, 251)
        self._near = np.geomspace(1e-3, high, 100)

    def densities(self, choice: Choice, look: None = None) -> Densities:
        proposals = self.proposals(choice)
        assert self._exact.q2 is not None
        assert proposals.q2 is not None
        threshold = choice.theta[0]
        x = self._points(threshold)
        plus = self._compared(self._exact.q1_plus, proposals.q1_plus, choice, x)
        minus: tuple[Array | None, ...] = (None, None, None)
        if self._exact.q1_minus is not None and proposals.q1_minus is not None:
            minus = self._compared(self._exact.q1_minus, proposals.q1_minus, choice, x)
        return Densities(
            x=x,
            target=plus[0],
            posterior=_density(self._log_density(self._exact.q2, choice, x)),
            q1=plus[1],
            q2=_density(self._log_density(proposals.q2, choice, x)),
            log_ratio=plus[2],
            region=_region(x, plus[0]),
            threshold=threshold,
            target_minus=minus[0],
            q1_minus=minus[1],
            log_ratio_minus=minus[2],
        )

    def _compared(
        self, exact: Proposal, learnt: Proposal, choice: Choice, x: Array
    ) -> tuple[Array, Array, Array]:
        """The target, the proposal and their log-ratio at x, (n,) each."""
        log_g = self._log_density(exact, choice, x)
        log_q1 = self._log_density(learnt, choice, x)
        inside = np.isfinite(log_g)
        log_ratio = np.full_like(x, np.nan)
        log_ratio[inside] = log_q1[inside] - log_g[inside]
        log_ratio[~np.isfinite(log_ratio)] = np.nan
        return _density(log_g), _density(log_q1), log_ratio

    @torch.inference_mode()
    def _log_density(self, proposal: Proposal, choice: Choice, x: Array) -> Array:
        y, theta = self.problem.check(*choice.pair)
        return proposal(y, theta).log_prob(torch.as_tensor(x)[:, None]).numpy()

    def _points(self, theta: float) -> Array:
        # g can be as narrow as 0.07 and starts with a jump: dense points where it is, and one on
        # either side of the threshold.
        low, high = self._uniform[[0, -1]]
        above = theta + self._near
        parts = [self._uniform, np.array([theta, theta + EDGE]), above[above < high]]
        if not self.problem.nonnegative:
            below = theta - self._near
            parts += [np.array([theta - EDGE]), below[below > low]]
        return np.unique(np.concatenate(parts))


class PlaneStore(Store):
    """For x in the plane."""

    def densities(self, choice: Choice, look: None = None) -> PlaneDensities:
        y, theta = self.problem.check(*choice.pair)
        return plane_densities(self.problem, self.proposals(choice), y, theta)


@dataclass(frozen=True)
class TumourDensities:
    """What is known of a tumour.

    Arguments:
        plane: Densities over its size and response.
        course: Its size over the days.
    """

    plane: PlaneDensities
    course: Course


class TumourStore(Store):
    """For the tumour: its size and response in the plane, and its course over the days."""

    def densities(self, choice: Choice, look: None = None) -> TumourDensities:
        y, theta = self.problem.check(*choice.pair)
        return TumourDensities(
            plane=plane_densities(self.problem, self.proposals(choice), y, theta),
            course=course(self.problem, y),
        )


class MarginalStore(Store):
    """For x in more dimensions: one coordinate, and a pair of them."""

    def densities(
        self, choice: Choice, look: tuple[int, tuple[int, int]] | None = None
    ) -> MarginalDensities:
        y, theta = self.problem.check(*choice.pair)
        coordinate, pair = look or (0, (0, 1))
        return marginal_densities(
            self.problem, self.proposals(choice), y, theta, coordinate=coordinate, pair=pair
        )


@cache
def store_of(name: str) -> Store:
    """The store of a problem, one for all visitors.

    Raises:
        ValueError: there is no such problem.
    """
    # Work is spread over processes, not over PyTorch's own threads.
    torch.set_num_threads(1)
    problem = amci.problem(name)
    if isinstance(problem, TumourTreatment):
        return TumourStore(problem)
    kinds: dict[int, type[Store]] = {1: LineStore, 2: PlaneStore}
    return kinds.get(problem.x.dim, MarginalStore)(problem)


def x_range(problem: Problem) -> tuple[float, float]:
    """Wide enough for every posterior and every g that the sliders of y and theta reach."""
    assert problem.y is not None
    assert problem.theta is not None
    (y_low, y_high), (theta_low, theta_high) = map(shown_range, (problem.y, problem.theta))
    # The posterior has mean y / 2 and standard deviation 0.7.
    return min(y_low / 2, theta_low) - 3.0, max(y_high / 2, theta_high) + 2.5


def _density(log_density: Array) -> Array:
    # A floor instead of zero, which a logarithmic axis cannot show.
    return np.maximum(np.exp(log_density), SMALLEST_DENSITY)


def _region(x: Array, target: Array) -> tuple[float, float]:
    mass = np.concatenate([[0], np.cumsum(np.diff(x) * (target[1:] + target[:-1]) / 2)])
    mass /= mass[-1]
    lows = np.linspace(0, 1 - REGION_MASS, 201)
    low, high = np.interp(lows, mass, x), np.interp(lows + REGION_MASS, mass, x)
    # Where g is zero `mass` is flat, and the interpolation gives its left end.
    low = np.maximum(low, x[np.flatnonzero(target > SMALLEST_DENSITY)[0]])
    shortest = int(np.argmin(high - low))
    return float(low[shortest]), float(high[shortest])
