r"""What a server has ready before the first visit: problems, the tour and the workers."""

from __future__ import annotations

__all__ = ["look_at_problems", "read", "start_workers"]

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from amci_explorer.compute.runner import Unreachable, runner
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.state.case import Case
from amci_explorer.state.tour import tour


def read(problems: Sequence[str] = ()) -> list[str]:
    """Loads problems from files, and the tour; says what is wrong, a line each, also of workers.

    Arguments:
        problems: FILE.py, FILE.py:NAME or FILE.py=FOLDER, each.
    """
    wrong = []
    loads: list[Callable[[], Any]] = [partial(registry.load_file, text) for text in problems]
    loads += [tour, runner]
    for load in loads:
        try:
            load()
        except ValueError as error:
            wrong.append(registry.in_a_line(error))
    if not wrong:
        registry.serve_files(problems)
    return wrong


async def start_workers() -> None:
    """Starts what computes; pages say where it cannot be reached."""
    with suppress(Unreachable):
        await runner().cluster.start()


def look_at_problems() -> None:
    """Looks once at every problem: the first look takes longest."""
    for name in registry.problems():
        state = Case(name)
        densities(state.problem, registry.chosen(state.settings), *state.settings.pair)
