r"""The objectives: each class gives the loss of the next step, from fresh draws.

Three are known: the paper's; maximum likelihood on particles, for pre-training; and reweighted
wake-sleep, which refines. A new one is a subclass of `Objective`, which `learn` takes as it is:
`Choices(objective=MyObjective)`. A line in `OBJECTIVES` gives it a name for recipes.
"""

from __future__ import annotations

__all__ = ["OBJECTIVES", "Objective"]

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from amci_core._arguments import check_name
from amci_core.flows import Trainable
from amci_core.flows.density import TransformedDensity
from amci_core.flows.mixture import gathered
from amci_core.training.targets import SOURCES, Particles, Sample, Target


class Objective(ABC):
    """A stream of losses for a proposal q; `loss` is called once a step.

    Arguments:
        target: What the proposal is trained towards.
        generator: Where all randomness comes from, on the device of the training.

    Attributes:
        selects_by: The field of a held-out `Quality` by which the best weights are selected.
        last: Points x (cases, n, D), y and theta at which the last step evaluated the target.
    """

    selects_by: ClassVar[str] = "relative_variance"

    def __init__(self, target: Target, generator: torch.Generator) -> None:
        self.target = target
        self.generator = generator
        self.last: tuple[Tensor, Tensor, Tensor | None] | None = None

    @abstractmethod
    def loss(self, q: Trainable) -> Tensor:
        """The loss of the next step, a scalar."""


class PaperObjective(Objective):
    r"""The paper's objective, on data sets that are drawn afresh when they are used up.

    The forward KL divergence of g(x | y; theta) prop. to f p(x, y) and q, averaged over y and
    theta, is up to a constant

        J = E_{q'(theta, x) p(y | x)}[- r log q(x; y, theta)],   r = p(theta) p(x) f(x; theta) /
        q'(theta, x).

    A training and a validation set are drawn; epochs are run until the validation loss has risen
    above its best more than `missteps` times, or `epochs` have passed; then both are drawn again.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (train-prop) and
        appendix "Mini-batching Procedure" (whose missteps count against the epoch before).

    Arguments:
        size: Draws in a training set.
        validation_size: Draws in a validation set.
        batch: Draws in a step.
        epochs: Most epochs on one training set.
        missteps: Rises of the validation loss that are forgiven.
        source: Where theta and x come from, a name in `targets.SOURCES`: `importance`, or
            `mcmc`, a chain on g(theta, x): q' = g and r is constant.
    """

    # What the objective lowers. A light tail far out makes the relative variance of a flow
    # astronomical at every report, though its draws are good and get better.
    selects_by = "divergence"

    def __init__(
        self,
        target: Target,
        generator: torch.Generator,
        *,
        size: int = 100_000,
        validation_size: int = 20_000,
        batch: int = 1_000,
        epochs: int = 30,
        missteps: int = 2,
        source: str = "importance",
    ) -> None:
        super().__init__(target, generator)
        self.source = check_name("source", source, SOURCES)
        self.size, self.validation_size, self.batch = size, validation_size, batch
        self.epochs, self.missteps = epochs, missteps
        self._refresh()

    def loss(self, q: Trainable) -> Tensor:
        if self.position + self.batch > self.size:
            self._end_epoch(q)
        chosen = self.order[self.position : self.position + self.batch]
        self.position += self.batch
        parts: Any = (None if part is None else part[chosen] for part in self.train)
        sample = Sample(*parts)
        self.last = sample.x[:, None], sample.y, sample.theta
        return _weighted_loss(q, sample)

    def _refresh(self) -> None:
        self.train = self.target.sample(self.size, self.generator, self.source)
        self.validation = self.target.sample(self.validation_size, self.generator, self.source)
        self.epoch, self.risen, self.best = 0, 0, math.inf
        self._shuffle()

    def _shuffle(self) -> None:
        device = self.generator.device
        self.order = torch.randperm(self.size, generator=self.generator, device=device)
        self.position = 0

    def _end_epoch(self, q: Trainable) -> None:
        with torch.inference_mode():
            validation = _weighted_loss(q, self.validation).item()
        self.epoch += 1
        self.risen += validation > self.best
        self.best = min(self.best, validation)
        if self.risen > self.missteps or self.epoch >= self.epochs:
            self._refresh()
        else:
            self._shuffle()


