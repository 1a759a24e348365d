r"""A card: a title, pictures, their progress, the choice they answer, and a download."""

from __future__ import annotations

__all__ = ["Card"]

from dataclasses import replace
from io import StringIO
from typing import Any, ClassVar

import pandas as pd
import panel_material_ui as pmui

from amci_core.models import Problem
from amci_explorer.compute.computations import Computations, computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.views.export import joined, table
from amci_explorer.views.faint import Faint, Kept
from amci_explorer.views.figures import Theme, entitle
from amci_explorer.views.layout import card, column, row
from amci_explorer.views.status import Status
from amci_explorer.views.tabulated import AsTable
from amci_explorer.words.settings import difference, file_name

# A page does not take back what is no longer named.
FADED, PLAIN = {"opacity": "0.4"}, {"opacity": "1"}
# The share that has to be done before the time left is shown.
TIMED = 0.05
# A button's description is its name for assistive technology.
NOTHING_YET = "CSV: nothing to download yet."


class Card:
    """Creates a card of one visitor, empty. A card of its own names what it asks for and draws it.

    Arguments:
        state: What the visitor chose.
        results: Where its results come from.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    help: ClassVar[str] = ""
    # What a result is counted in, as its attributes: how many there are, and are wanted.
    unit: ClassVar[str] = "runs"
    # Fields of the state that change what is drawn of a result.
    drawn: ClassVar[tuple[str, ...]] = ("y", "theta")
    # Whether a case that is kept is shown beside the page's.
    compares: ClassVar[bool] = True
    # Whether its numbers stand in a table already.
    is_table: ClassVar[bool] = False

    def __init__(self, state: State, results: Results) -> None:
        self.state, self.results = state, results
        self.painter = Theme()
        self.dark = False
        self.shown: Result | None = None
        # Whose case is being drawn, and the result of the one that is kept beside it.
        self.case = state
        self.kept: Result | None = None
        self._keeper = Kept(self)
        self._words = self._mark = self._aside = ""
        self._is_faded = False
        # What is there at once is not counted.
        self._status = Status(self.name, self.title if self.unit else "")
        self._button = pmui.Button(
            label="Cancel", size="small", variant="outlined", margin=0, disabled=True
        )
        self._button.on_click(callback(self._press))
        self._csv = pmui.FileDownload(
            label="CSV",
            callback=self._table,
            filename=f"{self.name}.csv",
            disabled=True,
            description=NOTHING_YET,
            size="small",
            variant="text",
            margin=0,
        )
        # What of it answers a choice; by default everything.
        self.faded: tuple[Any, ...] = ()
        self.body = column(*self.content())
        buttons = [self._csv, self._button] if self.unit else [self._csv]
        self._as_table = AsTable(self.title, self._lines)
        self.panel = card(
            self.title,
            self.body,
            row(self._status, *buttons, gap=8),
            *([] if self.is_table else [self._as_table]),
            tools=self.tools(),
            help_text=self.help,
        )
        self._faint = Faint(self.body)

    # What a card of its own says.

    def content(self) -> list[Any]:
        """Its pictures and words, from top to bottom; called once."""
        raise NotImplementedError

    def tools(self) -> list[Any]:
        """Small controls beside the title."""
        return []

    def asked(self, case: State) -> Request | None:
        """What it shows for a case; None where that cannot be computed."""
        raise NotImplementedError

    def wanted(self) -> Request | None:
        """What a result that is shown should answer; one that answers something else is faded."""
        return self.asked(self.state)

    def difference(self, found: Request, wanted: Request) -> str:
        """How what is shown differs from what should be."""
        return difference(found.settings, wanted.settings)

    @staticmethod
    def why_not(problem: Problem) -> str:
        """Why it makes no sense for a problem, in a sentence; empty where it does."""
        del problem
        return ""

    def clear(self) -> None:
        """Makes ready for the state's problem: nothing of another one stays."""

    def draw(self, found: Any, *, complete: bool) -> None:
        """Draws a result."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Follows the fields `drawn`."""

    def describe(self, found: Any) -> None:
        """Renews the text alternatives; of a complete result, whenever a choice is made."""

    def progress(self, found: Any) -> tuple[int, int]:
        """How many of its units there are, and are wanted."""
        return found.runs, found.runs_wanted

    def frame(self, found: Any) -> pd.DataFrame:
        """Its table."""
        raise NotImplementedError

    # What is the same for all.

    @property
    def _beside(self) -> State | None:
        """The case to compare with, if it compares."""
        return self.state.beside if self.compares else None

    @property
    def store(self) -> Computations:
        """What follows for the state's problem."""
        return computations_of(self.state.problem.name)

    def open(self) -> None:
        """Turns to the state's problem."""
        self.shown, self._mark, self._aside = None, "", ""
        self._status.share = None
        self._button.param.update(label="Cancel", disabled=True)
        self._csv.param.update(disabled=True, description=NOTHING_YET)
        self._say("")
        self._set_styles(PLAIN)
        self._is_faded = False
        entitle(self.body, self.state.f)
        self.kept = None
        self._faint.clear()
        self.clear()
        self.redraw()
        self._as_table.renew()

    def start(self) -> None:
        """Shows what the state asks for, and the case that is kept, or has them computed."""
        beside, self._aside = self._beside, ""
        wanted = None if beside is None else self.asked(beside)
        if self.kept is not None and self.kept.asked != wanted:
            self.draw_kept(None)
        self.results.want(self, self.asked(self.state))
        self.results.want(self._keeper, wanted)
        # What else was chosen may change what its pictures show, and so their words.
        if self.shown is not None and self.shown.complete:
            self.describe(self.shown.value)

    def follow(self, changed: set[str]) -> None:
        """Follows the state."""
        if changed & {*self.drawn}:
            self.redraw()
            self._faint.widen()
            if self.kept is not None and not changed <= {"y", "theta", "level"}:
                self.draw_kept(self.kept)
        self._fade()

    def stop(self) -> None:
        """Calls off what is being computed, because nobody looks."""
        self.results.cancel(self.name)
        self.results.cancel(self._keeper.name)

    def draw_kept(self, result: Result | None) -> None:
        """Draws the kept case's result, or none, keeps that faint, and draws its own again."""
        own, beside = self.shown, self.state.beside
        self.kept = None if beside is None else result
        self._faint.clear()
        if result is not None and beside is not None:
            self.case, self.shown = beside, result
            self.draw(result.value, complete=result.complete)
            self.redraw()
            self._faint.take()
        self.case, self.shown = self.state, own
        if own is None:
            self.clear()
        else:
            self.draw(own.value, complete=own.complete)
        self.redraw()
        self._faint.widen()
        self._as_table.renew()

    def end_kept(self, message: str | None) -> None:
        """The kept case's result has come, or it is said why not."""
        if message:
            self._aside = f" A could not be computed: {message}"
            self._button.param.update(label="Try again", disabled=False)
            self._say(self._words)
        elif not self.results.is_running(self.name) and self._button.label == "Cancel":
            self._button.disabled = True

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self.dark = dark
        self.painter.paint(dark)
        self._faint.recolour()

    def begin(self) -> None:
        """What was asked for is being computed."""
        self._status.share = 0.0
        self._say("starting" if self.unit else "")
        self._button.param.update(label="Cancel", disabled=False)

    def take(self, result: Result) -> None:
        """Shows a result, complete or not."""
        before, self.shown = self.shown, result
        same = before is not None and before.value is result.value
        if not same or before is None or before.complete != result.complete:
            self.draw(result.value, complete=result.complete)
            self._faint.widen()
        done, wanted = self.progress(result.value)
        self._status.share = None if result.complete else done / wanted
        if result.complete:
            self._say(f"{done:,} {self.unit} in {result.seconds:.1f} s" if self.unit else "")
            self.describe(result.value)
            self._offer(result)
            self._as_table.renew()
        else:
            words = f"{done:,} of {wanted:,} {self.unit}"
            if done >= TIMED * wanted:
                words += f", {result.seconds * (wanted / done - 1):.0f} s left"
            self._say(words if self.unit else "")
        self._fade()

    def end(self, message: str | None) -> None:
        """It is over, with a message if it failed."""
        self._status.share = None
        if message:
            self._say(f"This could not be computed: {message}", wrong=True)
            self._button.param.update(label="Try again", disabled=False)
        else:
            going = self.results.is_running(self._keeper.name) or bool(self._aside)
            label = "Try again" if self._aside else "Cancel"
            self._button.param.update(label=label, disabled=not going)

    def _press(self, _: Any) -> None:
        names = self.name, self._keeper.name
        if any(self.results.is_running(name) for name in names):
            for name in names:
                self.results.refuse(name)
            self._status.share = None
            done = 0 if self.shown is None or self._mark else self.progress(self.shown.value)[0]
            self._say(f"cancelled after {done:,} {self.unit}" if done else "cancelled")
            self._button.label = "Run again"
        else:
            beside, self._aside = self._beside, ""
            self.results.again(self, self.asked(self.state))
            self.results.again(self._keeper, None if beside is None else self.asked(beside))

    def _fade(self) -> None:
        """Marks a result that answers another choice."""
        asked = self.wanted()
        mark, faded = "", False
        if self.shown is not None and asked is not None and self.shown.asked != asked:
            mark = self.difference(self.shown.asked, asked)
            # While a training goes on results come one after the other: that must not flicker.
            here = replace(self.shown.asked.settings, revision=asked.settings.revision)
            faded = replace(self.shown.asked, settings=here) != asked
        if faded != self._is_faded:
            self._is_faded = faded
            self._set_styles(FADED if faded else PLAIN)
        if mark != self._mark:
            self._mark = mark
            self._say(self._words)

    def _set_styles(self, styles: dict[str, str]) -> None:
        for part in self.faded or (self.body,):
            part.styles = styles

    def _say(self, words: str, *, wrong: bool = False) -> None:
        """Says how far it is, and what is shown meanwhile."""
        self._words = words
        if self._mark:
            going = self.results.is_running(self.name) or wrong
            words = (
                f"{words}; showing the result {self._mark}"
                if going
                else f"Showing the result {self._mark}."
            )
        self._status.say(words + self._aside, alert=wrong or bool(self._aside))

    def _offer(self, result: Result) -> None:
        link = result.asked.link
        self._csv.param.update(
            disabled=False,
            description="CSV of the result shown",
            filename=file_name(self.name, link, "csv"),
        )

    def _table(self) -> StringIO:
        """The newest result as a file, with the choice that it answers; and the kept case's."""
        shown = self._shown().items()
        parts = ((name, self.frame(each.value), each.asked.link) for name, each in shown)
        return table(*parts) if shown else StringIO(NOTHING_YET)

    def _lines(self) -> pd.DataFrame:
        """The lines of both results."""
        shown = self._shown()
        if not shown:
            return pd.DataFrame()
        return joined({name: self.frame(each.value) for name, each in shown.items()})

    def _shown(self) -> dict[str, Result]:
        """The newest result, and the kept case's."""
        if self.shown is None:
            return {}
        return {"B": self.shown} if self.kept is None else {"A": self.kept, "B": self.shown}
