r"""The problems on the page and what draws for them: the package's, one's own, and those with
another f.

The server and the processes that compute for it read the same files, see `from_files`. A
problem with another f is found by its name, `tail-1d with f = x1 > theta1`, in any process.
"""

from __future__ import annotations

__all__ = [
    "OWN",
    "Own",
    "add_variant",
    "hand_in",
    "opening",
    "problem",
    "problems",
    "proposals",
    "renew_variant",
    "revision",
    "snapshots",
    "split",
    "variants",
    "warnings",
]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

import amci_core as amci
from amci_core.flows import HistoryEntry, Proposals
from amci_core.flows.proposals import DEFENSIVE
from amci_core.models import Problem
from amci_core.proposals import ORACLE, available_variants
from amci_core.target import OwnTarget, fallback_proposals, own_name
from amci_explorer.problems import session_proposals

# Problems with another f that are kept, of all visitors together.
TARGETS_KEPT = 64
BETWEEN = own_name("", "")
LONGEST_VARIANT = 40


@dataclass
class Own:
    """A problem of one's own.

    Arguments:
        problem: It.
        proposals: What draws for it, by variant, the default first.
        file: The file that it is from, as `amci.load_problem` takes it; empty where it is not.
        folders: The folders that the proposals are from, by variant.
        warnings: What a check of its definition found, a sentence each.
    """

    problem: Problem
    proposals: dict[str, Proposals]
    file: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


# The problems handed in to this process, by name.
OWN: dict[str, Own] = {}


def hand_in(
    problem: Problem,
    *proposals: Proposals,
    file: str = "",
    folders: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
) -> None:
    """Adds a problem of one's own to the page, in this process.

    Arguments:
        problem: It; one handed in before under its name makes way.
        proposals: What draws for it, the default first; of any kind that can be called. Without
            any its optimal proposals do, where they are known, or its reference.
        file: See `Own`.
        folders: See `Own`.
        warnings: See `Own`.

    Raises:
        ValueError: its name is taken, a range of y or theta has no end, proposals are for another
            problem, or a method of it returns what does not fit.
    """
    if problem.name in amci.problems() or BETWEEN in problem.name:
        raise ValueError(f"name: expected one of its own, got {problem.name!r}")
    for made in proposals:
        if made.problem != problem.name:
            raise ValueError(
                f"proposals: expected ones for {problem.name}, got ones for {made.problem}"
            )
    variables = [each for each in (problem.y, problem.theta) if each is not None]
    for each in variables:
        if not all(map(math.isfinite, each.typical_range)):
            raise ValueError(f"{each.name}: its range has no end; declare the part that is shown")
    problem.typical_case()
    known = {made.variant: made for made in (*proposals, *untrained(problem, bool(proposals)))}
    OWN[problem.name] = Own(problem, known, file, folders or {}, warnings)


def untrained(problem: Problem, trained: bool = False) -> tuple[Proposals, ...]:
    """What draws for a problem before anything is trained for it.

    Arguments:
        problem: The problem.
        trained: Whether there are trained ones, which the reference need not stand in for.
    """
    names = (ORACLE,) if "q1_plus" in (problem.optimal_proposals() or {}) else ()
    names = names if trained else (*names, DEFENSIVE)
    return tuple(amci.load_proposals(problem, variant=name) for name in names)


def opening() -> str | None:
    """The problem that the page opens with where the server was given one of one's own."""
    _read()
    return next((name for name, each in OWN.items() if each.file), None)


def problems() -> tuple[str, ...]:
    """The names of all problems that there are proposals for."""
    _read()
    return *(name for name in amci.problems() if available_variants(name)), *OWN


def split(name: str) -> tuple[str, str]:
    """A problem's name, without another f, and that f; which is empty where it is the own one."""
    original, _, text = name.partition(BETWEEN)
    return original, text


def problem(name: str, f: str = "") -> Problem:
    """The problem of that name; with the expression f in the place of its own, if there is one.

    Raises:
        ValueError: no problem has that name, or f is no expression for it.
    """
    _read()
    original, text = split(name)
    found = OWN[original].problem if original in OWN else amci.problem(original)
    text = " ".join((f or text).split())
    return _target(found, text) if text else found


