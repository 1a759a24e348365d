r"""Proposals beside what they should look like, along one coordinate of x."""

from __future__ import annotations

__all__ = ["densities"]

from typing import Any

import holoviews as hv

from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.colours import SHAPES, label
from amci_explorer.numbers.pictures import densities as numbers_of
from amci_explorer.plots.style import axis, frame
from amci_explorer.problems.presets import coordinate_names

# What the proposals should match is an area.
AREAS = ("posterior", "target", "target_minus")
LINES = ("q1", "q1_minus", "q2")


def densities(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    coordinate: int = 0,
    height: int = 340,
    dark: bool = False,
) -> hv.Overlay:
    """The posterior, the target f p(x | y), rescaled, and the proposals at one case.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation, if the problem has one.
        theta: The parameter of f, if the problem has one.
        coordinate: Which coordinate of x is shown, from 0.
        height: Height of the picture in pixels.
        dark: Whether the page is dark.

    Returns:
        A HoloViews overlay.

    Example:
        >>> import amci_core as amci
        >>> problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
        >>> shown = densities(problem, proposals, 1.0, 3.0)
        >>> print(*(each.label for each in shown if isinstance(each, hv.Curve)), sep=", ")
        posterior p(x | y), g ∝ f p(x | y), q₁ learnt, q₂ learnt
    """
    looked = {"coordinate": coordinate} if problem.x.dim > 2 else {}
    found = numbers_of(problem, proposals, y, theta, **looked).along(coordinate)
    x = axis("x", coordinate_names(problem)[coordinate])
    signed = not problem.nonnegative
    parts = []
    for name in (*AREAS, *LINES):
        if name in found:
            called = label(name, signed=signed, variant=proposals.variant)
            kind = hv.Area if name in AREAS else hv.Curve
            element = kind((found["x"], found[name]), x, "density", label=called)
            colour = SHAPES[name].colour(dark)
            looks = (
                {"alpha": 0.25, "line_alpha": 0}
                if name in AREAS
                else {"line_width": 2.5, "line_dash": list(SHAPES[name].dash) or "solid"}
            )
            parts.append(element.opts(color=colour, **looks))
    return hv.Overlay(parts).opts(hv.opts.Overlay(legend_cols=2, **frame(height)))
