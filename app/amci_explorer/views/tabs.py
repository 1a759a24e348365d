r"""Cards, one of them open: each is made, and computes, when it is first looked at."""

from __future__ import annotations

__all__ = ["TabsView"]

from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from panel.custom import JSComponent

from amci_explorer.compute.results import Results
from amci_explorer.js.scripts import source
from amci_explorer.server.session import callback
from amci_explorer.state.case import Case
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML, NOTE, ON_SCREEN, column
from amci_explorer.views.style import CROWDED, FADE
from amci_explorer.words import CARDS

# Room for a card while another one is drawn: a page that shrinks meanwhile scrolls away.
ROOM = "@media screen { :host { min-height: 95vh; } }"
# Bokeh would give it no width and no height.
COVERING = {"position": "absolute", "inset": "0", "width": "100%", "height": "100%"}
FOCUS = {"outline": "2px solid currentColor", "outlineOffset": "-3px"}
PLAIN = {
    "& .MuiTab-root": {"textTransform": "none", "minHeight": "40px", "padding": "8px 14px"},
    "& .MuiTab-root.Mui-focusVisible": FOCUS,
    "& .MuiTabs-root": {"minHeight": "40px", "marginBottom": "10px"},
    # Where a finger scrolls them there are no arrows: they fade away where more follow.
    f"@media {CROWDED}": {
        "& .MuiTabs-scroller": {"maskImage": FADE},
        "& .MuiTabs-list": {"paddingRight": "40px"},
    },
}


class Sight(JSComponent):
    """Tells whether the column that it covers is on the screen; nothing of it shows."""

    seen: Any = param.Boolean(default=False, doc="Whether any of it is.")
    _esm = source("sight.js")


class TabsView:
    """Creates the tabs, with the card in them that the case names.

    Only the open card is part of the page: a hidden picture has no width, and waits for one. The
    Material tabs hold nothing themselves: they measure a picture before it is laid out.

    Arguments:
        kinds: The cards' classes, from left to right.
        state: The page's case, which names the open one.
        results: Where their results come from.

    Attributes:
        sight: Whether the open card is on the screen.
    """

    def __init__(self, *kinds: type[Card], state: Case, results: Results) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._state, self._results = state, results
        self._made: dict[str, Card] = {}
        self._dark = self._filled = False
        self._note = HTML("", NOTE)
        nothing = pn.Spacer(height=0, margin=0)
        self._strip = pmui.Tabs(
            *((CARDS[name], nothing) for name in self._kinds),
            sizing_mode="stretch_width",
            margin=0,
            sx=PLAIN,
            stylesheets=[ON_SCREEN],
        )
        self._strip.param.watch(callback(self._turned), "active")
        self._place = column(stylesheet=ROOM)
        self.sight = Sight(margin=0, styles=COVERING | {"visibility": "hidden"})
        self.sight.param.watch(callback(self._look), "seen")
        self.panel = column(self._note, self._strip, self._place, self.sight)

    @property
    def name(self) -> str:
        """The open card's; where the one that was chosen makes no sense, the first's that does."""
        allowed = [n for n, kind in self._kinds.items() if not kind.why_not(self._state.problem)]
        return self._state.card if self._state.card in allowed else allowed[0]

    @property
    def card(self) -> Card:
        """The open card, made now unless it has been."""
        name = self.name
        if name not in self._made:
            self._made[name] = made = self._kinds[name](self._state, self._results)
            made.seen = self.sight.seen
            made.recolour(self._dark)
            made.open()
        return self._made[name]

    def open(self) -> None:
        """Makes ready for a problem; what makes no sense for it cannot be opened, and says why.

        The card that the user chose stays open, or comes back where it makes sense again.
        """
        reasons = [kind.why_not(self._state.problem) for kind in self._kinds.values()]
        self._strip.disabled = [i for i, reason in enumerate(reasons) if reason]
        text = " ".join(filter(None, reasons))
        self._note.object = f"<p>{text}</p>" if text else ""
        self.show()

    def fill(self) -> None:
        """Puts the open card into a page that stands: where it is scrolled that makes it jump."""
        self._filled = True
        self.show()

    def show(self) -> None:
        """Follows the case: another card is shown, and the one that was is called off."""
        name = self.name
        for other, made in self._made.items():
            if other != name:
                made.seen = False
                made.stop()
        self._strip.active = list(self._kinds).index(name)
        # Where a tab is drawn its panel cannot be named by it, only like it.
        self._place.html_attributes = {"role": "tabpanel", "aria-label": CARDS[name]}
        if self._filled:
            self.card.seen = self.sight.seen
            if list(self._place) != [self.card.panel]:
                self.card.redraw()
                self._place[:] = [self.card.panel]

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._dark = dark
        for made in self._made.values():
            made.recolour(dark)

    def _look(self, event: Any) -> None:
        self.card.seen = event.new
        if event.new:
            self.card.start()

    def _turned(self, event: Any) -> None:
        name = list(self._kinds)[event.new]
        if name != self.name:
            self._state.set(card=name)
            self._state.commit()
