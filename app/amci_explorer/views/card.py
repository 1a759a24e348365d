r"""A card: a title, pictures, their progress, the case they answer, and their details."""

from __future__ import annotations

__all__ = ["Card"]

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import panel as pn
import param

from amci_core.models import Problem
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.plots.style import Theme
from amci_explorer.server.session import guarded
from amci_explorer.state.case import Case
from amci_explorer.views import export
from amci_explorer.views.details import Details, Status
from amci_explorer.views.figures import entitle_all
from amci_explorer.views.inputs import flat_button
from amci_explorer.views.layout import card, column, hide, row
from amci_explorer.words import HELP, TITLES
from amci_explorer.words.settings import difference

# The status and its button stand on the line of the fold, at its right.
FOOT = ":host { position: relative; }"
BESIDE = """
:host { position: absolute !important; right: 0; top: 0; width: calc(100% - 150px) !important;
        min-height: 32px; justify-content: flex-end; }
"""


class Card(param.Parameterized):
    """Creates a card of one page, empty. A subclass names its request and draws the result.

    Its title and its help are those of `name` in words/help.toml.

    Arguments:
        state: The page's case.
        results: Where its results come from.

    Attributes:
        shown: The newest result, complete or not, for any request.
        reference: The result of the reference case, if the card `compares`.
        halted: Why nothing is computed, such as a failure; shown instead of its progress.
    """

    name: Any = param.String("", doc="What links and the tables of words call it.")
    state: Any = param.Parameter(doc="The page's case.")
    seen: Any = param.Boolean(True, doc="Whether it is on the screen; else it does not follow.")

    # What `progress` counts. Without it there is no progress and nothing to cancel.
    unit: ClassVar[str] = "runs"
    # Fields of the case that change what is drawn of a result.
    drawn: ClassVar[tuple[str, ...]] = ("y", "theta")
    # Whether it follows every move of a handle; else it waits until that is let go.
    live: ClassVar[bool] = False
    # Whether the reference case is computed as well.
    compares: ClassVar[bool] = False
    # Whether it has numbers that a table and a file can hold.
    has_table: ClassVar[bool] = True

    def __init__(self, state: Case, results: Results) -> None:
        super().__init__(state=state)
        self.results = results
        self.title = TITLES[self.name]
        self.theme, self.dark = Theme(), False
        self.shown: Result | None = None
        self.reference: Result | None = None
        self.halted = ""
        # Takes what is computed for the reference case.
        self._for_reference = SimpleNamespace(
            name=f"{self.name}-a", begin=self.begin, take=self.take_reference, end=self.end
        )
        self._problem: Problem | None = None
        self._followed: list[Any] = []
        self.status = Status(self.name, self.title if self.unit else "")
        self.button = flat_button("Cancel", lambda _: self.press(), sizing_mode=None)
        answers = self._answers if self.has_table else None
        self.details = Details(self.title, lambda: HELP[self.name], answers)
        self.body = column(*self.content())
        foot = [self.button, self.status] if self.unit else [self.status]
        self.panel = card(
            self.title,
            self.body,
            column(self.details.panel, row(*foot, gap=8, stylesheet=BESIDE), stylesheet=FOOT),
            tools=self.tools(),
        )

    def content(self) -> list[Any]:
        """Its pictures and words, from top to bottom; called once."""
        raise NotImplementedError

    def tools(self) -> list[Any]:
        """Small controls beside the title."""
        return []

    def asked(self, case: Case) -> Request | None:
        """The request whose result it shows for a case; None if that cannot be computed."""
        raise NotImplementedError

    @staticmethod
    def why_not(problem: Problem) -> str:
        """Why it makes no sense for a problem, in a sentence; empty if it does."""
        return ""

    def clear(self) -> None:
        """Empties it for the case's problem."""

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

    def answers(self, asked: Request, wanted: Request) -> bool:
        """Whether the result of one request can be shown for another."""
        # During a training results come one after the other: that must not flicker.
        settings = replace(asked.settings, revision=wanted.settings.revision)
        return replace(asked, settings=settings) == wanted

    def open(self) -> None:
        """Turns to the case's problem."""
        self._problem = self.state.problem
        self.shown = self.reference = None
        self.halted = ""
        entitle_all(self.body, self.state.original, self.state.f)
        self.clear()
        self.redraw()
        self.details.renew()
        self.tell()

    @param.depends("state.param", "seen", watch=True)
    def follow(self) -> None:
        """Follows the case: another problem, what is drawn, and what is to be computed."""
        with guarded(pn.state.curdoc):
            state = self.state
            is_other = self._problem is not state.problem
            if is_other:
                self.open()
            if not self.seen:
                return
            drawn = [getattr(state, name) for name in self.drawn]
            if drawn != self._followed or state.renewed:
                self._followed = drawn
                self.redraw()
            if (self.live and not is_other) or state.committed or state.renewed:
                self.start()
            self.tell()

    def start(self) -> None:
        """Shows the results that the case asks for, or has them computed."""
        for receiver, asked in self._wanted():
            self.results.want(receiver, asked)
        self.tell()

    def stop(self) -> None:
        """Cancels its computations, because it is hidden."""
        for name in self._names:
            self.results.cancel(name)

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
                self.details.renew()
        self.tell()

    def take_reference(self, result: Result | None) -> None:
        """Shows the reference case's result beside its own, once complete; or no other."""
        if result is None or result.complete:
            self.reference = result
            self.redraw()
            self.details.renew()

    def end(self, message: str | None) -> None:
        """It is over, with a message if it failed or is to be tried again."""
        self.halted = f"This could not be computed: {message}" if message else ""
        self.tell()

    def tell(self) -> None:
        """Says how far it is; fades a result that answers other settings, and names these."""
        shown, wanted = self.shown, self.asked(self.state)
        running = not self.results.running.keys().isdisjoint(self._names)
        other = bool(shown and wanted and not self.answers(shown.asked, wanted))
        words, share = self.halted, 0.0
        if not words and shown and not other and self.unit:
            words, share = self._counted(shown)
        elif not words and running and (not shown or (other and not self.live)):
            words = "Waiting for the first result"
        if shown and wanted and other:
            what = difference(shown.asked.settings, wanted.settings)
            words = f"{words}{'; s' if words else 'S'}howing the result {what}"
        self.status.say(words, share if running else None, alert="could not" in words)
        can = running or bool(self.halted)
        self.button.label = "Cancel" if running or not self.halted else "Run"
        hide(self.button, not can)
        # What follows a handle is always a little late: that must not flicker.
        late = other and not (self.live and running)
        self.body.styles = {"opacity": "0.4" if late else "1"}

    def _counted(self, shown: Result) -> tuple[str, float]:
        """How much of a result there is, in words and as a share."""
        (done, of), share = self.progress(shown.value), self.fraction(shown.value)
        if shown.stopped:
            return f"{done:,} of {of:,} {self.unit}: {shown.stopped}", share
        if shown.complete:
            took = f" in {shown.seconds:.1f} s" if shown.seconds else ""
            return f"{done:,} {self.unit}{took}", share
        # The first results include the start of the workers, and foretell nothing.
        left = f", {shown.seconds * (1 / share - 1):.0f} s left" if share >= 0.1 else ""
        return f"{done:,} of {of:,} {self.unit}{left}", share

    @property
    def _names(self) -> tuple[str, ...]:
        return self.name, self._for_reference.name

    def _wanted(self) -> list[tuple[Any, Request | None]]:
        """What takes results, and the requests that the case asks for."""
        reference = self.state.same_reference if self.compares else None
        of_reference = None if reference is None else self.asked(reference)
        if self.reference is not None and self.reference.asked != of_reference:
            self.take_reference(None)
        return [(self, self.asked(self.state)), (self._for_reference, of_reference)]

    def _answers(self) -> export.Answers:
        """The results that are shown, and their tables."""
        both = {"A": self.reference, "B": self.shown}
        return {name: (of, self.frame(of.value)) for name, of in both.items() if of is not None}
