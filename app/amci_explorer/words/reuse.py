r"""What sharing draws does, in words."""

from __future__ import annotations

__all__ = ["about_map", "about_reuse", "best_splits", "counted"]

import numpy as np

from amci_core.evaluation import ReuseErrors
from amci_explorer.text import number
from amci_explorer.words.curves import about_reference


def about_reuse(found: ReuseErrors, alpha: float, beta: float) -> str:
    """The error at (alpha, beta), beside it those worth knowing, and the best split of draws."""
    if np.isnan(found.truth.relative_error):
        return "μ is 0 here, so the relative error is undefined."

    def error(a: float, b: float) -> str:
        (mean,), (settled,) = found.mean_along([a], beta=b)
        return number(mean, 2) + ("" if settled else " (not determined by the runs)")

    def at(pair: tuple[float, float]) -> str:
        return f"({pair[0]:.3f}, {pair[1]:.3f}): {error(*pair)}"

    total, failed = sum(found.counts), int(found.failed.max())
    best = [f"{n:,} for {name}" for name, n in best_splits(found).items()]
    parts = (
        f"With {counted(found)}, the ReMSE at your (α, β) = ({alpha:.2f}, {beta:.2f}) is "
        f"<b>{error(alpha, beta)}</b>. Plain AMCI has {error(1.0, 0.0)}. {_least(found)} "
        f"The paper's (α*, β*) = {at(found.paper)}. The first-order optimum by the full "
        f"covariance, u* = {at(found.optimum)}.",
        about_reference(found.truth),
        f"Estimates failed in up to {failed:,} of {found.runs:,} runs." if failed else "",
        f"The best number of draws from q₁ of {total:,}: {', '.join(best)}." if best else "",
    )
    return " ".join(filter(None, parts))


def _least(found: ReuseErrors) -> str:
    if found.best is None:
        return "No cell of this map has an error below 1 that these runs determine."
    least = number(float(found.remse[found.determined].min()), 2)
    return f"The map's smallest is {least}, at ({found.best[0]:.2f}, {found.best[1]:.2f})."


def counted(found: ReuseErrors) -> str:
    """How many draws each proposal gets."""
    n, m = found.counts
    return f"N = M = {n:,} draws" if n == m else f"N = {n:,} and M = {m:,} draws"


def about_map(found: ReuseErrors) -> str:
    """The text alternative of the complete map."""
    return f"Relative error over alpha and beta, {counted(found)}. {_least(found)}"


def best_splits(found: ReuseErrors) -> dict[str, int]:
    """How many draws q1 should get, where that can be chosen, by what combines them."""
    if found.common or not found.prediction_holds:
        return {}
    return dict(zip(("AMCI", "u*"), found.best_splits, strict=True))
