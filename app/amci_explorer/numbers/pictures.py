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
from amci_explorer.numbers import Densities, Look
from amci_explorer.numbers.draws import drawn_densities
from amci_explorer.numbers.line import line_densities
from amci_explorer.numbers.marginal import tail_densities
from amci_explorer.numbers.plane import peak_densities, plane_densities
from amci_explorer.numbers.tumour import tumour_densities
from amci_explorer.problems.presets import coordinate_names

# Every posterior and every g that the sliders reach lies in here: the axis rests while they move.
TAIL_EXTENT, GAIN_LOSS_EXTENT = (-5.0, 7.5), (-6.0, 5.5)


@dataclass(frozen=True)
class Picture:
    """How a problem's densities are shown.

    Arguments:
        numbers: Gives the densities, of (problem, proposals, y, theta, look).
        help: Name of the text that says how to read the picture.
        extent: Ends of the axis of a line; None to follow the densities.
    """

    numbers: Callable[..., Densities]
    help: str
    extent: tuple[float, float] | None = None


def densities(
    problem: Problem, proposals: Proposals, y: Any = None, theta: Any = None, **looked: Any
) -> Densities:
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
    general = {1: Picture(line_densities, "line"), 2: Picture(plane_densities, "plane")}
    return general.get(problem.x.dim, Picture(drawn_densities, "draws"))


@picture_of.register
def _(problem: GaussianTail) -> Picture:
    known = {
        1: Picture(line_densities, "tail-line", TAIL_EXTENT),
        2: Picture(plane_densities, "plane"),
    }
    return known.get(problem.x.dim, Picture(tail_densities, "tail"))


@picture_of.register
def _(_: GainLoss) -> Picture:
    return Picture(line_densities, "gain-loss", GAIN_LOSS_EXTENT)


@picture_of.register
def _(_: ProductPeak) -> Picture:
    return Picture(peak_densities, "peak")


@picture_of.register
def _(_: TumourTreatment) -> Picture:
    return Picture(tumour_densities, "tumour")
