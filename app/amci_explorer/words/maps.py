r"""What the maps say in words: of proposals over a plane of cases, of sharing draws."""

from __future__ import annotations

__all__ = ["about_place", "about_reuse"]

import numpy as np

from amci_core.amortization import AmortizationMap
from amci_core.evaluation import ReuseErrors
from amci_explorer.text import number, percent, pretty, table
from amci_explorer.words.curves import about_reference


def about_place(found: AmortizationMap, at: tuple[float, float]) -> str:
    """What the map has nearest to a case, which lies at `at` along both axes."""
    i = int(np.abs(found.x.values - at[0]).argmin())
    j = int(np.abs(found.y.values - at[1]).argmin())
    variance, ratio = float(found.relative_variance[j, i]), float(found.bound_ratio[j, i])
    if np.isnan(variance):
        return "Your case: μ is 0, so there is no relative error."
    signed = len(found.terms) > 2
    ess = ", ".join(
        f"{percent(float(share))} for {pretty(term, signed=signed)}"
        for term, share in zip(found.terms, found.relative_ess[:, j, i], strict=True)
    )
    said = f"Your case: relative variance per draw <b>{number(variance, 1)}</b>, ESS {ess}."
    if not np.isnan(ratio):
        said += f" The best that any one proposal can do is {number(ratio, 1)} times AMCI's error."
    return said


def about_reuse(found: ReuseErrors, alpha: float, beta: float) -> str:
    """The error at (alpha, beta) beside those worth knowing, and the best split of the draws."""
    if np.isnan(found.truth.relative_error):
        return "<p>μ is 0 here, so there is no relative error.</p>"
    points = {
        "yours": (alpha, beta),
        "plain AMCI": (1.0, 0.0),
        "smallest of the map": found.best,
        "α*, β* of the paper": found.paper,
        "u*, the optimum": found.optimum,
    }
    rows = [(name, _pair(*at), _error(found, *at)) for name, at in points.items() if at]
    total, failed = sum(found.counts), int(found.failed.max())
    parts = [f"{_counted(found)}.", about_reference(found.truth)]
    if found.prediction_holds and not found.common:
        without, reused = found.best_splits
        parts.append(f"Best of {total:,} draws: {without:,} from q₁ for AMCI, {reused:,} for u*.")
    if failed:
        parts.append(f"Up to {failed:,} of {found.runs:,} runs have no estimate.")
    text = " ".join(filter(None, parts))
    return f"{table(('estimator', '(α, β)', 'ReMSE'), rows)}<p>{text}</p>"


def _pair(alpha: float, beta: float) -> str:
    return f"({alpha:z.2f}, {beta:z.2f})".replace("-", "−")


def _error(found: ReuseErrors, alpha: float, beta: float) -> str:
    (mean,), (determined,) = found.mean_along([alpha], beta=beta)
    return number(mean, 2) + ("" if determined else ", too few runs to say")


def _counted(found: ReuseErrors) -> str:
    n, m = found.counts
    return f"N = M = {n:,} draws" if n == m else f"N = {n:,} and M = {m:,} draws"
