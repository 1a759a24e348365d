r"""Ctrl-C at a moment of the program's choosing."""

from __future__ import annotations

__all__ = ["deferred_interrupt"]

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C into an answer of the function given; the second interrupts at once.

    Only a program's main thread can do so; elsewhere the function always says no.
    """
    asked = threading.Event()

    def note(signum: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
