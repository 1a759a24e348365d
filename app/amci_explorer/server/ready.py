r"""What a first visit, or turn to any problem, would wait for: there before anybody asks.

As a plugin of `panel serve` it is imported before the server answers, and with it all that a page
is made of; problems from files are then loaded and checked.
"""

from __future__ import annotations

__all__ = ["ROUTES", "get_ready"]

import logging
import threading
from functools import cache
from typing import Any

import amci_explorer.explorer  # noqa: F401
from amci_explorer.compute.store import store_of
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.problems.registry import serve_files
from amci_explorer.state.state import State

log = logging.getLogger(__name__)

# Panel asks a plugin for routes of its own.
ROUTES: list[Any] = []


@cache
def get_ready() -> threading.Thread:
    """Looks once at every problem, one after the other, in a thread of its own."""
    thread = threading.Thread(target=_look_at_all, name="ready", daemon=True)
    thread.start()
    return thread


serve_files()


def _look_at_all() -> None:
    for name in registry.problems():
        try:
            state = State(name)
            state.level_range()
            proposals = store_of(name).proposals(state.settings)
            densities(state.problem, proposals, *state.settings.pair)
        except Exception:  # nobody waits for it
            log.exception("the densities of %s could not be made ready", name)
