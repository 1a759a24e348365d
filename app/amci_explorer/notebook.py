r"""The dashboard's own pictures in a notebook, each with the sliders that it needs."""

from __future__ import annotations

__all__ = ["DensityPicture", "diagnosis_picture", "error_picture"]

from collections.abc import Sequence
from typing import Any

import numpy as np
import panel as pn

from amci_core.evaluation import ErrorCurves
from amci_core.flows import Proposals
from amci_explorer.compute.computations import computations_of
from amci_explorer.plots import diagnostics, error_curves
from amci_explorer.plots.colours import ESTIMATORS, VERDICTS
from amci_explorer.state.state import State
from amci_explorer.views.bound import CaseControls
from amci_explorer.views.layout import HTML, column, side_by_side
from amci_explorer.views.panel import DensityPanel
from amci_explorer.words.curves import outside
from amci_explorer.words.diagnosis import about_verdict

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
        state = _state(problem, y, theta)
        self._pictures = DensityPanel(state, prefix="shown-", proposals=proposals)
        handles = CaseControls(state).single if sliders else []
        self._panel = column(
            *([side_by_side(*handles, least=240)] if handles else []), self._pictures.panel, gap=8
        )
        self._pictures.open()
        shaping = ["y", "theta", "logarithmic", "coordinate", "pair"]
        state.param.watch(lambda *_: self.look_at(self._pictures.proposals), shaping)

    def __panel__(self) -> pn.viewable.Viewable:
        return self._panel

    def look_at(self, proposals: Proposals | None) -> None:
        """Shows other proposals; None for the trained ones that come along."""
        self._pictures.proposals = proposals
        self._pictures.draw()
        self._pictures.describe()
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
    """Error curves as the dashboard draws them, with what lies outside of the picture below.

    Arguments:
        curves: Curves of a single case (y, theta); estimators that the dashboard does not draw are
            left out.

    Raises:
        ValueError: the curves are of several cases.
    """
    drawn = {name: curve for name, curve in curves.by_name.items() if name in ESTIMATORS}
    shown = ErrorCurves(curves.budgets, drawn, curves.runs, curves.runs_wanted)
    note = HTML(f"<p>{outside(shown, complete=True)}</p>")
    return column(pn.pane.HoloViews(error_curves(shown), sizing_mode="stretch_width"), note)


def diagnosis_picture(
    problem: str, *, y: Value = None, theta: Value = None, variant: str = "spline", draws: int = 64
) -> pn.Column:
    """The verdict on AMCI at one case, with each term's weights and the running estimate.

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
    *_, found = computations_of(problem).diagnosis(state.settings)
    verdict = HTML(f"<h3>{VERDICTS[found.level].label}</h3>{about_verdict(found)}")
    picture = pn.pane.HoloViews(diagnostics(found), sizing_mode="stretch_width")
    return column(verdict, picture)
