r"""The background jobs of a visitor: each a computation in parts, whose results grow on the page.

A job is an iterator of results in parts (`amci_core.parallel.Stream`) that is never run as such:
its parts are done in any order by whichever process is free, and what the page shows is made of
the first of them, in order, by such a process as well.
"""

from __future__ import annotations

__all__ = ["Jobs"]

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any, Protocol

from bokeh.document import Document

from amci_explorer.compute.engine import Engine, Task, Work, engine
from amci_explorer.compute.session import TURNS, guarded
from amci_explorer.compute.under_way import SharedTask
from amci_explorer.words.settings import too_much

log = logging.getLogger(__name__)

# A visitor's jobs together may cost so many times as much as one.
TOGETHER = 2.0
# So long after a look a page that was gone is looked for again.
SECONDS_BETWEEN_LOOKS = 0.2


class Loop(Protocol):
    """The part of the server's event loop that jobs need."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any:
        """Calls the callback in the server's thread; may be told so by any thread."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Any:
        """Calls the callback in the server's thread, some seconds later."""


class Jobs:
    """Creates the background jobs of one visitor: of each name at most one, the newest.

    Each result enters the document in one message, and from the event loop's thread alone. Told by
    another thread while the server collects changes, Bokeh can put the news on a list that is just
    being sent, and keep it until something else happens: the last result would never show.

    Arguments:
        document: Where results are pushed to.
        loop: The server's event loop; by default the one that runs in this thread.
        of: What computes; by default this process's `engine`.

    Raises:
        RuntimeError: no loop is given, and none runs in this thread.
    """

    def __init__(
        self, document: Document, loop: Loop | None = None, *, of: Engine | None = None
    ) -> None:
        self._document = document
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self.engine = of or engine()
        self._running: dict[str, _Job] = {}
        self._seen = self._waiting = False

    def start(
        self,
        name: str,
        work: Work,
        *,
        show: Callable[[Any, float], None],
        finish: Callable[[str | None], None],
    ) -> None:
        """Starts a job, and calls off the one of the same name.

        Arguments:
            name: What the job computes.
            work: It, with what it depends on.
            show: Called in the server's thread with the newest result, and the seconds that it
                took, for whomever it was computed.
            finish: Called there at the end, with a message if the job failed. Not called for a job
                that was called off.
        """
        with self.engine.lock:
            self.cancel(name)
            self._running[name] = job = _Job(self, show, finish)
            known = self.engine.known(work)
            under_way = self.engine.under_way.get(work) or SharedTask(self.engine, work, name)
            allowed = self.allowed(job)
            if known is not None:
                job.complete(*known)
            elif under_way.cost > allowed:
                job.end(too_much(work.less, under_way.cost, allowed, self.engine.budget))
            else:
                job.wait_for(under_way)

    def allowed(self, job: _Job) -> float:
        """The seconds that a job may cost, beside what is under way."""
        others = sum(each.cost for each in self._running.values() if each is not job)
        return min(self.engine.budget, TOGETHER * self.engine.budget - others)

    def cancel(self, name: str) -> None:
        """Calls a job off: what is not yet submitted never is, and nothing of it is shown."""
        with self.engine.lock:
            job = self._running.pop(name, None)
            if job is not None:
                job.cancelled = True
                job.leave()

    def fail(self, message: str) -> None:
        """Ends every job with a message."""
        for job in list(self._running.values()):
            job.end(message)

    def cancel_all(self) -> None:
        """Calls every job off, when the visitor goes."""
        for name in list(self._running):
            self.cancel(name)

    def next_task(self) -> Task | None:
        """What a worker can do next for this visitor; jobs take turns. None: nothing for now."""
        if not self._running:
            return None
        if self._page_is_gone():
            if not self._waiting:
                self._waiting = True
                self._soon(self._loop.call_later, SECONDS_BETWEEN_LOOKS, self._look_again)
            return None
        for name, job in list(self._running.items()):
            task = None if job.under_way is None else job.under_way.next_task(self)
            if task is not None:
                # The other jobs come first the next time.
                self._running[name] = self._running.pop(name)
                return task
        return None

    def push(self, job: _Job, deliver: Callable[[], None]) -> None:
        """Has the page told of a job; may be told so by any thread."""
        if not job.cancelled:
            self._soon(self._hand_over, job, deliver)

    def _soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Has the server's thread call something."""
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the server has closed its loop
            self.cancel_all()

    def _look_again(self) -> None:
        self._waiting = False
        self.engine.look(self)

    def _page_is_gone(self) -> bool:
        """Whether the page was there and is not: the server keeps its session for a while."""
        session = getattr(self._document.session_context, "session", None)
        here = session is None or session.connection_count > 0
        self._seen = self._seen or here
        return self._seen and not here

    def _hand_over(self, job: _Job, deliver: Callable[[], None]) -> None:
        """Gives the document something to do; runs in the server's thread."""

        def unless_cancelled() -> None:
            # Two turns may come in another order than they were given.
            next_one = job.told.popleft()
            job.pushing = False
            if not job.cancelled:
                with TURNS.answering(), guarded(self._document):
                    next_one()

        if job.cancelled:
            return
        job.told.append(deliver)
        try:
            self._document.add_timeout_callback(unless_cancelled, ceil(1000 * TURNS.wait()))
        except Exception:
            # Bokeh raises different things while and after it takes a session down.
            log.debug("the visitor has gone", exc_info=True)
            self.cancel_all()


class _Job:
    """What one visitor waits for."""

    def __init__(
        self,
        visitor: Jobs,
        show: Callable[[Any, float], None],
        finish: Callable[[str | None], None],
    ) -> None:
        self.visitor, self._show, self._finish = visitor, show, finish
        self.cancelled = self.pushing = False
        # What the page is still to be told, in this order.
        self.told: deque[Callable[[], None]] = deque()
        # Until it has ended.
        self.under_way: SharedTask | None = None

    @property
    def cost(self) -> float:
        """What it takes in all, in seconds, as far as is known; none once it has ended."""
        return 0.0 if self.under_way is None else self.under_way.cost

    def allowed(self) -> float:
        return self.visitor.allowed(self)

    def wait_for(self, under_way: SharedTask) -> None:
        """Waits for a computation."""
        self.under_way = under_way
        under_way.join(self)

    def leave(self) -> None:
        """Waits no longer."""
        if self.under_way is not None:
            self.under_way.leave(self)
            self.under_way = None

    def show(self, result: Any, seconds: float) -> None:
        self.pushing = True
        self.visitor.push(self, partial(self._show, result, seconds))

    def complete(self, result: Any, seconds: float) -> None:
        self.visitor.push(self, partial(self._show, result, seconds))
        self.end(None)

    def end(self, message: str | None) -> None:
        """Tells the page that it is over."""
        self.leave()
        self.visitor.push(self, partial(self._finish, message))
