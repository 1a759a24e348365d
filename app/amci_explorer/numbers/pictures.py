r"""The registry of density pictures: which numbers show a problem's densities, and how.

Your own problem has the general picture for the dimension of x. A problem with a picture of its
own is one file in `numbers` and one function here.
"""

from __future__ import annotations

__all__ = ["Picture", "densities", "picture_of"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import torch

from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.cancer import TumourTreatment
from amci_core.models.gain_loss import GainLoss
from amci_core.models.peak import ProductPeak
from amci_core.models.tail import GaussianTail
from amci_explorer.numbers import Look
from amci_explorer.numbers.line import LineDensities, line_densities
from amci_explorer.numbers.marginals import MarginalDensities, marginal_densities
from amci_explorer.numbers.plane import PlaneDensities, plane_densities
from amci_explorer.numbers.tumour import tumour_densities
from amci_explorer.problems.presets import coordinate_names


@dataclass(frozen=True)
class Picture:
    """How a problem's densities are shown.

    Arguments:
        numbers: Gives the densities, of (problem, proposals, y, theta, look).
        help: Name of the text that says how to read the picture.
        extent: Ends of the axis of a line; None to follow the densities.
    """

    numbers: Callable[..., Any]
    help: str
    extent: tuple[float, float] | None = None


LINE, PLANE = Picture(line_densities, "line"), Picture(plane_densities, "plane")
DRAWS = Picture(marginal_densities, "draws")


def densities(
    problem: Problem, proposals: Proposals, y: Any = None, theta: Any = None, **looked: Any
) -> LineDensities | MarginalDensities | PlaneDensities:
    """Proposals beside what they should be, as numbers.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation, as `Problem.check` takes it.
        theta: The parameter of f, as `Problem.check` takes it.
        looked: The coordinate and the pair to show if x has many, see `Look`.

    Raises:
        ValueError: y or theta is out of range, or a method of the problem gives what does not fit.
    """
    chosen = picture_of(problem)
    look = replace(Look(coordinate_names(problem), extent=chosen.extent), **looked)
    with torch.inference_mode():
        return chosen.numbers(problem, proposals, *problem.check(y, theta), look)


@singledispatch
def picture_of(problem: Problem) -> Picture:
    """How this problem's densities are shown."""
    return {1: LINE, 2: PLANE}.get(problem.x.dim, DRAWS)


# Every posterior and every g that the sliders reach lies in here: the axis rests while they move.
@picture_of.register
def _(problem: GaussianTail) -> Picture:
    known = {1: replace(LINE, help="tail-line", extent=(-5.0, 7.5)), 2: PLANE}
    return known.get(problem.x.dim, replace(DRAWS, help="tail"))


@picture_of.register
def _(_: GainLoss) -> Picture:
    return replace(LINE, help="gain-loss", extent=(-6.0, 5.5))


@picture_of.register
def _(_: ProductPeak) -> Picture:
    return replace(PLANE, help="peak")


@picture_of.register
def _(_: TumourTreatment) -> Picture:
    return Picture(tumour_densities, "tumour")
