r"""The estimator that shares samples where that can be trusted, and says why or why not."""

from __future__ import annotations

__all__ = ["Automatic", "estimator_of"]

from typing import NamedTuple

import numpy as np

from amci_core.diagnostics import pareto_k, pareto_threshold
from amci_core.estimation.result import Sharing
from amci_core.estimators import ESTIMATORS, PROPOSALS, estimator, tables
from amci_core.estimators.combine import Counts
from amci_core.estimators.draws import Array, Draws
from amci_core.estimators.named import Adaptive, Estimator, Prepared

AUTO, REUSE = "auto", "reuse"
SHARED = "reuse-optimal: the weights of E2 on the draws for E1 have tails that can be judged"


class Automatic(Adaptive):
    """The optimal table where q1's draws can carry E2, else AMCI.

    A share of E2 from q1 rests on the weights w = p(x, y) / q1 at q1's draws. Where q1 misses part
    of the posterior, as it does wherever it fits f p(x, y) well and f is zero somewhere, they have
    no variance that draws could tell; their Pareto k-hat shows where that is so.
    """

    def __init__(self) -> None:
        super().__init__(tables.amci(), tables.optimum, controlled=True)

    def _prepared(self, draws: Draws, counts: Counts) -> Prepared:
        shared = super()._prepared(draws, counts)
        if shared.table.ndim == 2:
            return shared
        allowed = self._allowed(draws)
        plain = tables.amci() * np.isin(np.arange(3), draws.present)[:, None]
        if not draws.signed:
            plain[1, 1] = 0
        return shared._replace(table=np.where(allowed[..., None, None, None], shared.table, plain))

    def sharing(self, prepared: Prepared) -> Sharing:
        """What was decided for these draws, and why."""
        draws = prepared.draws
        shape = draws.of(draws.present[0]).log_joint.shape[:-1]
        if len(draws.present) < 2:
            return Sharing(np.zeros(shape, bool), ("one proposal",))
        judged = [_Carrier.of(draws, j) for j in draws.present if j != 2]
        allowed = np.logical_and.reduce([carrier.allowed for carrier in judged])
        reasons = []
        for place in np.ndindex(shape):
            against = (carrier.against(place) for carrier in judged)
            reasons.append(next((f"amci: {why}" for why in against if why), SHARED))
        return Sharing(allowed, tuple(reasons))

    @staticmethod
    def _allowed(draws: Draws) -> np.ndarray:
        return np.logical_and.reduce(
            [_Carrier.of(draws, j).allowed for j in draws.present if j != 2]
        )


class _Carrier(NamedTuple):
    """Whether a proposal for E1 can carry E2, for a batch (*): its k-hat, and what it misses."""

    name: str
    draws: int
    k: Array
    misses: np.ndarray

    @classmethod
    def of(cls, draws: Draws, j: int) -> _Carrier:
        tails = pareto_k(_scaled(draws.log_weight(j)))
        return cls(PROPOSALS[j], draws.of(j).n, tails, _misses(draws, j))

    @property
    def allowed(self) -> np.ndarray:
        return (self.k < pareto_threshold(self.draws)) & ~self.misses

    def against(self, place: tuple[int, ...]) -> str:
        """What speaks against it in one case, in words; empty where nothing does."""
        k, limit = float(self.k[place]), float(pareto_threshold(self.draws))
        if self.misses[place]:
            return f"{self.name} misses part of the posterior, so that it cannot carry E2"
        if np.isnan(k):
            return f"{self.draws} draws are too few to tell whether {self.name} can carry E2"
        if not k < limit:
            return f"w on {self.name} has k-hat {k:.2f}, not below {limit:.2f}: it cannot carry E2"
        return ""


def estimator_of(
    chosen: str | Array | Estimator, *, alpha: float | None = None, beta: float | None = None
) -> Estimator:
    """The estimator that is asked for; `auto` and `reuse` beside those of `ESTIMATORS`.

    Raises:
        ValueError: there is no such estimator, or alpha and beta do not go with it.
    """
    if isinstance(chosen, str) and chosen == REUSE:
        if alpha is None or beta is None:
            raise ValueError(
                f"estimator: reuse needs alpha and beta, got alpha {alpha!r} and beta {beta!r}"
            )
        return estimator(tables.reuse(alpha, beta))
    if alpha is not None or beta is not None:
        raise ValueError(f"alpha, beta: they go with estimator reuse alone, got {chosen!r}")
    if isinstance(chosen, str) and chosen == AUTO:
        return Automatic()
    if isinstance(chosen, str) and chosen not in ESTIMATORS:
        known = ", ".join([*ESTIMATORS, REUSE, AUTO])
        raise ValueError(f"estimator: expected a table or one of {known}, got {chosen!r}")
    return estimator(chosen)


def _misses(draws: Draws, j: int) -> np.ndarray:
    """Whether another proposal's draws show mass of p(x, y) where q_j has none, (*)."""
    others = [draws.of(k) for k in draws.present if k != j]
    return np.logical_or.reduce(
        [((p.log_q_of(j) == -np.inf) & (p.log_joint > -np.inf)).any(axis=-1) for p in others]
    )


def _scaled(log_w: Array) -> Array:
    largest = log_w.max(axis=-1, keepdims=True)
    return np.exp(log_w - np.where(np.isfinite(largest), largest, 0.0))
