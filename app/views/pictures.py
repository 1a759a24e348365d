r"""Which density pictures a problem brings."""

from __future__ import annotations

__all__ = ["DensityPictures", "density_view"]

from collections.abc import Callable
from typing import Any, Protocol

from app.planes import C0_RANGE
from app.store import LineStore, MarginalStore, Store, TumourDensities, TumourStore, x_range
from app.views.course import CourseView
from app.views.densities import DensityView
from app.views.planes import MarginalView, PlaneView

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


class DensityPictures(Protocol):
    """What the page needs of density pictures."""

    panel: Any

    def show(self, found: Any) -> None:
        """Draws new densities."""

    def describe(self, found: Any) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""


class TumourPictures:
    """Creates the plane of the tumour's size and response, and its course below."""

    def __init__(self) -> None:
        self._course = CourseView()
        self._plane = PlaneView(
            labels=("size c₀ at admission", "response ε, per day"),
            x_range=C0_RANGE,
            y_range=(0.0, 1.0),
            has_q2=True,
            help_text=TUMOUR_HELP,
            extra=[self._course.panel],
        )
        self.panel = self._plane.panel

    def show(self, found: TumourDensities) -> None:
        """Draws new densities and courses."""
        self._plane.show(found.plane)
        self._course.show(found.course)

    def describe(self, found: TumourDensities) -> None:
        """Renews the text alternatives; when a control is let go, not while it moves."""
        self._plane.describe(found.plane)
        self._course.describe(found.course)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._plane.recolour(dark)
        self._course.recolour(dark)


def density_view(store: Store, *, looked: Callable[..., None]) -> DensityPictures:
    """Creates the pictures for a store's problem, empty.

    Arguments:
        store: The problem's store.
        looked: Called when the user wants to look at something else of the same case.
    """
    problem = store.problem
    if isinstance(store, LineStore):
        return DensityView(x_range(problem), signed=not problem.nonnegative)
    if isinstance(store, MarginalStore):
        return MarginalView(problem.x.dim, changed=looked)
    if isinstance(store, TumourStore):
        return TumourPictures()
    return PlaneView(
        labels=("x₁", "x₂"),
        x_range=(0.0, 1.0),
        y_range=(0.0, 1.0),
        has_q2=False,
        help_text=PEAK_HELP,
    )
