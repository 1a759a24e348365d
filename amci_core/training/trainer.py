r"""Fitting one proposal: steps of an optimizer, the best so far, and a state to resume from."""

from __future__ import annotations

__all__ = ["Fit", "proposal_of", "run_in_turn", "stream_seeds"]

import copy
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.checking import bad_value
from amci_core.estimators import PROPOSALS
from amci_core.flows import FAMILIES, Trainable
from amci_core.flows.mixture import Mixture
from amci_core.models import Problem
from amci_core.training.clock import now
from amci_core.training.objectives import OBJECTIVES
from amci_core.training.optimizers import OPTIMIZERS, load_state, state_of
from amci_core.training.progress import Progress, TrainingDiverged
from amci_core.training.quality import HeldOut, Quality
from amci_core.training.recipes import TermRecipe
from amci_core.training.targets import TARGETS, Target

WARM_UP = 200
# Gradients are clipped at this multiple of their usual norm, so that a rare draw in a narrow bin
# does not undo the steps before it.
CLIP = 3.0
CLIP_MEMORY = 0.98
REPORTS = 100
# What a checkpoint holds beside tensors and the best quality.
NUMBERS = ("step", "seconds", "loss_sum", "loss_steps", "usual_norm")


class Fit:
    """The training of one proposal.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        term: Its recipe.
        steps: Number of steps.
        seed: Whole number; the same seed gives the same weights on the same machine.
        device: Where to train.
        reports: About how often held-out quality is looked at; in many dimensions that takes as
            long as a hundred steps.
        target: What the proposal is trained towards, where more is known of that than the problem
            says.
        start: Weights to start from.
        held_out: How quality is looked at, arguments of `HeldOut`.
        until: When it ends, as `clock.now` counts, with a rate that has fallen to zero by then.

    Raises:
        ValueError: the recipe's family, objective, arguments or settings do not fit.
    """

    def __init__(
        self,
        problem: Problem,
        name: str,
        term: TermRecipe,
        *,
        steps: int,
        seed: int,
        device: torch.device,
        reports: int = REPORTS,
        target: Target | None = None,
        start: Mapping[str, Tensor] | None = None,
        held_out: Mapping[str, Any] | None = None,
        until: float = math.inf,
    ) -> None:
        self.name, self.term, self.steps = name, term, steps
        self._every = max(1, steps // reports)
        target = target or TARGETS[name](problem)
        self.proposal = proposal_of(target.problem, term)
        for_weights, for_draws = stream_seeds(seed, name)
        self.proposal.initialize(torch.Generator().manual_seed(for_weights))
        if start is not None:
            self.proposal.load_state_dict(start)
        self.proposal.to(device)
        self.generator = torch.Generator(device=device).manual_seed(for_draws)
        self.objective = _made(
            "objective", term.objective, OBJECTIVES, target, self.generator, **term.settings
        )
        self.optimizer = _made(
            "optimizer", term.optimizer, OPTIMIZERS, self.proposal.parameters(), term.learning_rate
        )
        self.held_out = HeldOut(target, **(held_out or {}))
        self._rate, self._began, self._until = 1.0, now(), until
        self.step, self.seconds = 0, 0.0
        self.loss_sum, self.loss_steps, self.usual_norm = 0.0, 0, 0.0
        self._keep(self.held_out.quality(self.proposal))
        # Within a step, generator and optimizer are ahead of `step`: no state to resume from.
        self._between_steps = True

    @property
    def resumable(self) -> bool:
        """Whether `state` is one to go on from: between two steps, every parameter finite."""
        return self._between_steps and self._finite()

    def _finite(self) -> bool:
        return all(bool(parameter.isfinite().all()) for parameter in self.proposal.parameters())

    def _keep(self, quality: Quality) -> None:
        self.best_quality = quality
        self.best = copy.deepcopy(self.proposal.state_dict())

    def adopt(self, trained: Mapping[str, Fit]) -> None:
        """Before its first step: takes over what its family has of the fits that are done."""
        if self.step == 0 and isinstance(self.proposal, Mixture):
            if "q2" not in trained:
                raise ValueError("terms: a mixture with q2 expects q2 to be trained before it")
            q2 = trained["q2"].best_proposal()
            self.proposal.defence.load_state_dict(q2.state_dict())
            self._keep(self.held_out.quality(self.proposal))

    def go_back(self) -> None:
        """Takes up the best weights again, with half of the learning rate."""
        self.proposal.load_state_dict(self.best)
        self.optimizer.state.clear()
        self.usual_norm, self._rate = 0.0, self._rate / 2

    def run(
        self, *, stops: Collection[int] = (), before_step: Callable[[], None] = lambda: None
    ) -> Iterator[Progress]:
        """Trains on, yielding at every report and at the steps in `stops`.

        Raises:
            TrainingDiverged: the loss, a gradient or, at a report, a parameter was not finite. The
                best so far is kept.
        """
        before_step()
        if self.step == 0:
            yield self._report()
        while self.step < self.steps:
            if self.step and now() >= self._until:
                self.steps = self.step
                yield self._report()
                return
            before_step()
            started = now()
            self._between_steps = False
            self.advance()
            self._between_steps = True
            self.seconds += now() - started
            if self.step % self._every == 0 or self.step in stops or self.step == self.steps:
                yield self._report()

    def advance(self) -> None:
        """One step; raises as `run`."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        try:
            loss = self.objective.loss(self.proposal)
        except (ValueError, RuntimeError) as error:
            if cause := self._cause():
                raise self._diverged(cause) from error
            raise
        self.optimizer.zero_grad()
        loss.backward()
        limit = CLIP * self.usual_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.proposal.parameters(), limit).item()
        value = loss.item()
        if not (math.isfinite(value) and math.isfinite(norm)):
            cause = self._cause()
            raise self._diverged(
                f"the loss was {value} and its gradient's norm {norm}{cause and ', since '}{cause}"
            )
        memory = CLIP_MEMORY if self.usual_norm > 0 else 0.0
        self.usual_norm = memory * self.usual_norm + (1 - memory) * min(norm, limit)
        self.optimizer.step()
        self.step += 1
        self.loss_sum += value
        self.loss_steps += 1

    def _cause(self) -> str:
        """Which method of the problem gave no number at the points of the last step, and where."""
        last = self.objective.last
        bad = last and bad_value(self.objective.target.problem, *last)
        return " ".join(bad) if bad else ""

    def _diverged(self, said: str) -> TrainingDiverged:
        at = f"at step {self.step + 1} of {self.steps}"
        return TrainingDiverged(f"{self.name}: {said}, {at}; the best so far is kept")

    def _learning_rate(self) -> float:
        if not self.term.annealed:
            return self.term.learning_rate * self._rate
        warm_up = min(1.0, (self.step + 1) / min(WARM_UP, self.steps))
        done = self.step / self.steps
        if math.isfinite(self._until):
            gone = (now() - self._began) / max(self._until - self._began, 1e-9)
            done = min(max(done, gone), 1.0)
        cosine = 1 + math.cos(math.pi * done)
        return self.term.learning_rate * self._rate * warm_up * cosine / 2

    def _report(self) -> Progress:
        if not self._finite():
            raise TrainingDiverged(
                f"{self.name}: a parameter was not finite at step {self.step} of {self.steps}; "
                "the best so far is kept"
            )
        if self.step:
            quality = self.held_out.quality(self.proposal)
        else:
            quality = self.best_quality
        field = self.objective.selects_by
        if getattr(quality, field) < getattr(self.best_quality, field):
            self._keep(quality)
        loss = self.loss_sum / self.loss_steps if self.loss_steps else math.nan
        self.loss_sum, self.loss_steps = 0.0, 0
        best = self.best_quality.relative_variance
        return Progress(self.name, self.step, self.steps, loss, quality, best, self.seconds)

    def best_proposal(self) -> Trainable:
        """A copy of the proposal with the best weights so far, on the CPU."""
        best: Trainable = copy.deepcopy(self.proposal)
        best.load_state_dict(self.best)
        best.to("cpu")  # in place
        return best

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything that the remaining steps depend on, as tensors and as plain numbers."""
        moments, plain = state_of(self.optimizer)
        parts = {
            "model": self.proposal.state_dict(),
            "best": self.best,
            "objective": self.objective.state(),
            "optimizer": moments,
        }
        tensors = {f"{part}.{k}": v for part, each in parts.items() for k, v in each.items()}
        tensors["generator"] = self.generator.get_state()
        numbers = {name: getattr(self, name) for name in NUMBERS}
        best = self.best_quality.as_json()
        return tensors, numbers | {"best_quality": best, "optimizer": plain}

    def load_state(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Continues where `state` was taken.

        Raises:
            ValueError: a number is not finite, or the step is none of this training.
        """
        step = numbers["step"]
        if not isinstance(step, int) or not 0 <= step <= self.steps:
            raise ValueError(f"step: expected 0 to {self.steps}, got {step!r}")
        if not all(math.isfinite(numbers[name]) for name in NUMBERS):
            raise ValueError("a number is not finite")

        def part(prefix: str) -> dict[str, Tensor]:
            start = f"{prefix}."
            return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}

        self.proposal.load_state_dict(part("model"))
        self.best = part("best")
        device = self.generator.device
        self.objective.load_state({k: v.to(device) for k, v in part("objective").items()})
        self.generator.set_state(tensors["generator"])
        load_state(self.optimizer, part("optimizer"), numbers["optimizer"])
        for name in NUMBERS:
            setattr(self, name, numbers[name])
        self.best_quality = Quality.from_json(numbers["best_quality"])


def run_in_turn(
    fits: Mapping[str, Fit],
    *,
    stops: Mapping[str, Collection[int]] | None = None,
    before_step: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Fit, Progress]]:
    """Runs one fit after the other, each with what it adopts of those before; see `Fit.run`."""
    done: dict[str, Fit] = {}
    for name, fit in fits.items():
        fit.adopt(done)
        done[name] = fit
        for progress in fit.run(stops=(stops or {}).get(name, ()), before_step=before_step):
            yield fit, progress


def proposal_of(problem: Problem, term: TermRecipe) -> Trainable:
    """The proposal that a recipe begins with.

    Raises:
        ValueError: there is no such family, or its arguments do not fit.
    """
    made: Trainable = _made("family", term.family, FAMILIES, problem, **term.arguments)
    return made


def _made(what: str, name: str, known: Mapping[str, Any], *given: Any, **arguments: Any) -> Any:
    if name not in known:
        raise ValueError(f"{what}: expected one of {', '.join(known)}, got {name!r}")
    try:
        return known[name](*given, **arguments)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{what}: {name} does not take {arguments} ({error})") from None


def stream_seeds(seed: int, name: str) -> tuple[int, int]:
    """Seeds for weights and draws that no other proposal or purpose shares."""
    sequence = np.random.SeedSequence([seed, PROPOSALS.index(name)])
    first, second = sequence.generate_state(2, np.uint64) >> np.uint64(1)
    return int(first), int(second)
