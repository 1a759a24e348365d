r"""What sharing draws does, in words."""

from __future__ import annotations

__all__ = ["about_cut", "about_map", "about_reuse", "about_split", "best_splits", "counted"]

import numpy as np

from amci_core.evaluation import ReuseErrors
from amci_explorer.text import number
from amci_explorer.words.curves import about_reference

# Whose best split is shown.
SHARERS = ("AMCI", "u*")


def about_reuse(found: ReuseErrors, alpha: float, beta: float) -> str:
    """The error at (alpha, beta), and beside it those worth knowing."""
    if np.isnan(found.truth.relative_error):
        return "μ is 0 here, so the relative error is undefined."

    def error(a: float, b: float) -> str:
        (mean,), (settled,) = found.mean_along([a], beta=b)
        return number(mean, 2) + ("" if settled else " (not determined by the runs)")

    def both(at: tuple[float, float]) -> str:
        there = f"({at[0]:.3f}, {at[1]:.3f}): {error(*at)}"
        predicted = found.predicted(*at)
        told = number(predicted, 2) if found.prediction_holds else "not judged"
        return there if found.common else f"{there}, predicted {told}"

    failed, reference = int(found.failed.max()), about_reference(found.truth)
    return (
        f"With {counted(found)}: at your (α, β) = ({alpha:.2f}, {beta:.2f}) the ReMSE is "
        f"<b>{error(alpha, beta)}</b>. Plain AMCI has {error(1.0, 0.0)}; {_least(found)[1]} "
        f"The paper's formula, (α*, β*) = {both(found.paper)}. "
        f"The first-order optimum by the full covariance, u* = {both(found.optimum)}."
        + (f" {reference}" if reference else "")
        + (f" Estimates failed in up to {failed:,} of {found.runs:,} runs." if failed else "")
    )


def _least(found: ReuseErrors) -> tuple[str, str]:
    """Where the map's error is least, in words for a picture and within a sentence."""
    if found.best is None:
        none = "no cell of this map has an error below 1 that these runs determine."
        return f"{none[0].upper()}{none[1:]}", none
    alpha, beta = found.best
    least = number(float(found.remse[found.determined].min()), 2)
    return (
        f"It is smallest at alpha {alpha:.2f}, beta {beta:.2f}, with {least}.",
        f"the smallest on this map is {least}, at ({alpha:.2f}, {beta:.2f}).",
    )


def counted(found: ReuseErrors) -> str:
    """How many draws each proposal gets."""
    n, m = found.counts
    return f"N = M = {n:,} draws" if n == m else f"N = {n:,} and M = {m:,} draws"


def about_map(found: ReuseErrors) -> str:
    """The text alternative of the complete map."""
    return f"Relative error over alpha and beta, {counted(found)}. {_least(found)[0]}"


def about_cut(found: ReuseErrors, beta: float) -> str:
    """The text alternative of the map's cut at a beta."""
    _, median, _ = found.quartiles_along(found.alphas, beta=beta)
    best = int(np.nanargmin(median)) if np.isfinite(median).any() else None
    least = (
        ""
        if best is None
        else f" Its median is least, {number(float(median[best]), 2)}, at alpha "
        f"{float(found.alphas[best]):.2f}."
    )
    return f"Relative error along alpha at beta {beta:.2f}, {counted(found)}.{least}"


def best_splits(found: ReuseErrors) -> dict[str, int]:
    """How many draws q1 should get, where that can be chosen, by what combines them."""
    if found.common or not found.prediction_holds:
        return {}
    return dict(zip(SHARERS, (found.best_split_alone, found.best_split), strict=True))


def about_split(found: ReuseErrors) -> str:
    """How the draws are best split between the proposals."""
    total = sum(found.counts)
    if found.common:
        return "Common random numbers come in pairs: as many draws from q₁ as from q₂."
    if not found.prediction_holds:
        return (
            "The best split is not judged: the error predicted for AMCI disagrees with that of "
            "the runs. Increase runs."
        )
    alone, shared = found.best_split_alone, found.best_split
    at_best = found.predicted(1.0, 0.0, counts=(alone, total - alone))
    return (
        f"Without sharing, AMCI is best with {alone:,} of {total:,} draws from q₁ "
        f"({100 * alone / total:.0f} %): predicted ReMSE {number(at_best, 2)}, against "
        f"{number(found.predicted(1.0, 0.0), 2)} with this split. With the optimal shares, the "
        f"best is {shared:,} ({100 * shared / total:.0f} %)."
    )
