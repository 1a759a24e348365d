r"""What the page is about: the problem, or what to watch at a preset; and what went wrong."""

from __future__ import annotations

__all__ = ["StoryView"]

from html import escape

import panel_material_ui as pmui

from amci_explorer.problems.presets import Preset, presets
from amci_explorer.state.state import State
from amci_explorer.views.formula import FORMULA, formula
from amci_explorer.views.layout import HTML, column

# Room for two lines, and on a phone for more, so that nothing below jumps.
TEXT = """
p { margin: 0; font-size: var(--text); line-height: 1.5; min-height: 3em; max-width: 140ch; }
p.about { min-height: 0; }
@media (max-width: 599.95px) { p { min-height: 9em; } }
"""


class StoryView:
    """Creates the introduction of the state's problem.

    Arguments:
        state: What it tells of.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._text, self._about = HTML("", TEXT), HTML("", TEXT)
        self._formula = HTML("", FORMULA)
        self.alerts = column()
        self.panel = column(self._text)
        self.about = column(self._about, self._formula)

    def show(self) -> None:
        """Says what to watch where there is a preset, else what the problem is."""
        problem = self._state.problem
        here = [each for each in presets(problem) if self._state.at(each)]
        # Of several at one place, the one that says most of it.
        text = _watch(max(here, key=_named)) if here else escape(problem.description)
        for part, content in (
            (self._text, f"<p>{text}</p>"),
            (self._about, f'<p class="about">{escape(problem.description)}</p>'),
            (self._formula, formula(problem.formula)),
        ):
            if content != part.object:
                part.object = content

    def complain(self, message: str) -> None:
        """Says what went wrong, above all else."""
        alert = pmui.Alert(
            title="",
            object=escape(message),
            severity="error",
            closeable=True,
            sizing_mode="stretch_width",
            margin=(0, 0, 10, 0),
        )
        self.alerts[:] = [alert]


def _named(preset: Preset) -> int:
    """How many choices a preset names."""
    return sum(value is not None for value in vars(preset).values())


def _watch(preset: Preset) -> str:
    """What to watch at a preset, and what is learnt there."""
    return f"<b>{escape(preset.name)}.</b> {escape(preset.watch)} <b>{escape(preset.learnt)}</b>"
