r"""What the page is about: the problem, or what to watch at a preset; and what went wrong."""

from __future__ import annotations

__all__ = ["StoryView"]

from functools import cache
from html import escape

import panel_material_ui as pmui

from amci_core.models import Problem
from app import own
from app.fields import problem_names
from app.presets import Preset, presets
from app.state import State
from app.views.formula import FORMULA, formula
from app.views.layout import HTML, column

# All texts of a problem lie on one another, and the longest of any problem: the page does not
# jump when another one is told.
TEXT = """
div { display: grid; }
p { grid-area: 1 / 1; margin: 0; font-size: 0.95rem; line-height: 1.5; max-width: 95ch;
    visibility: hidden; }
p.told { visibility: visible; }
@media (max-width: 599.95px) { p.longest { display: none; } }
"""


class StoryView:
    """Creates the introduction of the state's problem.

    Arguments:
        state: What it tells of.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._told: Preset | None = None
        self._text = HTML("", TEXT)
        self._formula = HTML("", FORMULA)
        self.alerts = column()
        self.panel = column(self.alerts, self._text, self._formula)

    def tell(self, preset: Preset) -> None:
        """Says what to watch at a preset, while the state is there."""
        self._told = preset
        self.show()

    def show(self) -> None:
        """Says what to watch at the preset that was chosen, else what the problem is."""
        problem = self._state.problem
        texts, told = _texts(problem), 0
        for i, preset in enumerate(presets(problem), 1):
            if preset is self._told and self._state.at(preset):
                told = i
        lines = (f"<p{' class=told' * (i == told)}>{text}</p>" for i, text in enumerate(texts))
        content = f"<div>{''.join(lines)}<p class=longest>{_longest()}</p></div>"
        if content != self._text.object:
            self._text.object = content
        typeset = formula(problem.formula)
        if typeset != self._formula.object:
            self._formula.object = typeset

    def complain(self, message: str) -> None:
        """Says what went wrong, above all else."""
        alert = pmui.Alert(
            title="",
            object=escape(message),
            severity="error",
            closeable=True,
            sizing_mode="stretch_width",
        )
        self.alerts[:] = [alert]


def _texts(problem: Problem) -> list[str]:
    """What can be told of a problem: what it is, and what to watch at its presets."""
    told = (f"<b>{escape(p.name)}.</b> {escape(p.watch)}" for p in presets(problem))
    return [escape(problem.description), *told]


@cache
def _longest() -> str:
    """The longest text of all problems."""
    return max((text for name in problem_names() for text in _texts(own.problem(name))), key=len)
