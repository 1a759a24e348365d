r"""A page's results, each with the request that it answers, which alone are shown and saved."""

from __future__ import annotations

__all__ = ["Result", "Results"]

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from contextvars import Context
from functools import partial
from typing import Any

from amci_explorer.compute import runner
from amci_explorer.compute.requests import Request
from amci_explorer.compute.runner import Result, Unreachable
from amci_explorer.server.session import browser_of, on_page

# Without workers a card asks again after a second.
SECONDS_TO_ASK_AGAIN = 1.0


class Results:
    """Creates the results of one page, none yet.

    What wants a result is a card: it has a `name`, and of each name the newest result is kept. It
    is called `begin()`, then `take(result)`, complete or not, and `end(message)`, with a message
    if it failed.

    Arguments:
        document: The page's document. Without it nothing is computed.

    Attributes:
        training: The `TrainingSession` of the page; None: it has none.
        heard: Called when a result has come or is cancelled.
        all: The newest result of each card that has one, for any request.
        running: What is being computed, by the card's name.
        failed: The last request of each card, if it failed.
    """

    def __init__(self, document: Any = None) -> None:
        self._document = document
        self.training: Any = None
        self.heard: list[Callable[[], None]] = []
        self.all: dict[str, Result] = {}
        self.running: dict[str, Request] = {}
        # By the card's name: what brings its results.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # Cards that wait for the first result of a request.
        self._first: set[str] = set()
        # The last request of a card, if the user cancelled it.
        self._refused: dict[str, Request] = {}
        self.failed: dict[str, Request] = {}

    def want(self, card: Any, asked: Request | None) -> None:
        """Has a card shown a request's result, computed if need be.

        A request whose first result is on its way gets to show it, so that a card can follow a
        handle; of those that come meanwhile the last one is next. A request that the user
        cancelled is not computed until another one came.
        """
        name = card.name
        if asked is None or self._document is None:
            self.cancel(name)
        elif asked not in (self.running.get(name), self._refused.get(name)):
            self._refused.pop(name, None)
            self.failed.pop(name, None)
            found = self.all.get(name)
            if found is None or found.asked != asked or not found.complete:
                found = runner.runner().finished(asked)
            if found is not None or name not in self._first:
                self.cancel(name)
            self.running[name] = asked
            if found is not None:
                self._bring(card, found)
                return
            card.begin()
            if name not in self._first:
                self._first.add(name)
                self._tasks[name] = self._start(card)

    def again(self, card: Any, asked: Request | None) -> None:
        """As `want`, also if the user cancelled it."""
        self._refused.pop(card.name, None)
        self.want(card, asked)

    def refuse(self, name: str) -> None:
        """Cancels a card's request, because the user says so."""
        if name in self.running:
            self._refused[name] = self.running[name]
        self.cancel(name)

    def cancel(self, name: str) -> None:
        """Cancels a card's request."""
        self._first.discard(name)
        if self.running.pop(name, None) is not None:
            self._tasks.pop(name).cancel()
            self._tell()

    def forget(self) -> None:
        """Cancels all requests and forgets all results."""
        for task in self._tasks.values():
            task.cancel()
        of_cards = self.running, self._tasks, self._first, self._refused, self.failed
        for known in (self.all, *of_cards):
            known.clear()

    def _start(self, card: Any) -> asyncio.Task[None]:
        # In a context of its own: else what the workers' client keeps would keep the page.
        loop = asyncio.get_running_loop()
        return loop.create_task(self._follow(card), context=Context())

    async def _follow(self, card: Any) -> None:
        """Brings a request's results to the page, each once the page has taken the one before."""
        name = card.name
        while self._tasks.get(name) is asyncio.current_task():
            asked = self.running[name]
            try:
                found = runner.runner().results(asked, browser_of(self._document))
                async with aclosing(found):
                    async for result in found:
                        await on_page(self._document, partial(self._bring, card, result))
                        if self.running.get(name) != asked:
                            break
            except Unreachable as error:
                text = f"{error} It is asked again every second."
                await on_page(self._document, partial(card.end, text))
                await asyncio.sleep(SECONDS_TO_ASK_AGAIN)
            except Exception as error:
                message = str(error) or type(error).__name__
                await on_page(self._document, partial(self._finish, card, asked, message))

    def _bring(self, card: Any, result: Result) -> None:
        """Shows a result; once it is complete its request is over."""
        if self.running.get(card.name) == result.asked:
            self._first.discard(card.name)
        try:
            self.all[card.name] = result
            card.take(result)
            self._tell()
        finally:
            if result.complete:
                self._finish(card, result.asked, None)

    def _finish(self, card: Any, asked: Request, message: str | None) -> None:
        """A request is over; the card's next one may wait already."""
        if message is not None:
            self.failed[card.name] = asked
        if self.running.get(card.name) == asked:
            del self.running[card.name]
            self._tasks.pop(card.name, None)
            self._first.discard(card.name)
            card.end(message)
        self._tell()

    def _tell(self) -> None:
        for hear in self.heard:
            hear()
