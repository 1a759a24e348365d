r"""What the amortization map says, in words."""

from __future__ import annotations

__all__ = ["about_layer", "about_map", "about_place"]

from collections.abc import Mapping

import numpy as np

from amci_core.amortization import AmortizationMap
from amci_core.estimators.draws import Array
from amci_explorer.text import figure, number, percent, terms

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
    variance, ratio = found.relative_variance[j, i], found.bound_ratio[j, i]
    if np.isnan(variance):
        return ""
    names = terms(signed=len(found.terms) > 2)
    worth = [
        f"for {names[term]} is worth {_percent(float(share))}"
        for term, share in zip(found.terms, found.relative_ess[:, j, i], strict=True)
    ]
    about = "" if inside else " (its coordinates differ: their mean is marked)"
    return (
        f"Near your case{about}, the relative variance per draw is about "
        f"<b>{_rough(float(variance))}</b>, as far as the map's few hundred draws show. A draw "
        f"{', one '.join(worth)} of an ideal draw.{_won(float(ratio))}"
    )


def _won(ratio: float) -> str:
    """How AMCI compares with the SNIS bound; nothing where the problem does not know that."""
    if np.isnan(ratio):
        return ""
    if ratio >= 1:
        return f" For many draws, {BOUND} is {_rough(ratio)} times AMCI's error."
    return f" For many draws, AMCI's error is {_rough(1 / ratio)} times {BOUND}."


def _rough(value: float) -> str:
    """A number to the digits that a few hundred draws give: one, and two from 1 to 10."""
    return number(value, 2 if 1 <= value < 10 else 1)


def about_map(found: AmortizationMap, labels: Mapping[str, str]) -> str:
    """The text alternative of a complete map.

    Arguments:
        found: The map.
        labels: What its axes are called.
    """
    variance = found.relative_variance
    j, i = np.unravel_index(int(np.nan_to_num(variance).argmax()), variance.shape)
    first, second = (labels.get(axis.name, axis.name) for axis in (found.x, found.y))
    middle, top = (figure(float(v)) for v in (np.nanmedian(variance), variance[j, i]))
    at = [number(float(v), 3) for v in (found.x.values[i], found.y.values[j])]
    ahead = (
        ""
        if np.isnan(found.bound_ratio).all()
        else f" AMCI is below {BOUND} in {np.mean(found.bound_ratio > 1):.0%} of the cases."
    )
    return (
        f"Relative variance per draw over {first} and {second}, {found.cases:,} cases. Its "
        f"median is {middle}; it is largest, {top}, at {at[0]} and {at[1]}.{ahead}"
    )


def about_layer(name: str, values: Array) -> str:
    """What the colours of a map show, in words."""
    known = values[np.isfinite(values)]
    if not known.size:
        return f"Its colours show: {name}, not known."
    low, middle, high = (number(float(v), 2) for v in np.quantile(known, [0, 0.5, 1]))
    return f"Its colours show: {name}, from {low} to {high}, median {middle}."


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else percent(share)
