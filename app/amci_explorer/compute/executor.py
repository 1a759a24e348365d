r"""Processes that do not run the main script."""

from __future__ import annotations

__all__ = ["without_main"]

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

# One process is started at a time.
_STARTING = threading.RLock()


@contextmanager
def without_main() -> Iterator[None]:
    """Has a process that is started inside not run the main script.

    That may start a server without asking.
    """
    with _STARTING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
