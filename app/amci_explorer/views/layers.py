r"""What the amortization map can show: quantities, and the colours they are drawn in."""

from __future__ import annotations

__all__ = ["Layer", "layer_of"]

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from bokeh.palettes import Cividis256, interp_palette

from amci_core.amortization import AmortizationMap
from amci_core.estimators.draws import Array
from amci_explorer.plots.colours import ESTIMATORS

# What lies beyond is drawn in the last colour; hover and file give it all the same.
LOWEST, HIGHEST = -12.0, 4.0
RATIO = 8.0
WON = tuple(
    interp_palette([ESTIMATORS["snis-q2"].light, "#f2f2f2", ESTIMATORS["amci"].light], 255)
)


@dataclass(frozen=True)
class Layer:
    """One quantity that the map can show.

    Arguments:
        title: Its name at the colour bar.
        values: Takes it from a map, (m, n).
        logarithmic: Whether colours follow its logarithm.
        ends: What the first and the last colour stand for, at most.
        palette: Its colours.
        fixed: Whether the colours always span all of `ends`.
    """

    title: str
    values: Callable[[AmortizationMap], Array]
    logarithmic: bool
    ends: tuple[float, float]
    palette: tuple[str, ...]
    fixed: bool = True

    def shown(self, found: AmortizationMap) -> Array:
        """What is coloured: the values or their logarithms, within the ends."""
        values = self.values(found)
        if self.logarithmic:
            with np.errstate(divide="ignore"):
                values = np.log10(values)
        return np.clip(values, *self.ends)


def layer_of(name: str) -> Layer:
    """The layer of a name that `amci_explorer.state.fields.layers` gives."""
    kind, _, term = name.partition("-")
    if kind == "effective":
        values = partial(_of_term, "relative_ess", term)
        return Layer("ESS / draw", values, False, (0.0, 1.0), Cividis256)
    if kind == "pareto":
        values = partial(_of_term, "pareto_k", term)
        return Layer("k̂", values, False, (-0.5, 1.0), Cividis256[::-1])
    if kind == "bound":
        return Layer("log₁₀", lambda m: m.bound_ratio, True, (-RATIO, RATIO), WON)
    ends = (LOWEST, HIGHEST)
    return Layer("log₁₀", lambda m: m.relative_variance, True, ends, Cividis256[::-1], False)


def _of_term(field: str, term: str, found: AmortizationMap) -> Array:
    """A field (T, m, n) of a map for one of its terms."""
    values: Array = getattr(found, field)[list(found.terms).index(term)]
    return values
