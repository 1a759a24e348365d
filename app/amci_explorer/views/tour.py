r"""The tour's panel, and the light on the part of the page that a step is about."""

from __future__ import annotations

__all__ = ["TourView"]

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

from amci_explorer.js.scripts import TOUR
from amci_explorer.server.session import callback
from amci_explorer.state.tour import Step, tour
from amci_explorer.views.formula import INLINE, with_formulas
from amci_explorer.views.layout import ON_SCREEN, hide
from amci_explorer.views.style import NARROW

STYLE = (
    INLINE
    + ON_SCREEN
    # In view at all times: at the bottom, and above the only column of a narrow page, where the
    # picture comes below it. What is too long for that is scrolled.
    + f"@media not {NARROW} {{ :host {{ position: sticky; bottom: 12px; z-index: 15; }} "
    # From the corner that stays where it is with texts of any length.
    + ".ways { align-self: end; } }"
    + f"""
@media {NARROW} {{
  :host {{ order: -1; position: sticky; top: 0; z-index: 15; }}
  .tour {{ max-height: 34vh; overflow-y: auto; box-sizing: border-box; }}
}}"""
    + """
.tour { display: grid; grid-template: "words ways" "question ways" / 1fr auto; gap: 4px 24px;
        padding: 10px 16px; background: var(--paper); border-radius: 10px;
        border-left: 6px solid var(--accent); box-shadow: 0 2px 8px rgb(0 0 0 / 15%);
        color: var(--ink); }
.tour[hidden], details[hidden] { display: none; }
.count { font-size: var(--small); color: var(--muted); margin: 0; }
h2 { font-size: var(--title); margin: 0; line-height: 1.4; }
p { font-size: var(--text); line-height: 1.5; margin: 0; max-width: 100ch; }
.ways { grid-area: ways; display: grid; grid-template-columns: 1fr 1fr; gap: 6px;
        align-content: start; position: sticky; top: 0; }
button { font: inherit; font-size: var(--small); padding: 5px 12px; border-radius: 6px;
         border: 1px solid var(--accent); background: transparent; color: var(--accent);
         cursor: pointer; min-height: 32px; }
button:disabled { opacity: 0.5; cursor: default; }
button:focus-visible, summary:focus-visible { outline: 2px solid var(--accent);
                                              outline-offset: 2px; }
details { grid-area: question; font-size: var(--text); }
summary { cursor: pointer; color: var(--accent); font-weight: 600; width: fit-content; }
@media (max-width: 599.95px) {
  .tour { grid-template: "ways" "words" "question" / 1fr; padding: 0 10px 8px; }
  .ways { grid-template-columns: repeat(4, auto); padding: 8px 0 4px; background: var(--paper); }
  button { padding: 5px 6px; }
  .count span { display: none; }
  p, details, h2 { font-size: var(--small) !important; }
}
"""
)


class TourPanel(JSComponent):
    """What the browser draws of a step."""

    step: Any = param.Integer(default=0, doc="Which step, from 0 on.")
    count: Any = param.Integer(default=1, doc="How many there are.")
    opened: Any = param.Boolean(default=False, doc="Whether the tour is shown.")
    words: Any = param.String(doc="Title and text, HTML.")
    question: Any = param.String(doc="The question, HTML.")
    answer: Any = param.String(doc="Its answer, HTML.")
    lit: Any = param.String(doc="The part of the page that it is about.")
    _esm = TOUR
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class


class TourView:
    """Creates the tour of one session, closed, at its first step.

    Arguments:
        visit: Called with a step that the page is to be set to.
        moved: Called when the tour opens, closes or goes on.
    """

    def __init__(self, visit: Callable[[Step], Any], moved: Callable[[], Any]) -> None:
        self._visit, self._moved = visit, moved
        count = len(tour().steps)
        self.panel = TourPanel(count=count, sizing_mode="stretch_width", margin=0)
        hide(self.panel, True)
        shown = callback(self._show)
        self._opening = False
        self.panel.param.watch(lambda *_: self._opening or shown(), ["step", "opened"])

    @property
    def opened(self) -> bool:
        """Whether the tour is shown."""
        return bool(self.panel.opened)

    @property
    def step(self) -> Step:
        """The step that it is at."""
        return tour().steps[self.panel.step]

    def open(self, name: str = "", *, visit: bool = True) -> None:
        """Opens the tour where it was left, or at a step; an unknown one leads to the first.

        Arguments:
            name: A step's name, or its number from 1 on.
            visit: Whether the page is set to the step.
        """
        index = tour().index(name) or 0 if name else self.panel.step
        self._opening = True
        self.panel.param.update(step=index, opened=True)
        self._opening = False
        self._show(visit=visit)

    def _show(self, *_: Any, visit: bool = True) -> None:
        """Sets the page to the step, and says what it is about."""
        step, panel = self.step, self.panel
        hide(panel, not self.opened)
        if self.opened:
            if visit:
                self._visit(step)
            place = f"Step {panel.step + 1} of {panel.count}."
            panel.param.update(
                lit=step.light,
                question=with_formulas(step.question),
                answer=with_formulas(step.answer),
                words=f'<p class="count">{place} <span>{with_formulas(tour().title)}</span></p>'
                f"<h2>{with_formulas(step.title)}</h2>"
                f"<p>{with_formulas(' '.join(step.text.split()))}</p>",
            )
        self._moved()
