r"""A visitor's results, each with the choice that it answers; nothing else is shown or saved."""

from __future__ import annotations

__all__ = ["Receiver", "Result", "Results"]

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from amci_explorer.compute.jobs import Jobs
from amci_explorer.compute.learner import Learner
from amci_explorer.compute.requests import Request


@dataclass(frozen=True)
class Result:
    """What was computed.

    Arguments:
        asked: What it answers.
        value: The answer, as far as it has got.
        seconds: How long that took, for whomever it was computed.
        complete: Whether it will not get better.
    """

    asked: Request
    value: Any
    seconds: float
    complete: bool = False


class Receiver(Protocol):
    """Who shows results: a card."""

    @property
    def name(self) -> str:
        """What it shows: of each name the newest result is kept."""

    def begin(self) -> None:
        """What was asked for is being computed."""

    def take(self, result: Result) -> None:
        """Shows a result, complete or not."""

    def end(self, message: str | None) -> None:
        """It is over, with a message if it failed."""


class Results:
    """Creates the results of one visitor, none yet: of each card the newest.

    Arguments:
        jobs: What computes them; without it none are, and `want` does nothing.

    Attributes:
        learner: What trains proposals for the visitor; None: nothing does.
    """

    def __init__(self, jobs: Jobs | None = None) -> None:
        self._jobs = jobs
        self.learner: Learner | None = None
        self._kept: dict[str, Result] = {}
        self._running: dict[str, Request] = {}
        self._refused: dict[str, Request] = {}
        # What could not be computed.
        self._failed: dict[str, Request] = {}
        # Called whenever a result has come or has been called off.
        self.heard: list[Callable[[], None]] = []

    def of(self, name: str) -> Result | None:
        """The newest result of a card, whatever it answers."""
        return self._kept.get(name)

    @property
    def all(self) -> dict[str, Result]:
        """The newest result of each card that has one."""
        return dict(self._kept)

    @property
    def resting(self) -> bool:
        """Whether nothing is being computed."""
        return not self._running

    def is_running(self, name: str) -> bool:
        """Whether something is being computed for a card."""
        return name in self._running

    def failed(self, name: str) -> Request | None:
        """What could not be computed for a card, last."""
        return self._failed.get(name)

    def want(self, card: Receiver, asked: Request | None) -> None:
        """Has a card shown what it asks for: what is there, or what is now computed.

        What the user called off stays so until something else is asked for.
        """
        name = card.name
        if asked is None or self._jobs is None:
            self.cancel(name)
        elif asked not in (self._running.get(name), self._refused.get(name)):
            self._refused.pop(name, None)
            kept = self._kept.get(name)
            if kept is not None and kept.asked == asked and kept.complete:
                self.cancel(name)
                card.take(kept)
                card.end(None)
            else:
                self._start(self._jobs, card, asked)

    def again(self, card: Receiver, asked: Request | None) -> None:
        """As `want`, also for what the user called off."""
        self._refused.pop(card.name, None)
        self.want(card, asked)

    def refuse(self, name: str) -> None:
        """Calls off what is computed for a card, because the user says so."""
        if name in self._running:
            self._refused[name] = self._running[name]
        self.cancel(name)

    def cancel(self, name: str) -> None:
        """Calls off what is computed for a card."""
        if self._running.pop(name, None) is not None and self._jobs is not None:
            self._jobs.cancel(name)
            self._tell()

    def drop(self, asked: Hashable) -> None:
        """Has no one keep what was computed of it for later."""
        if self._jobs is not None:
            self._jobs.engine.drop(asked)

    def dismiss(self, name: str) -> None:
        """Forgets the result of that name."""
        self._kept.pop(name, None)

    def forget(self) -> None:
        """Calls everything off and forgets all results."""
        if self._jobs is not None:
            self._jobs.cancel_all()
        for kept in (self._kept, self._running, self._refused, self._failed):
            kept.clear()

    def _start(self, jobs: Jobs, card: Receiver, asked: Request) -> None:
        self._running[card.name] = asked
        self._failed.pop(card.name, None)
        card.begin()
        jobs.start(
            card.name,
            asked,
            show=partial(self._show, card),
            finish=partial(self._finish, card),
        )

    def _show(self, card: Receiver, value: Any, seconds: float) -> None:
        asked = self._running[card.name]
        self._kept[card.name] = found = Result(asked, value, seconds)
        card.take(found)
        self._tell()

    def _finish(self, card: Receiver, message: str | None) -> None:
        asked = self._running.pop(card.name)
        found = self._kept.get(card.name)
        if message is not None:
            self._failed[card.name] = asked
        if message is None and found is not None and found.asked == asked:
            self._kept[card.name] = found = replace(found, complete=True)
            card.take(found)
        card.end(message)
        self._tell()

    def _tell(self) -> None:
        for hear in self.heard:
            hear()
