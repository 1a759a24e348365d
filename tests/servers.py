"""A server's event loop and its document, in the place of real ones."""

import asyncio
import contextlib
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

from bokeh.document import Document

PATIENCE = 100


def source(function):
    """Where a function is, for a message."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else str(function)


def run_apart(coroutine):
    """Runs a coroutine in a thread of its own: a browser may have an event loop in this one."""
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, coroutine).result()


class Server(Document):
    """A server's event loop and its document: callbacks run one after the other, on demand."""

    def __init__(self):
        super().__init__()
        self._soon = queue.SimpleQueue()
        self.waiting = []
        self.told_by = set()
        self.gone = False
        self.session = None

    def call_soon_threadsafe(self, callback, *arguments):
        self._soon.put(partial(callback, *arguments))

    def call_later(self, delay, callback, *arguments):
        # As for timeouts: by the next turn the time is over.
        self.call_soon_threadsafe(callback, *arguments)

    @property
    def session_context(self):
        return SimpleNamespace(session=self.session)

    def add_timeout_callback(self, callback, milliseconds):
        # By the next turn the time is over.
        if self.gone:
            raise RuntimeError("the session is gone")
        self.told_by.add(threading.current_thread())
        self.waiting.append(callback)

    def turn(self, count=1):
        """So many turns of the loop."""
        for _ in range(count):
            with contextlib.suppress(queue.Empty):
                self._soon.get(timeout=0.01)()

    def run_until(self, true):
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, f"still waiting for {source(true)}"
            self.turn()
            waiting, self.waiting = self.waiting, []
            for callback in waiting:
                callback()
