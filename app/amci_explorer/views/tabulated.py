r"""A picture as a table: below it, folded, and filled for those who unfold it."""

from __future__ import annotations

__all__ = ["AsTable", "tabulate"]

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from amci_explorer.server.session import callback
from amci_explorer.text import number
from amci_explorer.views.layout import HELP, HTML

# A longer table takes a page seconds to lay out.
MOST = 200
STYLE = """
.scroll { overflow: auto; max-height: 420px; margin-top: 6px; }
.scroll:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 4px; }
th, td { padding: 3px 14px 3px 0; text-align: right; white-space: nowrap; font-weight: 400; }
thead th { border-bottom: 1px solid var(--divider-color, #ccc); font-weight: 600; }
th:first-child { text-align: left; }
"""


class AsTable(HTML):
    """Creates the fold, shut.

    Arguments:
        caption: What the table is of.
        table: Gives it; empty while there is nothing to show.
    """

    def __init__(self, caption: str, table: Callable[[], pd.DataFrame]) -> None:
        super().__init__(_fold(""), HELP, STYLE, margin=(6, 0, 0, 0))
        self._caption, self._table = caption, table
        self._is_open = False

    def turn(self, *, is_open: bool) -> None:
        """Opens or shuts it."""
        self._is_open = is_open
        self.object = _fold("")
        self.renew()

    def renew(self) -> None:
        """Follows what is shown, if anybody looks; when that is complete, not while it moves."""
        if self._is_open:
            self.object = _fold(tabulate(self._caption, self._table()))

    def _get_model(self, *place: Any, **more: Any) -> Any:
        model = super()._get_model(*place, **more)
        turned = callback(lambda tags: self.turn(is_open=tags == [True]))
        model.on_change("tags", lambda attr, old, new: turned(new))
        return model


def tabulate(caption: str, table: pd.DataFrame) -> str:
    """A table as HTML; of a long one as many lines as can be read, at equal distances."""
    if table.empty:
        return "<p>There is nothing to show yet.</p>"
    places = np.linspace(0, len(table) - 1, min(MOST, len(table))).round().astype(int)
    chosen = table.iloc[places]
    names = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in table.columns)
    body = "".join(_line(list(line)) for line in chosen.itertuples(index=False))
    title = escape(caption)
    left_out = (
        f"<p>These are {len(chosen)} of {len(table):,} lines, at equal distances; the CSV has "
        "all of them.</p>"
        if len(chosen) < len(table)
        else ""
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{title}, as a table"><table>'
        f"<caption>{title}</caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
        f"</div>{left_out}"
    )


def _fold(content: str) -> str:
    summary = '<summary class="as-table">As a table</summary>'
    return f"<details{' open' * bool(content)}>{summary}{content}</details>"


def _line(line: list[Any]) -> str:
    first, *others = map(_cell, line)
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{c}</td>" for c in others)}</tr>'


def _cell(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        return number(value, 4)
    return "" if value is None else escape(str(value))
