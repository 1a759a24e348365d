r"""The card of errors against draws: named lines, and a handle for the number of draws."""

from __future__ import annotations

__all__ = ["ErrorCard"]

import math
from dataclasses import replace
from typing import Any, ClassVar

import panel_material_ui as pmui
import param

from amci_core.evaluation import ErrorCurves
from amci_explorer.compute.computations import TOTALS
from amci_explorer.compute.requests import Request
from amci_explorer.plots.errors import ErrorPicture
from amci_explorer.plots.style import describe
from amci_explorer.problems import registry
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.views.bound import bound, tie
from amci_explorer.views.card import Card
from amci_explorer.views.figures import dress, pane
from amci_explorer.views.layout import HTML, NOTE, hide, row
from amci_explorer.views.slider import Grip
from amci_explorer.words.curves import about_curves, outside

DRAWS: Any = Case.param["draws"]
HEIGHT = ":host { height: var(--first) !important; flex-basis: var(--first) !important; }"
# The handle stands on the axis, above its numbers.
ON_AXIS = ".thumb { bottom: 44px; }"
SMALL = """
.MuiFormControlLabel-root { margin-right: 0 !important; }
.MuiFormControlLabel-label { font-size: var(--small) !important; }
"""
UNNAMED = """
label { clip-path: inset(50%); width: 1px; overflow: hidden; white-space: nowrap; }
.bk-input-group { padding: 0 !important; }
select.bk-input { height: 30px !important; padding: 2px 10px !important; }
"""


class ErrorCard(Card):
    """The error of each estimator against the number of draws."""

    name = param.String("errors")
    drawn: ClassVar[tuple[str, ...]] = ("measure", "spread", "every", "draws")
    live = True
    compares = True

    def content(self) -> list[Any]:
        self._picture = ErrorPicture(theme=self.theme)
        self.figure = self._picture.figure
        dress(self.figure, self.name)
        self.figure.stylesheets = [*self.figure.stylesheets, HEIGHT]
        self.figure.on_event("tap", callback(lambda event: self._go(event.x)))
        self.figure.on_change("inner_height", self._resized)
        looks = {"label": "Number of draws", "text": "{} draws", "stylesheets": [ON_AXIS]}
        self.handle = Grip(figure=self.name, **looks)
        self.handle.on_move(self._dragged)
        self.note = HTML("", NOTE)
        self._more = row(self._box("spread", "spread of runs"), self._box("sobol", "Sobol points"))
        return [pane(self.figure), self.handle, self.note, self._more]

    def tools(self) -> list[Any]:
        looks: dict[str, Any] = {"width": 92, "sizing_mode": None, "margin": 0}
        measures = bound(self.state, "measure", "Measure of the error", listed=True, **looks)
        measures.stylesheets = [*measures.stylesheets, UNNAMED]
        return [self._box("every", "all estimators"), measures]

    def asked(self, case: Case) -> Request:
        settings = case.settings
        # Every request has these numbers of draws.
        if settings.draws * self._proposals in TOTALS:
            settings = replace(settings, draws=DRAWS.default)
        return Request("error_curves", settings, (("sobol", case.sobol),))

    def fraction(self, found: ErrorCurves) -> float:
        return found.progress

    def clear(self) -> None:
        self._picture.clear()
        self.note.object = ""
        describe(self.figure, "Relative error: not measured yet.")

    def redraw(self) -> None:
        n, total = self._proposals, self._proposals * self.state.draws
        each = {max(round(total / n), 2) for total in TOTALS} | {DRAWS.default}
        stops = sorted({total, *(n * draws for draws in each if draws <= DRAWS.bounds[1])})
        self.handle.follow(total, stops=stops, start=stops[0], end=stops[-1])
        hide(self._more, not self.state.every)
        super().redraw()

    def draw(self, found: ErrorCurves, *, complete: bool) -> None:
        total = self._proposals * self.state.draws
        shown = self._show(found, total, complete)
        self.note.object = f"<p>{outside(found, shown)}</p>"
        describe(self.figure, about_curves(found, total, self._proposals))

    @property
    def _proposals(self) -> int:
        """How many proposals share the draws."""
        return len(registry.terms(self.state.problem.name))

    def _show(self, found: ErrorCurves, total: int, complete: bool) -> tuple[str, ...]:
        return self._picture.show(
            found,
            total,
            measure=self.state.measure,
            every=self.state.every,
            spread=self.state.spread,
            reference=None if self.reference is None else self.reference.value,
            proposals=self._proposals,
            complete=complete,
        )

    def _resized(self, attr: str, old: Any, new: float) -> None:
        """Keeps names apart: by how many pixels is known to the page alone."""
        self._picture.inner_height = new
        callback(self.redraw)()

    def _dragged(self, done: bool) -> None:
        """Names the values where the handle is; goes there when it is let go."""
        if done:
            self._go(self.handle.value)
        elif self.shown is not None:
            self._show(self.shown.value, int(self.handle.value), self.shown.complete)

    def _go(self, total: float) -> None:
        """Goes to the number of draws that is nearest, of those that there are."""
        near = min(self.handle.stops, key=lambda stop: abs(math.log(stop / max(total, 1))))
        draws = near // self._proposals
        if draws != self.state.draws:
            self.state.set(draws=draws)
            self.state.commit()

    def _box(self, name: str, label: str) -> pmui.Checkbox:
        looks: dict[str, Any] = {"size": "small", "margin": (0, 12, 0, 0), "stylesheets": [SMALL]}
        return tie(self.state, name, pmui.Checkbox(label=label, **looks))
