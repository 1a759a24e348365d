r"""Below a picture: how far it is; folded, how to read it, its numbers as a table and a file."""

from __future__ import annotations

__all__ = ["Details", "Status"]

from collections.abc import Callable
from html import escape
from typing import Any

import panel as pn

from amci_explorer.server.session import callback
from amci_explorer.text import number
from amci_explorer.views.export import Answers, file, joined
from amci_explorer.views.inputs import download
from amci_explorer.views.layout import HTML, ON_SCREEN, column, sections

# A longer table takes a page seconds to lay out: the file has all of it.
MOST = 200
HELP = "p { margin: 0 0 4px; max-width: 75ch; font-size: var(--small); line-height: 1.5; }"
TABLE = "@media screen { :host { max-height: 420px !important; overflow: auto; } }"
# Longer words lie on what is above them for as long as they are there.
STATUS = """
:host { display: flex !important; flex-direction: column; justify-content: flex-end; z-index: 1; }
p { margin: 0; font-size: var(--small); line-height: 1.2; font-variant-numeric: tabular-nums;
    background: var(--paper); color: var(--muted); text-align: right; }
progress { display: block; width: 100%; height: 3px; appearance: none; border: 0; }
progress, ::-webkit-progress-bar { background: var(--line); }
::-webkit-progress-value { background: var(--accent); }
::-moz-progress-bar { background: var(--accent); }
progress.still { visibility: hidden; }
"""
QUIET = {
    "color": "var(--muted)",
    "background": "transparent",
    "boxShadow": "none",
    "& .MuiAccordionSummary-root": {"minHeight": "32px", "width": "max-content", "padding": 0},
    "& .MuiAccordionSummary-content": {"margin": "0 4px 0 0"},
    "& .MuiAccordionSummary-expandIconWrapper": {"color": "inherit"},
    "& .MuiAccordionDetails-root": {"padding": 0},
    "& .title": {"fontSize": "var(--small)", "fontWeight": 400},
}


class Details:
    """Creates the fold, shut; what it holds is made when it is first unfolded.

    Arguments:
        title: What the picture is called.
        help_text: Gives how to read it, in HTML.
        answers: Gives its numbers, empty while there are none; None for a picture without.
    """

    def __init__(
        self,
        title: str,
        help_text: Callable[[], str],
        answers: Callable[[], Answers] | None = None,
    ) -> None:
        self._title, self._help_text, self._answers = title, help_text, answers
        name = f"{title.lower().replace(' ', '-')}.csv"
        looks = {"variant": "text", "stylesheets": [ON_SCREEN]}
        make = None if answers is None else (lambda: file(answers()))
        self.csv = download(f"{title}, CSV", make, filename=name, **looks)
        self._help = HTML("", HELP)
        self._rows = pn.pane.DataFrame(
            index=False,
            max_rows=MOST,
            float_format=lambda value: number(value, 4),
            # What scrolls is its place, which keys can reach.
            styles={"overflow": "visible"},
        )
        self.panel = sections(("Details" if answers else "Help", self._content))
        self.panel.sx = QUIET
        self.panel.param.watch(callback(lambda _: self.renew()), "active")

    def renew(self) -> None:
        """Follows what is shown, if it is unfolded."""
        if self.panel.active:
            self._help.object = f"<p>{self._help_text()}</p>"
            if self._answers is not None:
                self._rows.object = rows = joined(self._answers())
                self.csv.disabled = rows.empty

    def _content(self) -> Any:
        if self._answers is None:
            return self._help
        place = column(self._rows, stylesheet=TABLE)
        place.html_attributes = {"tabindex": "0", "aria-label": f"{self._title}, as a table"}
        return column(self._help, self.csv, place)


class Status(HTML):
    """Creates the status of a card, with nothing to say.

    Arguments:
        card: The card's name.
        bar: What the bar is called; without a name there is none.
    """

    def __init__(self, card: str, bar: str) -> None:
        super().__init__("", STATUS, styles={"flex": "0 1 auto", "min-width": "160px"})
        self._card, self._bar = card, bar
        self.say("")

    def say(self, words: str, share: float | None = None, *, alert: bool = False) -> None:
        """Shows words, as an alert if something is wrong; and how much there is, from 0 to 1."""
        how = 'class="still"' if share is None else f'value="{share:.2f}"'
        bar = f'<progress {how} aria-label="{self._bar}"></progress>' if self._bar else ""
        role = ' role="alert"' if alert else ""
        # What is counted while it goes on would be read out without an end.
        spoken = {"aria-live": "polite", "aria-busy": str(share is not None).lower()}
        text = f'<p data-card="{self._card}"{role}>{escape(words)}</p>{bar}'
        self.param.update(object=text, html_attributes=spoken)
