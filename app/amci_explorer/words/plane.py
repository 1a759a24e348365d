r"""What the amortization map says, in words."""

from __future__ import annotations

__all__ = ["about_map", "about_place"]

from collections.abc import Mapping

import numpy as np

from amci_core.amortization import AmortizationMap
from amci_core.evaluation.cases import of_cases
from amci_explorer.text import number, percent, terms

BOUND = "the SNIS bound (independent draws, one proposal)"


def about_place(found: AmortizationMap, at: tuple[float, float], *, inside: bool) -> str:
    """What the map has nearest to a case; empty where it has not been computed.

    Arguments:
        found: The map.
        at: The case, along both axes.
        inside: Whether the case lies in the plane.
    """
    i = int(np.abs(found.x.values - at[0]).argmin())
    j = int(np.abs(found.y.values - at[1]).argmin())
    variance, ratio = float(found.relative_variance[j, i]), float(found.bound_ratio[j, i])
    if np.isnan(variance):
        return ""
    names = terms(signed=len(found.terms) > 2)
    ess = ", ".join(
        f"{percent(float(share))} for {names[term]}"
        for term, share in zip(found.terms, found.relative_ess[:, j, i], strict=True)
    )
    about = "" if inside else " (its coordinates differ: their mean is marked)"
    bound = f" For many draws {BOUND} is {number(ratio, 1)} times AMCI's error."
    return (
        f"Near your case{about}, the relative variance per draw is about "
        f"<b>{number(variance, 1)}</b> and the relative ESS {ess}, as far as the map's few "
        f"hundred draws show.{'' if np.isnan(ratio) else bound}"
    )


def about_map(found: AmortizationMap, labels: Mapping[str, str]) -> str:
    """The text alternative of a complete map.

    Arguments:
        found: The map.
        labels: What its axes are called.
    """
    variance = found.relative_variance
    j, i = np.unravel_index(int(np.nan_to_num(variance).argmax()), variance.shape)
    first, second = (labels.get(axis.name, axis.name) for axis in (found.x, found.y))
    middle, top = (number(float(v), 2) for v in (np.nanmedian(variance), variance[j, i]))
    at = [number(float(v), 3) for v in (found.x.values[i], found.y.values[j])]
    ratios = found.bound_ratio[~np.isnan(found.bound_ratio)]
    ahead = f" AMCI is below {BOUND} in {np.mean(ratios > 1):.0%} of these." if len(ratios) else ""
    known = of_cases(int((~np.isnan(variance)).sum()), found.cases, "with μ = 0")
    return (
        f"Relative variance per draw over {first} and {second}, {known}. Its "
        f"median is {middle}; it is largest, {top}, at {at[0]} and {at[1]}.{ahead}"
    )
