r"""The trainer of one proposal: steps of an optimizer on an objective, and the best weights.

SOAP is Adam in the eigenbases of Shampoo's preconditioners. The gradient of refinement grows quiet
as a proposal comes near its target, so that what is left is curvature, which it takes away: at
equal time its divergence is a half to a seventh of Adam's, see `benchmarks/learning.py`.

References:
    Kingma, Ba, Adam: A Method for Stochastic Optimization, 2015.
    Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam, 2025.
"""

from __future__ import annotations

__all__ = ["Progress", "TermRecipe", "Trainer", "TrainingDiverged"]

import copy
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amci_core._arguments import check_name
from amci_core.checking import bad_value
from amci_core.devices import CPU
from amci_core.estimators.draws import COMPONENTS
from amci_core.flows import FAMILIES, Trainable
from amci_core.flows.mixture import Mixture
from amci_core.models import Problem
from amci_core.training import clock
from amci_core.training.objectives import Objective, objective_class
from amci_core.training.quality import HeldOut, Quality
from amci_core.training.targets import TARGETS, Target

WARM_UP = 200
# Gradients are clipped at this multiple of their usual norm, so that a rare draw in a narrow bin
# does not undo the steps before it.
CLIP, CLIP_MEMORY = 3.0, 0.98
REPORTS = 100
# Where time is given reports take at most this share of it.
REPORTING = 0.1
# The side of a weight beyond which SOAP does not precondition: one of a thousand takes a second.
LARGEST_SIDE = 512


class TrainingDiverged(RuntimeError):
    """The loss, a gradient or a parameter was not finite; says at which step.

    Where a method of the problem gave no number, it says which, at which x, y and theta.
    """


@dataclass(frozen=True)
class TermRecipe:
    """One proposal: its family, its objective and its share of the budget.

    Arguments:
        family: Name in `amci_core.flows.FAMILIES`.
        arguments: Arguments of the family's constructor.
        objective: Name in `amci_core.training.objectives.OBJECTIVES`, or a class.
        settings: Arguments of the objective.
        optimizer: `adam` or `soap`.
        learning_rate: Its largest learning rate.
        annealed: Whether the rate falls to zero along a cosine after a short warm-up, or stays.
        steps_per_minute: Nominal speed on one core.
        share: Share of the time budget.
    """

    family: str
    arguments: Mapping[str, Any]
    objective: str | type[Objective]
    settings: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str = "soap"
    learning_rate: float = 1e-2
    annealed: bool = True
    steps_per_minute: int = 1
    share: float = 1.0

    @property
    def stage(self) -> str:
        """The objective's name."""
        return self.objective if isinstance(self.objective, str) else self.objective.__name__

    def steps(self, minutes: float) -> int:
        """Number of steps that so much time for all proposals gives to this one."""
        return max(1, round(minutes * self.share * self.steps_per_minute))


def record(choices: Any) -> dict[str, Any]:
    """The fields of a recipe, or of all choices; a class by its name."""

    def plainly(fields: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: getattr(value, "__name__", value) for name, value in fields}

    return asdict(choices, dict_factory=plainly)


@dataclass(frozen=True)
class Progress:
    """A report of a training.

    Arguments:
        proposal: Name of the proposal that is trained.
        step: Steps done.
        steps: Steps planned; where time is given, about.
        loss: Mean loss since the last report (NaN before the first step).
        quality: Held-out quality now.
        best: Held-out relative variance of the best so far.
        seconds: Time spent on its steps.
        stage: Name of the objective.
    """

    proposal: str
    step: int
    steps: int
    loss: float
    quality: Quality
    best: float
    seconds: float
    stage: str

    def __repr__(self) -> str:
        at = f"{self.proposal}, {self.stage}: step {self.step:,} of {self.steps:,}"
        return f"{at}, {self.figures}, {self.seconds:.1f} s"

    @property
    def figures(self) -> str:
        """Loss and quality, in words."""
        loss = "-" if math.isnan(self.loss) else f"{self.loss:.3g}"
        return (
            f"loss {loss}  validation {self.quality.divergence:.3g} nats  "
            f"relative variance {self.quality.relative_variance:.3g}"
        )

    @property
    def ended(self) -> bool:
        """Whether this is the trainer's last report."""
        return self.step == self.steps


