r"""Background computing: small steps from all visitors take turns, and each can be called off.

Every step of every job is a task of its own in one process-wide pool, put back at the end of the
queue when it is done. So a visitor who comes while another one's curves are under way waits for
one step of some 20 ms, not for the curves.
"""

from __future__ import annotations

__all__ = ["Jobs", "in_spare_time"]

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import torch
from bokeh.document import Document

from app.session import one_message

log = logging.getLogger(__name__)

# One core stays with the server, which must answer sliders meanwhile. PyTorch keeps its number of
# threads per thread: left alone, every worker would spread over all cores.
_pool = ThreadPoolExecutor(
    max_workers=max(1, min(4, (os.cpu_count() or 2) - 1)),
    thread_name_prefix="amci",
    initializer=partial(torch.set_num_threads, 1),
)

# A result is pushed to the page at most this often: painting costs more than a step.
SECONDS_BETWEEN_PUSHES = 0.1
# So long after a look a page that was gone is looked for again.
SECONDS_BETWEEN_LOOKS = 0.2


def in_spare_time(tasks: Iterable[Callable[[], object]]) -> None:
    """Does tasks one by one in the pool, each behind what waits there; a failure is logged."""
    left = iter(tasks)

    def step() -> None:
        task = next(left, None)
        if task is not None:
            try:
                task()
            except Exception:  # nobody waits for it
                log.exception("a task in spare time failed")
            _pool.submit(step)

    _pool.submit(step)


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

    Raises:
        RuntimeError: no loop is given, and none runs in this thread.
    """

    def __init__(self, document: Document, loop: Loop | None = None) -> None:
        self._document = document
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._running: dict[str, _Job] = {}

    def start(
        self,
        name: str,
        steps: Callable[[], Iterator[Any]],
        *,
        show: Callable[[Any], None],
        finish: Callable[[str | None], None],
    ) -> None:
        """Starts a job, and calls off the one of the same name.

        Arguments:
            name: What the job computes.
            steps: Called in a worker thread; gives results, each better than the one before.
            show: Called in the server's thread with the newest result.
            finish: Called there at the end, with a message if the job failed. Not called for a job
                that was called off.
        """
        self.cancel(name)
        self._running[name] = job = _Job(self._document, self._loop, steps, show, finish)
        _pool.submit(job.step)

    def cancel(self, name: str) -> None:
        """Calls a job off; nothing of it is shown any more."""
        job = self._running.pop(name, None)
        if job is not None:
            job.cancelled.set()

    def cancel_all(self) -> None:
        """Calls every job off, when the visitor goes."""
        for name in list(self._running):
            self.cancel(name)


class _Job:
    def __init__(
        self,
        document: Document,
        loop: Loop,
        steps: Callable[[], Iterator[Any]],
        show: Callable[[Any], None],
        finish: Callable[[str | None], None],
    ) -> None:
        self.cancelled = threading.Event()
        self._document, self._loop = document, loop
        self._make_steps = steps
        self._steps: Iterator[Any] | None = None
        self._show, self._finish = show, finish
        self._newest: Any = None
        self._pushed = True
        self._seen = False
        self._last_push = 0.0

    def step(self) -> None:
        """Computes one result and queues the next step; runs in a worker thread."""
        if self.cancelled.is_set():
            return
        if self._page_is_gone():
            self._call(self._loop.call_later, SECONDS_BETWEEN_LOOKS, _pool.submit, self.step)
            return
        try:
            if self._steps is None:
                self._steps = self._make_steps()
            self._newest, self._pushed = next(self._steps), False
        except StopIteration:
            if not self._pushed:
                self._push(partial(self._show, self._newest))
            self._push(partial(self._finish, None))
            return
        except Exception as error:  # whatever it is, the visitor must see it
            log.exception("a background job failed")
            self._push(partial(self._finish, str(error) or type(error).__name__))
            return
        if time.monotonic() - self._last_push >= SECONDS_BETWEEN_PUSHES:
            self._last_push = time.monotonic()
            self._push(partial(self._show, self._newest))
            self._pushed = True
        _pool.submit(self.step)

    def _page_is_gone(self) -> bool:
        """Whether the page was there and is not: the server keeps its session for a while."""
        session = getattr(self._document.session_context, "session", None)
        here = session is None or session.connection_count > 0
        self._seen = self._seen or here
        return self._seen and not here

    def _push(self, deliver: Callable[[], None]) -> None:
        if not self.cancelled.is_set():
            self._call(self._hand_over, deliver)

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        """Has the server's thread call something."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the server has closed its loop
            self.cancelled.set()

    def _hand_over(self, deliver: Callable[[], None]) -> None:
        """Gives the document something to do; runs in the server's thread."""

        def unless_cancelled() -> None:
            if not self.cancelled.is_set():
                with one_message(self._document):
                    deliver()

        if self.cancelled.is_set():
            return
        try:
            self._document.add_next_tick_callback(unless_cancelled)
        except Exception:
            # Bokeh raises different things while and after it takes a session down.
            log.debug("the visitor has gone", exc_info=True)
            self.cancelled.set()
