r"""The problems on the page and what draws for them: the package's, and one's own, handed in.

The server and the processes that compute for it each run the Python files that the environment
variable `AMCI_PROBLEMS` names. Such a file defines a problem and ends with

    hand_in(New(), amci_core.load_proposals(New(), folder="where/they/are"))
"""

from __future__ import annotations

__all__ = ["FILES", "OWN", "hand_in", "problem", "problems", "proposals", "snapshots", "variants"]

import math
import os
from functools import cache
from runpy import run_path

import amci_core as amci
from amci_core.flows import Proposals, Snapshot
from amci_core.models import Problem
from amci_core.proposals import available_variants

# What names the files, one after another as in PATH.
FILES = "AMCI_PROBLEMS"
# The problems handed in to this process, by name, with the proposals for each by variant.
OWN: dict[str, tuple[Problem, dict[str, Proposals]]] = {}


def hand_in(problem: Problem, *proposals: Proposals) -> None:
    """Adds a problem of one's own to the page, in this process.

    Arguments:
        problem: It; one handed in before under its name makes way.
        proposals: What draws for it, the default first; of any kind that can be called.

    Raises:
        ValueError: its name is taken, it has nothing to move or no end to that, there are no
            proposals or they are for another problem, or a method of it returns what does not fit.
    """
    if problem.name in amci.problems():
        raise ValueError(f"problem: expected a name of its own, got {problem.name!r}")
    if not proposals:
        raise ValueError(f"proposals: expected some for {problem.name}, got none")
    for made in proposals:
        if made.problem != problem.name:
            raise ValueError(
                f"proposals: expected ones for {problem.name}, got ones for {made.problem}"
            )
    variables = [each for each in (problem.y, problem.theta) if each is not None]
    if not variables:
        raise ValueError(f"problem: expected y or theta to move, {problem.name} has neither")
    for each in variables:
        if not all(map(math.isfinite, each.usual_range)):
            raise ValueError(f"{each.name}: its range has no end; declare the part that is shown")
    problem.typical_case()
    OWN[problem.name] = problem, {made.variant: made for made in proposals}


def problems() -> tuple[str, ...]:
    """The names of all problems that there are proposals for."""
    _read()
    return *(name for name in amci.problems() if available_variants(name)), *OWN


def problem(name: str) -> Problem:
    """The problem of that name.

    Raises:
        ValueError: no problem has that name.
    """
    _read()
    return OWN[name][0] if name in OWN else amci.problem(name)


def variants(name: str) -> tuple[str, ...]:
    """What kinds of proposals there are for a problem, the default first."""
    return tuple(OWN[name][1]) if name in OWN else available_variants(name)


def proposals(name: str, variant: str | None = None) -> Proposals:
    """The proposals of that variant; by default the first."""
    if name not in OWN:
        return _shipped(name, variant)
    return OWN[name][1][variant or variants(name)[0]]


def snapshots(name: str) -> tuple[Snapshot, ...]:
    """The film of a training; empty where there is none."""
    return () if name in OWN else amci.load_snapshots(name)


@cache
def _shipped(name: str, variant: str | None) -> Proposals:
    """What `amci.load_proposals` gives; it looks for the files each time."""
    return amci.load_proposals(name, variant=variant)


@cache
def _read() -> None:
    """Runs the files that the environment names, once."""
    for path in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        run_path(path)
