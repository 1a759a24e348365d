r"""What the amortization map says, in words."""

from __future__ import annotations

__all__ = ["about_place"]

import numpy as np

from amci_core.amortization import AmortizationMap
from amci_explorer.text import number, percent, pretty


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
