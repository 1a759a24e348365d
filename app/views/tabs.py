r"""Cards of which one is open: each starts computing when it is opened, and stops when left."""

from __future__ import annotations

__all__ = ["Tab", "TabsView"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.session import answer
from app.state import Choice
from app.store import Store
from app.views.layout import HTML, column

NOTE = "p { margin: 0 0 4px 0; font-size: 0.85rem; line-height: 1.4; opacity: 0.85; }"
# Room for a card while another one is drawn: a page that shrinks meanwhile scrolls away.
ROOM = ":host { min-height: 95vh; }"
PLAIN = {
    "& .MuiTab-root": {"textTransform": "none", "minHeight": "40px", "padding": "8px 14px"},
    "& .MuiTab-root.Mui-focusVisible": {
        "outline": "2px solid currentColor",
        "outlineOffset": "-3px",
    },
    "& .MuiTabs-root": {"minHeight": "40px", "marginBottom": "10px"},
}


@dataclass(frozen=True)
class Tab:
    """A card behind a tab.

    Arguments:
        title: What the tab says.
        panel: The card.
        start: Starts computing for a choice what is not yet there; called when the tab is opened,
            and while it is open when a control is let go.
        stop: Calls that off; called when the tab is left.
        why_not: Why the card makes no sense for a problem, in a sentence; empty where it does.
    """

    title: str
    panel: Any
    start: Callable[[Choice], None]
    stop: Callable[[], None]
    why_not: Callable[[Store], str] = lambda _: ""


class TabsView:
    """Creates the tabs, the first one open.

    Only the open card is part of the page: a hidden picture has no width, and waits for one. The
    Material tabs hold nothing themselves: they measure a picture before it is laid out.

    Arguments:
        tabs: The cards, from left to right.
        choice: What to compute for when a tab is opened; None: nothing yet.
    """

    def __init__(self, *tabs: Tab, choice: Callable[[], Choice | None]) -> None:
        self._tabs = tabs
        self._choice = choice
        self._wanted = self._shown = 0
        self._note = HTML("", NOTE)
        self._strip = pmui.Tabs(
            *((tab.title, pn.Spacer(height=0, margin=0)) for tab in tabs),
            sizing_mode="stretch_width",
            margin=0,
            sx=PLAIN,
        )
        self._strip.param.watch(answer(self._turned), "active")
        self._place = column(tabs[0].panel, stylesheet=ROOM)
        self.panel = column(self._note, self._strip, self._place)

    def open(self, store: Store) -> None:
        """Makes ready for a problem; what makes no sense for it cannot be opened, and says why.

        The tab that the user chose stays open, or comes back where it makes sense again.
        """
        reasons = {i: tab.why_not(store) for i, tab in enumerate(self._tabs)}
        closed = [i for i, reason in reasons.items() if reason]
        allowed = [i for i in reasons if i not in closed]
        self._shown = self._wanted if self._wanted in allowed else allowed[0]
        self._strip.param.update(disabled=closed, active=self._shown)
        self._show()
        text = " ".join(reasons[i] for i in closed)
        self._note.object = f"<p>{text}</p>" if text else ""

    def start(self) -> None:
        """Starts what the open tab shows."""
        choice = self._choice()
        if choice is not None:
            self._tabs[self._shown].start(choice)

    def _turned(self, event: Any) -> None:
        if event.new == self._shown:
            return
        self._tabs[self._shown].stop()
        self._wanted = self._shown = event.new
        self._show()
        self.start()

    def _show(self) -> None:
        panel = self._tabs[self._shown].panel
        if self._place[0] is not panel:
            self._place[:] = [panel]
