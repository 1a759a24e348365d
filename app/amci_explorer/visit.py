r"""What happens at a visit: the page is made; and what it needs, before anybody comes."""

from __future__ import annotations

__all__ = ["open_page", "prepare", "start_workers"]

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from functools import cache

import panel as pn

import amci_explorer.server.guard  # noqa: F401  it begins when it is imported
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.runner import Unreachable, runner
from amci_explorer.explorer import Explorer
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.server.session import building, callback, weakly
from amci_explorer.shell import page
from amci_explorer.state.state import State, decoded
from amci_explorer.state.tour import TourError, tour
from amci_explorer.views.style import VARIABLES

log = logging.getLogger(__name__)
# Other problems are made ready once the first visitor has been answered.
SECONDS_AT_REST = 10
FAILED = "The page could not be made. The server's log says why."


def prepare(problems: Sequence[str] = ()) -> list[str]:
    """Loads problems from files, and the tour; says what is wrong with them, a line each.

    Arguments:
        problems: FILE.py, FILE.py:Class or FILE.py=FOLDER, each.
    """
    wrong = []
    for text in problems:
        try:
            registry.load_file(text)
        except ValueError as error:
            wrong.append(registry.in_a_line(error))
    registry.serve_files([] if wrong else problems)
    try:
        tour()
    except TourError as error:
        wrong.append(registry.in_a_line(error))
    return wrong


async def start_workers() -> None:
    """Starts what computes, before the first visit; pages say where it cannot be reached."""
    with suppress(Unreachable):
        await runner().cluster.start()


def show() -> None:
    """Makes the page of the visit that runs this script."""
    document = pn.state.curdoc
    registry.serve_files(sys.argv[1:])
    with building(document):
        explorer = Explorer(document, decoded(pn.state.session_args))
    pn.config.exception_handler = weakly(explorer.report)
    pn.state.onload(callback(explorer.start))
    # In no visit's context, which would be kept.
    asyncio.get_running_loop().call_later(SECONDS_AT_REST, get_ready, context=Context())
    pn.state.on_session_destroyed(weakly(explorer.close))
    page(explorer, document).servable(title="AMCI Explorer")


def open_page() -> None:
    """Answers the visit that runs the script that calls this."""
    pn.extension(raw_css=[VARIABLES])
    try:
        show()
    except Exception:
        # Panel would show where in the server it failed.
        log.exception("the page could not be made")
        pn.pane.Str(FAILED).servable()


@cache
def get_ready() -> asyncio.Task[None]:
    """Looks once at every problem, one after the other."""
    return asyncio.create_task(_look_at_all())


async def _look_at_all() -> None:
    for name in registry.problems():
        try:
            # Here: param opens the class of a state for changes, and so of those of all threads.
            state = State(name)
            await asyncio.to_thread(_look_at, state)
        except Exception:  # nobody waits for it
            log.exception("the densities of %s could not be made ready", name)


def _look_at(state: State) -> None:
    state.level_range()
    proposals = computations_of(state.problem.name).proposals(state.settings)
    densities(state.problem, proposals, *state.settings.pair)
