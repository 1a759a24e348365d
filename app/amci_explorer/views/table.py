r"""Bring your draws: what a table from elsewhere says, read once and kept by nobody."""

from __future__ import annotations

__all__ = ["TableCard"]

import secrets
from typing import Any

import pandas as pd
import panel_material_ui as pmui

from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.compute.uploads import (
    MAX_BYTES,
    File,
    TableResult,
    UploadedTable,
    sample_table,
)
from amci_explorer.plots.colours import VERDICTS
from amci_explorer.state.state import State
from amci_explorer.views.about_table import EXPECTED, about_table, frame
from amci_explorer.views.card import Card
from amci_explorer.views.inputs import Message
from amci_explorer.views.layout import HTML, row
from amci_explorer.views.upload import Upload
from amci_explorer.words import HELP

INTRODUCTION = "p { margin: 0 0 8px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch }"
RESULT = """
.verdict { border-left: 5px solid var(--level); padding: 2px 0 2px 12px; margin: 12px 0; }
.level { font-size: var(--title); font-weight: 600; line-height: 1.4; color: var(--level); }
p, li { margin: 4px 0; font-size: var(--text); line-height: 1.5; max-width: 90ch }
ul { margin: 0; padding-left: 1.1rem; }
.scroll { overflow-x: auto; margin: 12px 0; }
table { border-collapse: collapse; font-size: var(--small); font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 4px; }
th, td { padding: 3px 14px 3px 0; text-align: right; white-space: nowrap; font-weight: 400; }
thead th { opacity: 0.75; border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
"""


class TableCard(Card):
    """What draws from elsewhere say: estimates, intervals, k-hat, a verdict."""

    name = "table"
    title = "Bring your draws"
    unit = "draws"
    is_table = True
    help = HELP["table"]
    drawn = ()

    def content(self) -> list[Any]:
        # What is to be computed; None once that is over, one way or another.
        self._uploaded: UploadedTable | None = None
        self.message = Message()
        looks: dict[str, Any] = {"size": "small", "variant": "outlined", "margin": 0}
        self.upload = Upload(
            self.take_file,
            self.message.say,
            MAX_BYTES,
            accept=".csv,.parquet",
            label="Choose a file",
            **looks,
        )
        download = pmui.FileDownload(
            callback=sample_table, filename="draws.csv", label="Example CSV", **looks
        )
        self.result = HTML("", RESULT)
        return [
            HTML(f"<p>{EXPECTED}</p>", INTRODUCTION),
            row(self.upload, download, gap=8),
            self.message,
            self.result,
        ]

    def take_file(self, name: str, content: bytes) -> None:
        """Has a file diagnosed; it is let go when that is done."""
        self.message.say()
        self._uploaded = UploadedTable(
            secrets.token_hex(16), File(name, content), self.state.settings
        )
        self.start()

    def asked(self, case: State) -> Request | None:
        # It is a computation like any other, but of a file in the place of a choice.
        return self._uploaded if case is self.state else None  # type: ignore[return-value]

    def open(self) -> None:
        """Keeps what is there: draws from elsewhere are of no problem on the page."""
        if self.shown is None:
            super().open()

    def stop(self) -> None:
        super().stop()
        self._let_go()

    def progress(self, found: TableResult) -> tuple[int, int]:
        return found.draws, found.draws

    def draw(self, found: TableResult, *, complete: bool) -> None:
        self._show(found)

    def take(self, result: Result) -> None:
        super().take(result)
        if result.complete:
            self._let_go()

    def end(self, message: str | None) -> None:
        super().end(None)
        if message:
            self._say("")
            self.message.say(message)
        self._let_go()

    def frame(self, found: TableResult) -> pd.DataFrame:
        return frame(found)

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        if self.shown is not None:
            self._show(self.shown.value)

    def _show(self, found: TableResult) -> None:
        colours = {
            level: (style.label, style.colour(self.dark)) for level, style in VERDICTS.items()
        }
        self.result.object = about_table(found, colours)

    def _let_go(self) -> None:
        if self._uploaded is not None:
            self._uploaded.file.let_go()
            self.results.drop(self._uploaded)
            self._uploaded = None
