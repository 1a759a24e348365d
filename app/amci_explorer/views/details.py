r"""Below a picture, folded: how to read it, its numbers as a table, and these as a file."""

from __future__ import annotations

__all__ = ["Details"]

from collections.abc import Callable
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
