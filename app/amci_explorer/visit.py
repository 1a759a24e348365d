r"""What happens at a visit: the page is made; and what it needs, before the first session."""

from __future__ import annotations

__all__ = ["open_page", "prepare", "start_workers"]

import logging
import sys
from collections.abc import Sequence
from contextlib import suppress

import panel as pn

import amci_explorer.server.guard  # noqa: F401  it begins when it is imported
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.runner import Unreachable, runner
from amci_explorer.explorer import Explorer
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.server.session import callback, weakly
from amci_explorer.shell import page
from amci_explorer.state.state import State, decoded
from amci_explorer.state.tour import TourError, tour
from amci_explorer.views.style import VARIABLES

log = logging.getLogger(__name__)
FAILED = "The page could not be made. The server's log says why."


def prepare(problems: Sequence[str] = ()) -> list[str]:
    """Loads problems from files, and the tour; says what is wrong with them, a line each.

    Looks once at every problem: the first look takes up to five seconds.

    Arguments:
        problems: FILE.py, FILE.py:NAME or FILE.py=FOLDER, each.
    """
    wrong = []
    for text in problems:
        try:
            registry.load_file(text)
        except ValueError as error:
            wrong.append(registry.in_a_line(error))
    try:
        tour()
    except TourError as error:
        wrong.append(registry.in_a_line(error))
    if wrong:
        return wrong
    registry.serve_files(problems)
    for name in registry.problems():
        state = State(name)
        proposals = computations_of(name).proposals(state.settings)
        densities(state.problem, proposals, *state.settings.pair)
    return []


async def start_workers() -> None:
    """Starts what computes, before the first visit; pages say where it cannot be reached."""
    with suppress(Unreachable):
        await runner().cluster.start()


def open_page() -> None:
    """Makes the page of the visit that runs the script that calls this."""
    pn.extension(global_css=[VARIABLES])
    document = pn.state.curdoc
    try:
        registry.serve_files(sys.argv[1:])
        explorer = Explorer(document, decoded(pn.state.session_args))
        pn.config.exception_handler = weakly(explorer.report)
        pn.state.on_session_destroyed(weakly(explorer.close))
        explorer.start()
        pn.state.onload(callback(explorer.tabs.fill))
        page(explorer, document).servable(title="AMCI Explorer")
    except Exception:
        # Panel would show where in the server it failed.
        log.exception("the page could not be made")
        pn.pane.Str(FAILED).servable()
