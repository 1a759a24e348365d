r"""The dashboard's own pictures in a notebook, each with the sliders that it needs."""

from __future__ import annotations

__all__ = ["DensityPicture", "diagnosis_picture", "error_picture"]

from collections.abc import Sequence
from typing import Any

import numpy as np
import panel as pn

from amci_core.evaluation import ErrorCurves
from amci_core.flows import Proposals
from amci_explorer.compute.results import Result, Results
from amci_explorer.compute.store import store_of
from amci_explorer.numbers.pictures import densities
from amci_explorer.plots.colours import ESTIMATORS
from amci_explorer.problems import registry
from amci_explorer.state.state import State
from amci_explorer.views.bound import CaseControls
from amci_explorer.views.diagnostics import DiagnosticsCard
from amci_explorer.views.errors import ErrorCard
from amci_explorer.views.figures import pane
from amci_explorer.views.layout import column, side_by_side
from amci_explorer.views.panel import VIEWS
from amci_explorer.views.planes import MarginalView

Value = float | Sequence[float] | None


class DensityPicture(pn.viewable.Viewer):
    """Creates the dashboard's density picture of a problem, with sliders for y and theta.

    Example:
        >>> picture = DensityPicture("tail-1d", y=1.0, theta=3.0)

    Arguments:
        problem: The problem's name.
        y: Where to start; by default the first preset's.
        theta: Likewise.
        proposals: The proposals to look at; by default the trained ones that come along.
        sliders: Whether there are sliders.

    Raises:
        ValueError: there is no such problem, or y or theta is out of its sliders' range.
    """

    def __init__(
        self,
        problem: str,
        *,
        y: Value = None,
        theta: Value = None,
        proposals: Proposals | None = None,
        sliders: bool = True,
    ) -> None:
        super().__init__()
        self._state = _state(problem, y, theta)
        self._proposals = proposals
        found = self._state.problem
        self._view: Any = VIEWS.get(found.x.dim, MarginalView)()
        self._view.open(found)
        self._view.recolour(False)
        for widget in self._view.choices.values():
            widget.param.watch(lambda _: self._draw(), "value")
        self._state.param.watch(lambda *_: self._draw(), ["y", "theta"])
        handles = CaseControls(self._state).single if sliders else []
        self._panel = column(
            *([side_by_side(*handles, least=240)] if handles else []), self._view.panel, gap=8
        )
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._panel

    def look_at(self, proposals: Proposals | None) -> None:
        """Shows other proposals; None for the trained ones that come along."""
        self._proposals = proposals
        self._draw()

    def _draw(self) -> None:
        problem, pair = self._state.problem, self._state.settings.pair
        proposals = self._proposals or registry.proposals(problem.name)
        found = densities(problem, proposals, *pair, **self._view.look)
        if "logarithmic" in self._view.choices:
            self._view.set_scale(self._view.choices["logarithmic"].value)
        self._view.show(found)
        self._view.describe(found)
        # Nothing carries changes of Bokeh's models out of a cell that is still running.
        pn.io.push_notebook(self._panel)


def _state(problem: str, y: Value, theta: Value) -> State:
    """The page's state at a case; by default at the first preset's."""
    state = State(problem)
    wanted = {"y": y, "theta": theta}
    given: dict[str, Any] = {n: np.ravel(v).tolist() for n, v in wanted.items() if v is not None}
    state.move(**given)
    return state


def error_picture(curves: ErrorCurves) -> pn.Column:
    """The dashboard's picture of error curves: medians, the middle half of the runs, means.

    Below it stands, as there, which curves lie outside of the picture.

    Arguments:
        curves: Curves of a single pair (y, theta), AMCI's and the bound's among them; estimators
            that the dashboard does not draw are left out.

    Raises:
        ValueError: AMCI or the bound is missing, or there is more than one pair.
    """
    missing = [name for name in ("amci", "bound") if name not in curves.by_name]
    if missing:
        raise ValueError(f"curves: expected AMCI and the bound, {', '.join(missing)} is missing")
    if curves["amci"].remse.ndim != 1:
        raise ValueError(
            f"curves: expected those of a single pair, got shape {curves['amci'].remse.shape}"
        )
    drawn = {name: curve for name, curve in curves.by_name.items() if name in ESTIMATORS}
    view = ErrorCard(State(), Results())
    view.limit(tuple(drawn))
    shown = ErrorCurves(curves.budgets, drawn, curves.runs, curves.runs_wanted)
    view.fit(shown)
    view.draw(shown, complete=True)
    view.describe(shown)
    view.recolour(False)
    return column(pane(view.figure), view.note)


def diagnosis_picture(
    problem: str, *, y: Value = None, theta: Value = None, variant: str = "spline", draws: int = 64
) -> pn.Column:
    """The dashboard's verdict on AMCI at one case, with each term's weights and the way to mu.

    Arguments:
        problem: The problem's name.
        y: The observation; by default the first preset's.
        theta: Likewise.
        variant: Which proposals.
        draws: Draws from each proposal; at least 1,000 are looked at.

    Raises:
        ValueError: there is no such problem or variant, or a value is out of its range.
    """
    state = _state(problem, y, theta)
    state.set(variant=variant, draws=draws)
    view = DiagnosticsCard(state, Results())
    view.recolour(False)
    view.open()
    for found in store_of(problem).diagnosis(state.settings):
        view.take(Result(view.asked(view.state), found, 0.0))
    view.describe(found)
    return view.body
