r"""The tour's panel, and the light on the part of the page that a step is about."""

from __future__ import annotations

__all__ = ["TourView"]

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

from amci_explorer.js.scripts import source
from amci_explorer.problems.presets import Stop
from amci_explorer.server.session import callback
from amci_explorer.state.tour import tour
from amci_explorer.views.formula import INLINE, with_formulas
from amci_explorer.views.inputs import flat_button
from amci_explorer.views.layout import HTML, ON_SCREEN, column, hide
from amci_explorer.views.style import NARROW

WORDS = (
    INLINE
    + """
.count { font-size: var(--small); color: var(--muted); }
h2 { font-size: var(--text); margin: 0; line-height: 1.4; }
p { font-size: var(--text); line-height: 1.5; margin: 0; max-width: 100ch; }
summary { font-size: var(--text); font-weight: 600; color: var(--accent); cursor: pointer;
          width: fit-content; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media (max-width: 599.95px) { .count span { display: none; }
                               h2, p, summary { font-size: var(--small); } }
"""
)
# In view at all times: at the bottom; above the only column of a narrow page, where the picture
# comes below it. What is too long for that is scrolled.
PLACE = f"""
:host {{ flex-direction: row !important; position: sticky !important; bottom: 12px; z-index: 15;
        padding: 10px 16px; box-sizing: border-box; background: var(--paper); color: var(--ink);
        border-radius: 10px; border-left: 6px solid var(--accent);
        box-shadow: 0 2px 8px rgb(0 0 0 / 15%); }}
:host > .words {{ flex: 1 1 0 !important; width: auto !important; min-width: 0; }}
:host > .ways {{ flex: none !important; width: 110px !important; align-self: flex-end; }}
@media {NARROW} {{
  :host {{ order: -1; top: 0; bottom: auto; max-height: 34vh !important; overflow-y: auto; }}
  :host > .ways {{ position: sticky; top: 0; align-self: flex-start; }}
}}
@media (max-width: 599.95px) {{
  :host {{ flex-direction: column !important; gap: 0 !important; padding: 0 10px 8px; }}
  :host > .words {{ flex: none !important; width: 100% !important; }}
  :host > .ways {{ order: -1; width: 100% !important; padding: 8px 0 4px; z-index: 1;
                  background: var(--paper); }}
}}
{ON_SCREEN}
"""
WAYS = """
@media (max-width: 599.95px) {
  :host { flex-direction: row !important; }
  :host > * { flex: 1 1 0 !important; width: auto !important; }
}
"""


class Guide(JSComponent):
    """Keys that lead through the tour, and the light; nothing of it shows."""

    step: Any = param.Integer(default=0, doc="Which step, from 0 on.")
    count: Any = param.Integer(default=1, doc="How many there are; 0 while the tour is closed.")
    lit: Any = param.String(doc="The part of the page that the step is about.")
    _esm = source("tour.js")


class TourView:
    """Creates the tour of one session, closed, at its first step.

    Arguments:
        visit: Called with a step that the page is to be set to.
        moved: Called when the tour opens, closes or goes on.
    """

    def __init__(self, visit: Callable[[Stop], Any], moved: Callable[[], Any]) -> None:
        self._visit, self._moved, self._step = visit, moved, 0
        self.opened = False
        self._words = HTML("", WORDS, css_classes=["words"])
        self._guide = Guide(count=0, width=0, height=0, margin=0)
        self._guide.param.watch(callback(lambda _: self._follow()), "step")
        self._ways = [
            flat_button("Next", lambda _: self._go(self._step + 1)),
            flat_button("Previous", lambda _: self._go(self._step - 1)),
        ]
        leave = flat_button("Leave", lambda _: self.close())
        ways = column(*self._ways, leave, gap=6, stylesheet=WAYS, css_classes=["ways"])
        self.panel = column(
            self._words, ways, self._guide, gap=24, stylesheet=PLACE, css_classes=["part-tour"]
        )
        hide(self.panel, True)

    @property
    def step(self) -> Stop:
        """The step that it is at."""
        return tour().steps[self._step]

    def open(self, name: str = "", *, visit: bool = True) -> None:
        """Opens the tour where it was left, or at a step; an unknown one leads to the first.

        Arguments:
            name: A step's name, or its number from 1 on.
            visit: Whether the page is set to the step.
        """
        self._go(tour().index(name) or 0 if name else self._step, visit=visit)

    def close(self) -> None:
        """Leaves it."""
        self.opened = False
        self._guide.param.update(count=0, lit="")
        hide(self.panel, True)
        self._moved()

    def _follow(self) -> None:
        if self._guide.step != self._step:
            self._go(self._guide.step)

    def _go(self, step: int, *, visit: bool = True) -> None:
        """Sets the page to a step, and says what it is about."""
        self.opened, self._step = True, step
        there, count = self.step, len(tour().steps)
        hide(self.panel, False)
        if visit:
            self._visit(there)
        text, title, question, answer, whole = map(
            with_formulas,
            (
                " ".join(there.text.split()),
                there.title,
                there.question,
                there.answer,
                tour().title,
            ),
        )
        asked = f"<details><summary>{question}</summary><p>{answer}</p></details>"
        self._words.object = (
            f'<section class="tour" aria-label="Tour" aria-live="polite">'
            f'<p class="count">Step {step + 1} of {count}. <span>{whole}</span></p>'
            f"<h2>{title}</h2><p>{text}</p>{asked if question else ''}</section>"
        )
        for button, end in zip(self._ways, (count - 1, 0), strict=True):
            button.disabled = step == end
        self._guide.param.update(step=step, count=count, lit=there.light)
        self._moved()
