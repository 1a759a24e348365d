r"""Everything that can be computed for a problem, beside densities."""

from __future__ import annotations

__all__ = ["TOTALS", "Computations", "computations_of"]

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import torch

import amci_core as amci
from amci_core.amortization import AmortizationMap, map_stream
from amci_core.estimation.sampling import Sampler
from amci_core.evaluation import ErrorCurves, ReuseErrors, runs_by_draws
from amci_core.evaluation.reuse import reuse_stream
from amci_core.evaluation.runs import Estimators, Truth, chosen_estimators, curve_stream
from amci_core.flows import Proposals
from amci_core.flows.mixture import DefensiveComponent
from amci_core.models import Problem
from amci_core.parallel import Stream
from amci_core.reference import ReferenceValue
from amci_explorer.numbers import evaluated
from amci_explorer.numbers.answer import CaseAnswer, find_answer
from amci_explorer.numbers.case import CaseDraws, shown_estimators
from amci_explorer.numbers.diagnosis import Diagnosis, diagnosis
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.numbers.known import Mu, exact
from amci_explorer.numbers.play import Playback, playback
from amci_explorer.numbers.summary import Summary, summarize
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Point, Settings

T = TypeVar("T")
TOTALS = tuple(np.unique(2 * np.rint(np.geomspace(1, 5000, 28)).astype(int)).tolist())
# Cases along each axis of an amortization map and draws for each: both cost more in more
# dimensions.
MAP_SIZES = {1: (33, 256), 2: (25, 256)}
SMALL_MAP = (25, 128)
# Reference values that are kept.
KEPT = 128
# A reference value with a larger relative error is not taken for the truth: figures of it have
# three digits.
LARGEST_ERROR = 1e-3
# What "Find an answer" aims for, and the draws after which each of its ways gives up.
PRECISION, MOST_DRAWS = 0.01, 100_000
REUSE_GRID = np.linspace(-0.5, 1.5, 41).round(10)


