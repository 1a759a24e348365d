r"""The registry of density pictures: a problem, its numbers and what the picture says of it.

A problem of one's own has the general picture for the dimension of x. One with a picture of its
own is one file in `app/numbers` and one function here.
"""

from __future__ import annotations

__all__ = ["Picture", "densities", "picture"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from typing import Any

import torch

from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_core.models.cancer import TumourTreatment
from amci_core.models.gain_loss import GainLoss
from amci_core.models.peak import ProductPeak
from amci_core.models.tail import GaussianTail
from app.numbers import Numbers, Settings
from app.numbers.draws import drawn_densities
from app.numbers.line import line_densities
from app.numbers.marginal import tail_densities
from app.numbers.plane import peak_densities, plane_densities
from app.numbers.tumour import tumour_densities
from app.presets import coordinate_names
from app.views.densities import DensityView
from app.views.planes import MarginalView, PlaneView

# Every posterior and every g that the sliders reach lies in here: the axis rests while they move.
TAIL_EXTENT, GAIN_LOSS_EXTENT = (-5.0, 7.5), (-6.0, 5.5)

TAIL_HELP = (
    "AMCI draws from two proposals. q₂ should look like the posterior; q₁ like g, "
    "the posterior where f is not zero, here above the threshold θ. The lower "
    "picture shows how far q₁ is from g: at 0 they agree, ±0.1 is ten per cent. It "
    "matters within the shaded part, which carries 99 % of g."
)
SIGNED_HELP = (
    "f takes both signs, so AMCI draws from three proposals. q₂ should look like the posterior; "
    "q₁⁺ like g⁺, the posterior times the gain, and q₁⁻ like g⁻, the posterior times the loss. "
    "The lower picture shows how far each is from its g: at 0 they agree, ±0.1 is ten per cent. "
    "The shaded part carries 99 % of g⁺."
)
PEAK_HELP = (
    "AMCI draws from q₁, which should look like g, the peak. The areas are what is wanted, the "
    "lines what was learnt, at the same levels: where they agree, lines follow the edges of "
    "areas. Nothing is observed and E₂ = 1 is known, so there is no q₂; the second picture is a "
    "close-up of the peak."
)
TUMOUR_HELP = (
    "AMCI draws from two proposals. q₂ should look like the posterior of the tumour's size c₀ "
    "and response ε; q₁ like g, the posterior times the success that follows from both. The "
    "areas are what is wanted, the lines what was learnt, at the same levels. Below is the "
    "tumour's size over the days as the two measurements leave it: a few draws from the "
    "posterior, their median, and the middle 90 %."
)
MARGINAL_HELP = (
    "x has more coordinates than a picture can show, so you see one of them, and a pair. q₂ "
    "should look like the posterior; q₁ like g, which lives where every coordinate is above its "
    "threshold θ; the shaded part carries 99 % of it. In the planes the areas are what is wanted, "
    "the lines what was learnt, at the same levels: where they agree, lines follow edges."
)
LINE_HELP = (
    "q₂ should look like the posterior, and q₁ like g, the posterior times |f|; where f takes "
    "both signs each has a q₁ of its own. The lower picture shows how far q₁ is from g: at 0 they "
    "agree, ±0.1 is ten per cent. It matters within the shaded part, which carries 99 % of g."
)
PLANE_HELP = (
    "q₂ should look like the posterior, and q₁ like g, the posterior times |f|; where f takes "
    "both signs each has a q₁ of its own. The areas are what is wanted, the lines what was "
    "learnt, at the same levels: where they agree, lines follow the edges of areas."
)
DRAWN_HELP = (
    "x has more coordinates than a picture can show, so you see one of them, and a pair. q₂ "
    "should look like the posterior, and q₁ like g, the posterior times |f|. All of them are seen "
    "through the same draws, of all proposals and of a broad reference, weighted to each: few "
    "effective draws show little. In the planes the areas are what is wanted, the lines what was "
    "learnt, at the same levels."
)


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
    numbers: Callable[..., Any]
    help_text: str
    settings: Settings


def densities(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    coordinate: int = 0,
    pair: tuple[int, int] = (0, 1),
) -> Numbers:
    """What proposals look like beside what they should be, as numbers.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: The observation, as `Problem.check` takes it.
        theta: Likewise.
        coordinate: The coordinate to look at where x has many, from 0 on.
        pair: The pair of coordinates to look at there.

    Raises:
        ValueError: y or theta is out of range, or a method of the problem gives what does not fit.
    """
    chosen = picture(problem)
    settings = replace(chosen.settings, coordinate=coordinate, pair=pair)
    with torch.inference_mode():
        found: Numbers = chosen.numbers(problem, proposals, *problem.check(y, theta), settings)
    return found


@cache
def picture(problem: Problem) -> Picture:
    """How this problem's densities are shown."""
    return _picture(problem)


@singledispatch
def _picture(problem: Problem) -> Picture:
    names = Settings(coordinate_names(problem))
    if problem.x.dim == 1:
        return Picture(DensityView, line_densities, LINE_HELP, names)
    if problem.x.dim == 2:
        return Picture(PlaneView, plane_densities, PLANE_HELP, names)
    return Picture(MarginalView, drawn_densities, DRAWN_HELP, names)


@_picture.register
def _(problem: GaussianTail) -> Picture:
    names = coordinate_names(problem)
    if problem.x.dim == 1:
        return Picture(DensityView, line_densities, TAIL_HELP, Settings(names, extent=TAIL_EXTENT))
    if problem.x.dim == 2:
        return Picture(PlaneView, plane_densities, PLANE_HELP, Settings(names))
    return Picture(MarginalView, tail_densities, MARGINAL_HELP, Settings(names))


@_picture.register
def _(problem: GainLoss) -> Picture:
    settings = Settings(coordinate_names(problem), extent=GAIN_LOSS_EXTENT)
    return Picture(DensityView, line_densities, SIGNED_HELP, settings)


@_picture.register
def _(problem: ProductPeak) -> Picture:
    return Picture(PlaneView, peak_densities, PEAK_HELP, Settings(coordinate_names(problem)))


@_picture.register
def _(problem: TumourTreatment) -> Picture:
    return Picture(PlaneView, tumour_densities, TUMOUR_HELP, Settings(coordinate_names(problem)))
