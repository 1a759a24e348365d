r"""How good proposals are: the held-out quality that selects weights, and the card of a folder."""

from __future__ import annotations

__all__ = ["HeldOut", "Quality", "report", "write_card"]

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from amci_core.estimators.draws import DEFENSIVE, Array, Draws
from amci_core.estimators.mis import pooled
from amci_core.evaluation import Evaluation
from amci_core.files import plain, write_json
from amci_core.flows import Trainable
from amci_core.flows.mixture import MixtureDensity
from amci_core.models import Problem
from amci_core.models import problem as problem_named
from amci_core.proposals import load_proposals
from amci_core.training.targets import TARGETS, Target
from amci_core.training.verdict import checked

# Weights are selected on the cases and draws of one seed, and reported on those of another.
SELECTION_SEED = 2_019_06_09
REPORT_SEED = 2_019_06_10
# About how long the check for a card may take.
CHECK_SECONDS = 600.0


@dataclass(frozen=True)
class Quality:
    """The quality of a proposal over held-out cases.

    Arguments:
        divergence: Median over cases of KL(g || q), in nats.
        relative_variance: Median over cases of Var_q[w] / E_q[w]^2 for one draw, w = g / q.
        relative_variance_q95: Its 95th percentile over cases.
        relative_variance_max: Its largest value.
    """

    divergence: float
    relative_variance: float
    relative_variance_q95: float
    relative_variance_max: float

    def as_json(self) -> dict[str, Any]:
        """Field to value, None for an infinite one."""
        return dict(plain(vars(self)))

    @classmethod
    def from_json(cls, content: dict[str, float | None]) -> Quality:
        """The inverse of `as_json`."""
        return cls(**{k: math.inf if v is None else v for k, v in content.items()})


# Coordinates of points that are looked at together: memory.
AT_ONCE = 700_000


class HeldOut:
    """Fixed cases from p(y) p(theta) and a fixed seed for the draws from the proposal.

    Arguments:
        target: What the proposal is trained towards.
        cases: Number of cases.
        draws: Draws from the proposal, and as many from the reference, for each.
        seed: Of cases and draws: `SELECTION_SEED` or `REPORT_SEED`.
        defence: Share of the reference in the mixture whose quality it is.
    """

    def __init__(
        self,
        target: Target,
        *,
        cases: int = 256,
        draws: int = 256,
        seed: int = SELECTION_SEED,
        defence: float = 0.0,
    ) -> None:
        self.target, self.draws, self.seed, self.defence = target, draws, seed, defence
        generator = torch.Generator().manual_seed(seed)
        y, theta = target.cases(cases, uniform=0, generator=generator)
        self.y, self.theta = target.problem.check(y, theta)

    @torch.inference_mode()
    def quality(self, proposal: Trainable) -> Quality:
        """Evaluates a copy of the proposal, in float64 on the CPU.

        A proposal's own draws cannot show what they miss, so half of the points come from the
        target's broad reference. With shares r of q and v of g at the points of both, each
        normalized, w = g / q is v / r in units of its mean: exact where q is.
        """
        double = copy.deepcopy(proposal).to("cpu", torch.float64)
        generator = torch.Generator().manual_seed(self.seed)
        size = max(1, AT_ONCE // (2 * self.draws * self.target.problem.x.dim))
        thetas = [None] * len(self.y) if self.theta is None else self.theta.split(size)
        parts = [
            self._of_cases(double, y, theta, generator)
            for y, theta in zip(self.y.split(size), thetas, strict=False)
        ]
        divergence, variance = (
            torch.from_numpy(np.concatenate(part)).nan_to_num(math.inf, posinf=math.inf)
            for part in zip(*parts, strict=True)
        )
        levels = torch.tensor([0.5, 0.95, 1.0], dtype=torch.float64)
        quantiles = variance.quantile(levels, interpolation="nearest").tolist()
        return Quality(divergence.median().item(), *quantiles)

    def _of_cases(
        self, proposal: Trainable, y: Tensor, theta: Tensor | None, generator: torch.Generator
    ) -> tuple[Array, Array]:
        """The divergence and the relative variance at some of the cases."""
        q: Any = proposal(y, theta)
        reference = self.target.reference(y, theta)
        if self.defence:
            q = MixtureDensity(q, reference, math.log(self.defence / (1 - self.defence)))
        x = torch.cat([part.draw(self.draws, generator)[0] for part in (q, reference)], dim=-2)
        log_g = self.target.log_density(x, y, theta).numpy()
        log_q = {0: q.log_prob(x).numpy(), DEFENSIVE: reference.log_prob(x).numpy()}
        counts = dict.fromkeys(log_q, self.draws)
        seen = pooled(Draws(np.ones_like(log_g), log_g, log_q, counts, signed=False))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_r, log_v = (
                log_softmax(log_t - seen.log_mixture, axis=-1) for log_t in (log_q[0], log_g)
            )
            r, v, log_w = np.exp(log_r), np.exp(log_v), log_v - log_r
            # Where q underflows beside the reference, w is too large to count.
            mean = np.where(r > 0, v, 0.0).sum(-1, keepdims=True)
            square = np.where(r > 0, r * np.square(np.exp(log_w) / mean - 1), 0.0).sum(-1)
            square[((log_r == -np.inf) & (v > 0)).any(-1)] = np.inf
            kl = np.where(v > 0, v * log_w, 0.0).sum(-1) - np.log(mean[..., 0])
        return kl, square


def write_card(folder: Path, evaluation: Evaluation, seconds: float = CHECK_SECONDS) -> None:
    """Writes `evaluation.json`, and `quality` and `verdict` in `config.json`, of stored proposals.

    Weights are selected on one set of held-out cases and draws, and the quality comes from
    another. The evaluation records the hashes of the weights that it judges. The verdict is that
    of a long check, see `amci_core.training.verdict`.

    Arguments:
        folder: A folder with proposals.
        evaluation: What `amci_core.evaluate` found for them.
        seconds: About how long the check may take: with less time there are fewer draws.

    Raises:
        ValueError: the folder holds no proposals for that problem, or those of another variant; or
            cases failed.
    """
    if evaluation.failures:
        raise ValueError(f"evaluation: expected no failed case, got {len(evaluation.failures)}")
    problem = problem_named(evaluation.problem)
    proposals = load_proposals(problem, variant=evaluation.variant, folder=folder)
    config = proposals.card["configuration"]
    flows = {name: getattr(proposals, name) for name in config["proposals"]}
    hashes = {name: entry["sha256"] for name, entry in config["proposals"].items()}
    write_json(folder / "evaluation.json", {"weights": hashes, **plain(evaluation.as_dict())})
    renewed = {
        "quality": report(problem, flows),
        "verdict": checked(problem, proposals, seconds=seconds),
    }
    write_json(folder / "config.json", {**config, **renewed})


def report(problem: Problem, flows: Mapping[str, Trainable]) -> dict[str, Any]:
    """The quality of each proposal for a card: on other cases than those that select weights."""
    return {
        name: HeldOut(TARGETS[name](problem), seed=REPORT_SEED).quality(flow).as_json()
        for name, flow in flows.items()
    }
