r"""A card: a title, pictures, their progress, the choice they answer, and a download."""

from __future__ import annotations

__all__ = ["Card"]

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import panel_material_ui as pmui

from amci_core.models import Problem
from amci_explorer.compute.computations import Computations, computations_of
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.server.session import callback
from amci_explorer.state.state import State
from amci_explorer.views import export
from amci_explorer.views.figures import Theme, entitle_all
from amci_explorer.views.layout import ON_SCREEN, card, column, row
from amci_explorer.views.status import Status
from amci_explorer.views.tabulated import AsTable
from amci_explorer.words.settings import difference, file_name

# On the line of the fold below it, beside its arrow.
FOOT = ":host { align-self: end; margin: 5px 36px -36px 0 !important; z-index: 1; }"


class Card:
    """Creates a card of one page, empty. A subclass names its request and draws the result.

    Arguments:
        state: The page's settings.
        results: Where its results come from.

    Attributes:
        shown: The newest result, complete or not, for any request.
        reference: The result of the reference case, if the card `compares`.
        halted: Why nothing is computed, such as a failure; shown instead of its progress.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    help: ClassVar[str] = ""
    # What `progress` counts. Without it there is no progress and nothing to cancel.
    unit: ClassVar[str] = "runs"
    # Fields of the state that change what is drawn of a result.
    drawn: ClassVar[tuple[str, ...]] = ("y", "theta")
    # Whether it follows every move of a handle; else it waits until that is let go.
    live: ClassVar[bool] = False
    # Whether the reference case is computed as well.
    compares: ClassVar[bool] = False
    # Whether its numbers stand in a table already.
    is_table: ClassVar[bool] = False

    def __init__(self, state: State, results: Results) -> None:
        self.state, self.results = state, results
        self.theme, self.dark = Theme(), False
        self.shown: Result | None = None
        self.reference: Result | None = None
        self.status = Status(self.name, self.title if self.unit else "")
        looks: dict[str, Any] = {"size": "small", "margin": 0, "disabled": True}
        unseen = {"visibility": "hidden"}
        self.button = pmui.Button(label="Cancel", variant="outlined", styles=unseen, **looks)
        self.button.on_click(callback(lambda _: self.press()))
        self.csv = pmui.FileDownload(
            label=f"{self.title}, CSV",
            callback=lambda: export.file(self._frames(), self._both()),
            filename=f"{self.name}.csv",
            variant="text",
            sx={"textTransform": "none"},
            stylesheets=[ON_SCREEN] if self.is_table else [ON_SCREEN, FOOT],
            **looks,
        )
        # Takes what is computed for the reference case.
        self._for_reference = SimpleNamespace(
            name=f"{self.name}-a", begin=self.begin, take=self.take_reference, end=self.end
        )
        self.halted = ""
        self._as_table = AsTable(self.title, lambda: export.joined(self._frames()))
        self.body = column(*self.content())
        self.panel = card(
            self.title,
            row(self.status, self.button, gap=8) if self.unit else self.status,
            self.body,
            self.csv,
            *([] if self.is_table else [self._as_table.panel]),
            tools=self.tools(),
            help_text=self.help,
        )

    def content(self) -> list[Any]:
        """Its pictures and words, from top to bottom; called once."""
        raise NotImplementedError

    def tools(self) -> list[Any]:
        """Small controls beside the title."""
        return []

    def asked(self, case: State) -> Request | None:
        """The request whose result it shows for a case; None if that cannot be computed."""
        raise NotImplementedError

    @staticmethod
    def why_not(problem: Problem) -> str:
        """Why it makes no sense for a problem, in a sentence; empty if it does."""
        return ""

    def clear(self) -> None:
        """Empties it for the state's problem."""

    def draw(self, found: Any, *, complete: bool) -> None:
        """Draws a result."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Follows the fields `drawn`."""
        if self.shown is not None:
            self.draw(self.shown.value, complete=self.shown.complete)

    def progress(self, found: Any) -> tuple[int, int]:
        """How many of its units there are, and are wanted."""
        return found.runs, found.runs_wanted

    def fraction(self, found: Any) -> float:
        """Which part of the work is done."""
        done, of = self.progress(found)
        return done / of

    def frame(self, found: Any) -> pd.DataFrame:
        """Its table."""
        return export.frame(found)

    @property
    def store(self) -> Computations:
        """What follows from the state's problem."""
        return computations_of(self.state.problem.name)

    def open(self) -> None:
        """Turns to the state's problem."""
        self.shown = self.reference = None
        self.halted = ""
        self.csv.disabled = True
        entitle_all(self.body, self.state.original, self.state.f)
        self.clear()
        self.redraw()
        self._as_table.renew()
        self.tell()

    def start(self) -> None:
        """Shows the results that the state asks for, or has them computed."""
        for receiver, asked in self._wanted():
            self.results.want(receiver, asked)
        self.tell()

    def follow(self, changed: set[str]) -> None:
        """Follows the state."""
        if changed & {*self.drawn}:
            self.redraw()
        if self.live:
            self.start()
        self.tell()

    def stop(self) -> None:
        """Cancels its computations, because it is hidden."""
        for name in self._names:
            self.results.cancel(name)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self.dark = dark
        self.theme.paint(dark)
        Card.redraw(self)

    def begin(self) -> None:
        """Its request, or the reference case's, is being computed."""
        self.halted = ""
        self.tell()

    def take(self, result: Result) -> None:
        """Shows a result, complete or not."""
        self.halted = ""
        if result is not self.shown:
            self.shown = result
            self.draw(result.value, complete=result.complete)
            if result.complete:
                name = file_name(self.name, result.link, "csv")
                self.csv.param.update(disabled=False, filename=name)
                self._as_table.renew()
        self.tell()

    def take_reference(self, result: Result | None) -> None:
        """Shows the reference case's result beside its own, once complete; or no other."""
        if result is None or result.complete:
            self.reference = result
            self.redraw()
            self._as_table.renew()

    def end(self, message: str | None) -> None:
        """It is over, with a message if it failed or is to be tried again."""
        self.halted = f"This could not be computed: {message}" if message else ""
        self.tell()

    def answers(self, asked: Request, wanted: Request) -> bool:
        """Whether the result of one request can be shown for another."""
        # While a training goes on results come one after the other: that must not flicker.
        settings = replace(asked.settings, revision=wanted.settings.revision)
        return replace(asked, settings=settings) == wanted

    def tell(self) -> None:
        """Says how far it is; fades a result that answers other settings, and names these."""
        found, wanted, words = self.shown, self.asked(self.state), self.halted
        running = any(self.results.is_running(name) for name in self._names)
        is_other = found and wanted and not self.answers(found.asked, wanted)
        share = 0.0
        if self.unit and not words and found and not is_other:
            (done, of), share = self.progress(found.value), self.fraction(found.value)
            words = f"{done:,} {self.unit}"
            if found.seconds:
                words += f" in {found.seconds:.1f} s"
            if found.stopped:
                words = f"{done:,} of {of:,} {self.unit}: {found.stopped}"
            if not found.complete:
                words = f"{done:,} of {of:,} {self.unit}"
                # A few, among them those that start the workers, foretell nothing.
                if share >= 0.1:
                    words += f", {found.seconds * (1 / share - 1):.0f} s left"
        elif running and not words and (found is None or (is_other and not self.live)):
            words = "Waiting for the first result"
        if found and wanted and is_other:
            other = difference(found.asked.settings, wanted.settings)
            words = f"{words}{'; s' if words else 'S'}howing the result {other}"
        self.status.say(words, share if running else None, alert="could not" in words)
        label = "Cancel" if running or not self.halted else "Run"
        can = bool(running or self.halted)
        # It keeps its room. A page does not take back what is no longer named.
        styles = {"visibility": "inherit" if can else "hidden"}
        self.button.param.update(label=label, disabled=not can, styles=styles)
        # What follows a handle is always a little late: that must not flicker.
        late = is_other and not (self.live and running)
        self.body.styles = {"opacity": "0.4" if late else "1"}

    @property
    def _names(self) -> tuple[str, ...]:
        return self.name, self._for_reference.name

    def _wanted(self) -> list[tuple[Any, Request | None]]:
        """What takes results, and the requests that the state asks for."""
        reference = self.state.same_reference if self.compares else None
        of_reference = None if reference is None else self.asked(reference)
        if self.reference is not None and self.reference.asked != of_reference:
            self.take_reference(None)
        return [(self, self.asked(self.state)), (self._for_reference, of_reference)]

    def press(self) -> None:
        """Cancels its computations, or starts them again."""
        if self.button.label == "Cancel":
            for name in self._names:
                self.results.refuse(name)
            self.halted = "Cancelled"
        else:
            self.halted = ""
            for receiver, asked in self._wanted():
                self.results.again(receiver, asked)
        self.tell()

    def _both(self) -> dict[str, Result]:
        found = {"A": self.reference, "B": self.shown}
        return {name: each for name, each in found.items() if each is not None}

    def _frames(self) -> dict[str, pd.DataFrame]:
        return {name: self.frame(each.value) for name, each in self._both().items()}