class RefineObjective(Objective):
    r"""Reweighted wake-sleep: forward KL on the test cases, with points from the proposal itself.

    For cases (y, theta) from p(y) p(theta), K points come from m = s q + (1 - s) h, a mixture of
    the current proposal and the defensive density. The gradient of KL(g || q) is

        - E_g[grad log q] = - E_m[(g / m) grad log q],

    with the K weights g / m self-normalized. Since E_q[grad log q] = 0, the same expectation with
    q / m instead of g / m vanishes, and is subtracted:

        loss = - sum_k (G_k - Q_k) log q(x_k),
        G_k prop. to g(x_k) / m(x_k),   Q_k prop. to q(x_k) / m(x_k),

    G and Q held fixed. This takes away noise, and most of the bias of order 1 / K that normalizing
    brings: the closer q is to g the quieter the gradient, and at q = g it is exactly zero. Points
    from q are stratified.

    References:
        Bornschein, Bengio, Reweighted Wake-Sleep, 2015, for training on self-normalized weights of
        the proposal's own draws.

    Arguments:
        cases: Pairs from p(y) p(theta) in a step.
        uniform_cases: Pairs in a step that are spread evenly over the typical ranges, so that
            cases are learnt which p(y) p(theta) hardly ever draws.
        from_proposal: Points of each pair that come from q.
        from_reference: Points of each pair that come from the defensive density.
    """

    def __init__(
        self,
        target: Target,
        generator: torch.Generator,
        *,
        cases: int,
        uniform_cases: int,
        from_proposal: int,
        from_reference: int,
    ) -> None:
        super().__init__(target, generator)
        self.cases, self.uniform_cases = cases, uniform_cases
        self.from_proposal, self.from_reference = from_proposal, from_reference

    def loss(self, q: Trainable) -> Tensor:
        y, theta = self.target.cases(
            self.cases, uniform=self.uniform_cases, generator=self.generator
        )
        density = q(y, theta)
        if not isinstance(density, TransformedDensity):
            raise ValueError(
                f"objective: refine needs a flow, got {type(q).__name__}. Choose another family"
            )
        weight_of_q = self.from_proposal / (self.from_proposal + self.from_reference)
        with torch.no_grad():
            base = density.stratified_base_samples(self.from_proposal, self.generator)
            from_q, _ = density.forward(base)
            reference = self.target.reference(y, theta)
            from_h, _ = reference.draw(self.from_reference, self.generator)
            x = torch.cat([from_q, from_h], dim=-2)
        self.last = x, y, theta
        log_q = density.log_prob(x)
        with torch.no_grad():
            log_m = torch.logaddexp(
                log_q + math.log(weight_of_q), reference.log_prob(x) + math.log1p(-weight_of_q)
            )
            log_g = self.target.log_density(x, y, theta)
            # Where q is zero there is no log q to move. Compared with -inf, so that a NaN goes on
            # into the loss and is reported.
            outside = log_q == -math.inf
            empty = (outside | (log_g == -math.inf)).all(-1, keepdim=True)
            of_g, of_q = (
                torch.softmax((log_t - log_m).masked_fill(outside, -math.inf), -1)
                for log_t in (log_g, log_q)
            )
            weight = (of_g - of_q).masked_fill(empty, 0.0)
        return -(weight * log_q.masked_fill(outside, 0.0)).sum(-1).mean()


class LikelihoodObjective(Objective):
    r"""Maximum likelihood on particles of many cases, for pre-training.

    For cases (y, theta) with particles x_k that follow g(x | y; theta), from sequential Monte
    Carlo,

        loss = - mean log q(x_k; y, theta),

    the forward KL divergence up to a constant. It is bounded below at every step, so that it
    leads to a good proposal from wherever it starts: pre-training for `refine`.

    Arguments:
        cases: Cases in a step.
        points: Particles of each in a step.
    """

    def __init__(
        self, target: Target, generator: torch.Generator, *, cases: int, points: int
    ) -> None:
        super().__init__(target, generator)
        self.cases, self.points = cases, points

    def loss(self, q: Trainable) -> Tensor:
        particles, size = self.target.particles, {"cases": self.cases, "points": self.points}
        return mean_loss(q, particles, self.generator, **size)


OBJECTIVES: dict[str, type[Objective]] = {
    "pretrain": LikelihoodObjective,
    "paper": PaperObjective,
    "refine": RefineObjective,
}


def objective_class(objective: str | type[Objective]) -> type[Objective]:
    """The class of a name in `OBJECTIVES`, or a subclass of `Objective` as it is.

    Raises:
        ValueError: it is neither.

    Example:
        >>> objective_class("paper").__name__
        'PaperObjective'
    """
    if isinstance(objective, type) and issubclass(objective, Objective):
        return objective
    return OBJECTIVES[check_name("objective", objective, OBJECTIVES, " or an Objective's class")]


def mean_loss(
    q: Trainable, particles: Particles, generator: torch.Generator, *, cases: int, points: int
) -> Tensor:
    """- mean log q at so many points of so many cases, drawn from particles."""
    rows, n = particles.x.shape[:2]
    chosen = torch.randint(rows, (min(cases, rows),), generator=generator)
    some = torch.randint(n, (len(chosen), min(points, n)), generator=generator)
    x = gathered(particles.x[chosen], some)
    theta = None if particles.theta is None else particles.theta[chosen]
    log_q = q(particles.y[chosen], theta).log_prob(x)
    # Where q is zero there is no log q to move.
    return -log_q.masked_fill(log_q == -math.inf, 0.0).mean()


def _weighted_loss(q: Trainable, sample: Sample) -> Tensor:
    log_q = q(sample.y, sample.theta).log_prob(sample.x[:, None, :])[:, 0]
    # Outside q's support r is zero as well: 0 * -inf would be NaN.
    return -(sample.log_r.exp() * log_q.masked_fill(log_q == -math.inf, 0.0)).mean()