def _soap(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """SOAP without weight decay, its bases renewed every ten steps."""
    # Only here: the library takes a second to import.
    from pytorch_optimizer import SOAP

    # Some methods of optimizers would import PyTorch's compiler, 2 to 5 s at the first step, to
    # say that they are not compiled.
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(getattr(torch.optim.Optimizer, name), "__wrapped__", None)
        if method is not None:
            method.__dynamo_disable = method
    made: torch.optim.Optimizer = SOAP(
        [p for p in parameters if p.requires_grad],
        lr=learning_rate,
        weight_decay=0.0,
        max_precondition_dim=LARGEST_SIDE,
    )
    return made


OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]] = {
    "adam": lambda parameters, learning_rate: torch.optim.Adam(parameters, lr=learning_rate),
    "soap": _soap,
}


class Trainer:
    """Trains one proposal, and keeps the best weights at held-out cases.

    Arguments:
        problem: The problem.
        name: Which proposal, such as `q1_plus`.
        recipe: How it is built and trained.
        steps: Number of steps, at most where `until` is given.
        seed: Whole number; the same seed gives the same weights on the same machine.
        device: The device of training.
        reports: About how many reports it gives; each evaluates the held-out quality, which in
            many dimensions takes as long as a hundred steps.
        target: What the proposal is trained towards, if more is known than the problem says.
        start: Weights to start from.
        held_out: Arguments of `HeldOut`.
        until: When training ends, as `clock.now` counts; the learning rate has fallen to zero
            then.

    Attributes:
        best: State of the best weights so far.
        best_quality: Their held-out quality.

    Raises:
        ValueError: the recipe's family, objective, arguments or settings do not fit.
    """

    def __init__(
        self,
        problem: Problem,
        name: str,
        recipe: TermRecipe,
        *,
        steps: int,
        seed: int,
        device: torch.device = CPU,
        reports: int = REPORTS,
        target: Target | None = None,
        start: Mapping[str, Tensor] | None = None,
        held_out: Mapping[str, Any] | None = None,
        until: float = math.inf,
    ) -> None:
        self.name, self.recipe, self.steps = name, recipe, steps
        target = target or TARGETS[name](problem)
        family = FAMILIES[check_name("family", recipe.family, FAMILIES)]
        self.proposal: Trainable = _made(
            "family", recipe.family, family, target.problem, **recipe.arguments
        )
        for_weights, for_draws = stream_seeds(seed, name)
        self.proposal.initialize(torch.Generator().manual_seed(for_weights))
        if start is not None:
            self.proposal.load_state_dict(start)
        self.proposal.to(device)
        self.generator = torch.Generator(device=device).manual_seed(for_draws)
        kind = objective_class(recipe.objective)
        self.objective: Objective = _made(
            "objective", recipe.stage, kind, target, self.generator, **recipe.settings
        )
        make = OPTIMIZERS[check_name("optimizer", recipe.optimizer, OPTIMIZERS)]
        self.optimizer = make(self.proposal.parameters(), recipe.learning_rate)
        self._held_out = HeldOut(target, **(held_out or {}))
        self.step, self.seconds = 0, 0.0
        self._losses, self._usual_norm, self._rate = list[float](), 0.0, 1.0
        began = clock.now()
        self._keep(self._held_out.quality(self.proposal))
        self._began, self._until = clock.now(), until
        self._reporting = self._began - began
        # The seconds between two reports where time is given, and how many reports that makes.
        self._pause = max((until - self._began) / reports, self._reporting / REPORTING)
        self.reports = reports
        if math.isfinite(until):
            self.reports = max(1, round((until - self._began) / self._pause))
        self._every = max(1, steps // reports)

    def _keep(self, quality: Quality) -> None:
        self.best_quality, self.best = quality, copy.deepcopy(self.proposal.state_dict())

    def defend(self, q2: Trainable | None) -> None:
        """Before the first step: copies q2's weights into the defence of a mixture with q2."""
        if not isinstance(self.proposal, Mixture):
            return
        if q2 is None:
            raise ValueError("terms: a mixture with q2 needs a trained q2. List q2 first")
        self.proposal.defensive.load_state_dict(q2.state_dict())
        self._keep(self._held_out.quality(self.proposal))

    def go_back(self) -> None:
        """Returns to the best weights, with half of the learning rate."""
        self.proposal.load_state_dict(self.best)
        self.optimizer.state.clear()
        self._usual_norm, self._rate = 0.0, self._rate / 2

    @property
    def done(self) -> float:
        """The share of the training that is done."""
        gone = 0.0
        if math.isfinite(self._until):
            gone = (clock.now() - self._began) / max(self._until - self._began, 1e-9)
        return min(max(self.step / self.steps, gone), 1.0)

    def run(self, stops: Collection[int] = ()) -> Iterator[Progress]:
        """Trains on, yielding at every report and at the steps in `stops`.

        Raises:
            TrainingDiverged: the loss, a gradient or, at a report, a parameter was not finite. The
                best so far is kept.
        """
        yield self._report()
        reported = clock.now()
        while self.step < self.steps:
            started = clock.now()
            self.advance()
            now = clock.now()
            self.seconds += now - started
            if now + self._reporting >= self._until:
                self.steps = self.step
            due = now - reported >= self._pause
            if not math.isfinite(self._until):
                due = self.step % self._every == 0
            if due or self.step in stops or self.step == self.steps:
                yield self._report()
                reported = clock.now()

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
        limit = CLIP * self._usual_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.proposal.parameters(), limit).item()
        value = loss.item()
        if not (math.isfinite(value) and math.isfinite(norm)):
            cause = self._cause()
            raise self._diverged(
                f"the loss was {value} and its gradient's norm {norm}{cause and ': '}{cause}"
            )
        memory = CLIP_MEMORY if self._usual_norm > 0 else 0.0
        self._usual_norm = memory * self._usual_norm + (1 - memory) * min(norm, limit)
        self.optimizer.step()
        self.step += 1
        self._losses.append(value)

    def _cause(self) -> str:
        """Which method of the problem gave no number at the points of the last step, and where."""
        last = self.objective.last
        bad = last and bad_value(self.objective.target.problem, *last)
        return " ".join(bad) if bad else ""

    def _diverged(self, said: str, step: int = 1) -> TrainingDiverged:
        at = f"at step {self.step + step}"
        return TrainingDiverged(f"{self.name}: {said}, {at}. The best weights so far are saved")

    def _learning_rate(self) -> float:
        if not self.recipe.annealed:
            return self.recipe.learning_rate * self._rate
        done = self.done
        warm_up = (self.step + 1) / min(WARM_UP, self.steps)
        if math.isfinite(self._until):
            warm_up = max(warm_up, 10 * done)
        cosine = 1 + math.cos(math.pi * done)
        return self.recipe.learning_rate * self._rate * min(1.0, warm_up) * cosine / 2

    def _report(self) -> Progress:
        if not all(bool(weight.isfinite().all()) for weight in self.proposal.parameters()):
            raise self._diverged("a parameter was not finite", 0)
        quality = self._held_out.quality(self.proposal) if self.step else self.best_quality
        field = self.objective.selects_by
        if getattr(quality, field) < getattr(self.best_quality, field):
            self._keep(quality)
        loss = sum(self._losses) / len(self._losses) if self._losses else math.nan
        self._losses.clear()
        steps = self.steps
        if math.isfinite(self._until) and self.step < steps:
            steps = max(self.step + 1, round(self.step / max(self.done, 1e-9)))
        best = self.best_quality.relative_variance
        stage = self.recipe.stage
        return Progress(self.name, self.step, steps, loss, quality, best, self.seconds, stage)

    def best_proposal(self) -> Trainable:
        """A copy of the proposal with the best weights so far, ready to draw from on the CPU."""
        best = usable(self.proposal)
        best.load_state_dict(self.best)
        return best


def usable(proposal: Trainable) -> Trainable:
    """A copy in float64 on the CPU, without gradients."""
    return copy.deepcopy(proposal).to("cpu", torch.float64).eval().requires_grad_(False)


def _made(what: str, name: str, make: Callable[..., Any], *given: Any, **arguments: Any) -> Any:
    try:
        return make(*given, **arguments)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{what}: {name} does not accept {arguments} ({error})") from None


def stream_seeds(seed: int, name: str) -> tuple[int, int]:
    """Seeds for weights and draws that no other proposal or purpose shares."""
    sequence = np.random.SeedSequence([seed, COMPONENTS.index(name)])
    first, second = sequence.generate_state(2, np.uint64) >> np.uint64(1)
    return int(first), int(second)
