r"""The registry of density pictures: a problem, its numbers and what the picture says of it.

A problem of one's own has the general picture for the dimension of x. One with a picture of its
own is one file in `numbers` and one function here.
"""

from __future__ import annotations

__all__ = ["Picture", "densities", "picture"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, singledispatch
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
from amci_explorer.views.densities import DensityView
from amci_explorer.views.planes import MarginalView, PlaneView
from amci_explorer.words import HELP

# Every posterior and every g that the sliders reach lies in here: the axis rests while they move.
TAIL_EXTENT, GAIN_LOSS_EXTENT = (-5.0, 7.5), (-6.0, 5.5)

# By the dimension of x; the last for all others.
VIEWS = {1: DensityView, 2: PlaneView}


@dataclass(frozen=True)
class Picture:
    """How a problem's densities are shown.

    Arguments:
        view: The class of its view, of which a page keeps one for all problems: it is `open`ed for
            a problem.
        numbers: Gives what it shows, of (problem, proposals, y, theta, settings).
        help_text: How to read it.
        settings: The names of coordinates, and what is looked at unless another is chosen.
    """

    view: Callable[[], Any]
    numbers: Callable[..., Densities]
    help_text: str
    settings: Look


def densities(
    problem: Problem, proposals: Proposals, y: Any = None, theta: Any = None, **looked: Any
) -> Densities:
    """What proposals look like beside what they should be, as numbers.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation, as `Problem.check` takes it.
        theta: Likewise.
        looked: The coordinate, and the pair, to look at where x has many: see `Look`.

    Raises:
        ValueError: y or theta is out of range, or a method of the problem gives what does not fit.
    """
    chosen = picture(problem)
    settings = replace(chosen.settings, **looked)
    with torch.inference_mode():
        return chosen.numbers(problem, proposals, *problem.check(y, theta), settings)


@lru_cache(128)
def picture(problem: Problem) -> Picture:
    """How this problem's densities are shown."""
    numbers, name, *extent = _registered(problem)
    view = VIEWS.get(problem.x.dim, MarginalView)
    settings = Look(coordinate_names(problem), extent=extent[0] if extent else None)
    return Picture(view, numbers, HELP[name], settings)


@singledispatch
def _registered(problem: Problem) -> tuple[Any, ...]:
    """What gives the numbers, the name of its help, and the ends of an axis that always rests."""
    general = {1: (line_densities, "line"), 2: (plane_densities, "plane")}
    return general.get(problem.x.dim, (drawn_densities, "draws"))


@_registered.register
def _(problem: GaussianTail) -> tuple[Any, ...]:
    known = {1: (line_densities, "tail-line", TAIL_EXTENT), 2: (plane_densities, "plane")}
    return known.get(problem.x.dim, (tail_densities, "tail"))


@_registered.register
def _(_: GainLoss) -> tuple[Any, ...]:
    return line_densities, "gain-loss", GAIN_LOSS_EXTENT


@_registered.register
def _(_: ProductPeak) -> tuple[Any, ...]:
    return peak_densities, "peak"


@_registered.register
def _(_: TumourTreatment) -> tuple[Any, ...]:
    return tumour_densities, "tumour"