def variants(name: str, visitor: object | None = None) -> tuple[str, ...]:
    """What kinds of proposals there are for a problem, the default first.

    Arguments:
        name: The problem's name.
        visitor: Whose own are listed as well.
    """
    original, text = split(name)
    if text:
        known: tuple[str, ...] = (_fallback_proposals(_of(name)).variant,)
    else:
        known = tuple(OWN[original].proposals) if name in OWN else available_variants(name)
    return (*known, *session_proposals.names(name, visitor))


def proposals(name: str, variant: str | None = None, revision: int = 0) -> Proposals:
    """The proposals of that variant; by default the first.

    Arguments:
        name: The problem's name.
        variant: The variant.
        revision: In a process that computes: which of those that the variant's name had.

    Raises:
        ValueError: there are none.
    """
    variant = variant or variants(name)[0]
    found = session_proposals.get(name, variant, revision)
    if found is not None:
        return found
    if not split(name)[1] and name not in OWN:
        return _shipped(name, variant)
    if variant not in variants(name):
        raise ValueError(f"variant: expected one of {', '.join(variants(name))}, got {variant!r}")
    return OWN[name].proposals[variant] if name in OWN else _fallback_proposals(_of(name))


def warnings(name: str) -> tuple[str, ...]:
    """What a check of a problem's definition found, a sentence each."""
    return OWN[name].warnings if name in OWN else ()


def snapshots(name: str) -> tuple[HistoryEntry, ...]:
    """The film of a training; empty where there is none."""
    return () if name in OWN or split(name)[1] else amci.load_history(name)


def add_variant(
    problem_name: str, variant: str, proposals: Proposals, *, visitor: object | None = None
) -> str:
    """Adds proposals to a problem while the page runs, and returns the name they are listed by.

    Every process that computes is sent them with the work that needs them.

    Arguments:
        problem_name: The problem's name; with another f the one that `State.problem` has then.
        variant: What they are called; a number follows where that was given before.
        proposals: They; what pickle takes.
        visitor: The state of the page that lists them; None: every page does.

    Raises:
        ValueError: they are for another problem, or the name is empty or too long.
    """
    if proposals.problem != problem_name:
        raise ValueError(
            f"proposals: expected ones for {problem_name}, got ones for {proposals.problem}"
        )
    if not 0 < len(variant) <= LONGEST_VARIANT:
        raise ValueError(
            f"variant: expected 1 to {LONGEST_VARIANT} characters, got {len(variant)}"
        )
    return session_proposals.add(
        problem_name, variant, proposals, visitor, taken=variants(problem_name)
    )


def renew_variant(problem_name: str, variant: str, proposals: Proposals) -> None:
    """Has a variant that `add_variant` gave a name stand for other proposals, such as better ones.

    Results of the ones before are not taken for those of these: `revision` differs.

    Arguments:
        problem_name: The problem's name.
        variant: The name that `add_variant` returned; one that is gone stays so.
        proposals: They; what pickle takes.
    """
    session_proposals.renew(problem_name, variant, proposals)


def revision(problem_name: str, variant: str) -> int:
    """Which proposals a variant's name stands for now; 0 for what no page has added."""
    return session_proposals.revision(problem_name, variant)


@lru_cache(TARGETS_KEPT)
def _target(problem: Problem, text: str) -> OwnTarget:
    return amci.with_target(problem, text)


def _of(name: str) -> OwnTarget:
    """The problem with another f, by its name."""
    original, text = split(name)
    return _target(problem(original), text)


@lru_cache(TARGETS_KEPT)
def _fallback_proposals(target: OwnTarget) -> Proposals:
    return fallback_proposals(target, proposals(target.original.name))


@cache
def _shipped(name: str, variant: str | None) -> Proposals:
    """What `amci.load_proposals` gives; it looks for the files each time."""
    return amci.load_proposals(name, variant=variant)


def _read() -> None:
    """Reads the files that the environment names, once."""
    from amci_explorer.problems.from_files import read_environment

    read_environment()