class Computations:
    """Creates the computations for a problem.

    Arguments:
        problem: The problem.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @property
    def plain(self) -> dict[str, Proposals]:
        """Where E2 is known, what rivals of AMCI draw from without being trained, by name."""
        if "E2" in registry.terms(self.problem.name):
            return {}
        problem, prior = self.problem, DefensiveComponent(self.problem, "E2")
        minus = None if problem.nonnegative else prior
        found = {"prior": Proposals(problem.name, "prior", prior, minus, None)}
        return found | (
            {"reference": Proposals.from_defensive(problem)} if problem.has_defensive else {}
        )

    def draws(self, settings: Settings) -> tuple[int, ...]:
        """Total draws at which errors are shown: an estimate's among them."""
        total = settings.draws * len(registry.chosen(settings).present)
        return tuple(sorted({*TOTALS, min(total, TOTALS[-1])}))

    def reference(self, settings: Settings) -> ReferenceValue | None:
        """What errors are counted from where the problem does not know its truth.

        Takes up to a second; every process finds the same.

        Raises:
            ValueError: it cannot be told.
        """
        return None if self.problem.knows_truth else _reference(self.problem, *settings.pair)

    def mu(self, settings: Settings) -> Mu:
        """What estimates are compared with: the truth, or a reference value that is near it."""
        try:
            found = self.reference(settings)
        except ValueError:
            return Mu()
        if found is None:
            return exact(self.problem, *settings.pair)
        value, error = float(found.value), float(found.standard_error)
        near = error <= LARGEST_ERROR * abs(value)
        return Mu(value, error / abs(value), "reference") if near and value else Mu()

    def _seen(self, settings: Settings) -> CaseDraws:
        """The draws of one case."""
        case = self.problem, registry.chosen(settings), *settings.pair
        return CaseDraws(*case, draws=settings.draws, seed=settings.seed, mu=self.mu(settings))

    def summary(self, settings: Settings) -> Stream[Summary]:
        """The figures of the case, in a single part."""
        return _single(lambda: summarize(self._seen(settings)))

    def playback(self, settings: Settings, coordinate: int) -> Stream[Playback]:
        """Draws one by one along a coordinate of x, from 1 on, in a single part."""
        return _single(lambda: playback(self._seen(settings), coordinate - 1))

    def diagnosis(self, settings: Settings) -> Stream[Diagnosis]:
        """What the draws say of every term's proposal, in a single part."""
        return _single(lambda: diagnosis(self._seen(settings)))

    def answer(self, settings: Settings) -> Stream[CaseAnswer]:
        """An estimate to 1 %, in as many ways as it takes, in a single part."""
        case = self.problem, registry.chosen(settings), *settings.pair
        limits: dict[str, Any] = {"relative_error": PRECISION, "draws": MOST_DRAWS}
        return _single(lambda: find_answer(*case, **limits, seed=settings.seed))

    def amortization(
        self, settings: Settings, across: str, upwards: str
    ) -> Stream[AmortizationMap]:
        """The quality of the proposals over a plane, from coarse to fine.

        Arguments:
            settings: The proposals, and the case where the axes do not move it.
            across: The axis across.
            upwards: The axis upwards.
        """
        y, theta = settings.pair
        size, draws = MAP_SIZES.get(self.problem.x.dim, SMALL_MAP)
        return map_stream(
            self.problem,
            registry.chosen(settings),
            along=(across, upwards),
            size=size,
            draws=draws,
            y=y,
            theta=theta,
        )

    def error_curves(self, settings: Settings, sobol: bool = False) -> Stream[ErrorCurves]:
        """Errors against total draws, over more and more runs, see `runs_by_draws`.

        Arguments:
            settings: The case.
            sobol: Whether the estimators that take Sobol points draw them.
        """
        proposals, draws = registry.chosen(settings), self.draws(settings)
        shown: Estimators = shown_estimators(self.problem, proposals)
        drawn = [(proposals, shown, "sobol" if sobol else None)]
        # With E2 known, AMCI's mean of f w is plain importance sampling, for every q2.
        drawn += [(made, {name: "amci"}, None) for name, made in self.plain.items()]
        runs, truth = runs_by_draws(settings.runs, draws), self._truth(settings)
        return joined(
            [
                curve_stream(
                    self._sampler(settings, made),
                    truth,
                    chosen_estimators(names, self.problem, made, points),
                    draws=draws,
                    runs=runs,
                    seed=settings.seed,
                )
                for made, names, points in drawn
            ]
        )

    def reuse(
        self, settings: Settings, share: float = 0.5, common: bool = False
    ) -> Stream[ReuseErrors]:
        """Errors over (alpha, beta), over more and more runs.

        Arguments:
            settings: The case.
            share: Share of the draws that q1 gets.
            common: Whether both proposals transport the same random numbers.
        """
        return reuse_stream(
            self._sampler(settings, registry.chosen(settings)),
            self._truth(settings),
            alphas=REUSE_GRID.tolist(),
            betas=REUSE_GRID.tolist(),
            draws=settings.draws,
            share=share,
            common=common,
            runs=settings.runs,
            seed=settings.seed,
        )

    def _sampler(self, settings: Settings, proposals: Proposals) -> Sampler:
        return Sampler(self.problem, proposals, *self.problem.check(*settings.pair))

    def _truth(self, settings: Settings) -> Truth:
        at = self.problem.check(*settings.pair)
        return Truth.of(self.problem, *at, self.reference(settings))

    def stored_evaluation(self, settings: Settings) -> Stream[Evaluated]:
        """Errors over the cases that are stored with the proposals, in a single part."""
        return _single(lambda: evaluated.stored(settings))

    def evaluation(self, settings: Settings, cases: int) -> Stream[Evaluated]:
        """Errors over a few cases drawn from p(y) p(theta), one case after another."""
        return evaluated.live(
            self.problem,
            registry.chosen(settings),
            cases=cases,
            runs=settings.runs,
            seed=settings.seed,
        )


def _single(compute: Callable[[], T]) -> Stream[T]:
    return Stream(1, lambda _: compute(), lambda parts: parts[0])


def joined(streams: list[Stream[ErrorCurves]]) -> Stream[ErrorCurves]:
    """The curves of several streams with runs of the same sizes, as those of one."""

    def merge(parts: Sequence[tuple[Any, ...]]) -> ErrorCurves:
        found = [
            s.merge(of_one) for s, of_one in zip(streams, zip(*parts, strict=True), strict=True)
        ]
        by_name = {name: curve for each in found for name, curve in each.by_name.items()}
        return replace(found[0], by_name=by_name)

    return Stream(streams[0].count, lambda n: tuple(s.part(n) for s in streams), merge)


@lru_cache(KEPT)
def _reference(problem: Problem, y: Point | None, theta: Point | None) -> ReferenceValue:
    try:
        return amci.reference_value(problem, y, theta, relative_error=1e-4, draws=100_000)
    except ValueError as error:
        why = str(error).partition(". ")[0]
        raise ValueError(f"there is no relative error, since mu is not known ({why})") from error


def computations_of(name: str) -> Computations:
    """The computations for a problem.

    Raises:
        ValueError: there is no such problem.
    """
    # Work is spread over processes, not over PyTorch's own threads.
    torch.set_num_threads(1)
    return Computations(registry.problem(name))
