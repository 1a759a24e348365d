r"""A picture as a table: below it, folded, and filled for those who unfold it."""

from __future__ import annotations

__all__ = ["AsTable"]

from collections.abc import Callable

import pandas as pd
import panel as pn

from amci_explorer.server.session import callback
from amci_explorer.text import number
from amci_explorer.views.layout import column, sections

# A longer table takes a page seconds to lay out: the CSV has all of it.
MOST = 200
PLACE = "@media screen { :host { max-height: 420px !important; overflow: auto; } }"


class AsTable:
    """Creates the fold, shut.

    Arguments:
        caption: What the table is of.
        table: Gives it; empty while there is nothing to show.
    """

    def __init__(self, caption: str, table: Callable[[], pd.DataFrame]) -> None:
        self._table = table
        self._pane = pn.pane.DataFrame(
            index=False,
            max_rows=MOST,
            float_format=lambda value: number(value, 4),
            # What scrolls is its place, which keys can reach.
            styles={"overflow": "visible"},
        )
        place = column(self._pane, stylesheet=PLACE)
        place.html_attributes = {"tabindex": "0", "aria-label": f"{caption}, as a table"}
        self.panel = sections(("As a table", place))
        self.panel.param.watch(callback(lambda _: self.renew()), "active")

    def renew(self) -> None:
        """Follows what is shown, if the table is open, once that is complete."""
        if self.panel.active:
            self._pane.object = self._table()
