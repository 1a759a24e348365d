r"""What the page is about: the problem, or what to watch at a preset; and what went wrong."""

from __future__ import annotations

__all__ = ["StoryView"]

from html import escape

import panel as pn
import panel_material_ui as pmui

from amci_core.models import Problem
from app.presets import Preset
from app.views.layout import HTML, column

TEXT = """
p { margin: 0; font-size: 0.95rem; line-height: 1.5; max-width: 95ch; }
"""


class StoryView:
    """Creates the introduction, empty; `open` fills it."""

    def __init__(self) -> None:
        self._text = HTML("", TEXT)
        self._formula = pn.pane.LaTeX(
            "$$$$",
            renderer="mathjax",
            sizing_mode="stretch_width",
            margin=0,
            styles={
                "overflow-x": "auto",
                "overflow-y": "hidden",
                "min-height": "44px",
                "font-size": "min(1rem, 3.4vw)",
            },
        )
        self._alert = pmui.Alert(
            title="", alert_type="error", closeable=True, closed=True, sizing_mode="stretch_width"
        )
        self._alert.visible = False
        self.panel = column(self._alert, self._text, self._formula)

    def open(self, problem: Problem) -> None:
        """Introduces a problem."""
        self._text.object = f"<p>{escape(problem.description)}</p>"
        self._formula.object = f"$${problem.formula}$$"

    def tell(self, preset: Preset) -> None:
        """Says what to watch at a preset."""
        self._text.object = f"<p><b>{escape(preset.name)}.</b> {escape(preset.watch)}</p>"

    def complain(self, message: str) -> None:
        """Says what went wrong."""
        self._alert.param.update(object=message, closed=False, visible=True)
