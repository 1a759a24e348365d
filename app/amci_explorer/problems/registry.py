r"""The problems on the page and their proposals: shipped, from files, and with another f.

The server and its workers read the same files, which the environment names. A problem with another
f is found by its name, `tail-1d with f = x1 > theta1`, in any process.
"""

from __future__ import annotations

__all__ = [
    "OWN",
    "Own",
    "add_variant",
    "command_name",
    "hand_in",
    "history",
    "opening",
    "problem",
    "problems",
    "proposals",
    "renew_variant",
    "revision",
    "serve_files",
    "split",
    "swept",
    "terms",
    "troubles",
    "untrained",
    "variants",
    "warnings",
]

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

import amci_core as amci
from amci_core.estimators.draws import TERMS
from amci_core.evaluation.runs import default_estimators
from amci_core.flows import HistoryEntry, Proposals
from amci_core.flows.proposals import DEFENSIVE
from amci_core.models import Problem
from amci_core.proposals import ORACLE, available_variants
from amci_core.target import OwnTarget, fallback_proposals, own_name
from amci_explorer.problems import session_proposals
from amci_explorer.problems.files import FILES, Source, in_a_line, named

# Problems with another f that are kept, of all sessions together.
TARGETS_KEPT = 64
BETWEEN = own_name("", "")
LONGEST_VARIANT = 40


@dataclass
class Own:
    """A problem of a user's own.

    Arguments:
        problem: The problem.
        proposals: Its proposals by variant, the default first.
        file: The file that it is from, as `amci.load_problem` takes it; empty if it is from none.
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
# Sources that this process has read, with what is wrong, a line each; and those with a problem.
_READ: dict[str, list[str]] = {}
_LISTED: list[str] = []
# The files that problems are from, with their whole path.
_FILES: dict[str, str] = {}


def hand_in(
    problem: Problem,
    *proposals: Proposals,
    file: str = "",
    folders: Mapping[str, str] | None = None,
    warnings: tuple[str, ...] = (),
) -> None:
    """Adds a problem of your own to the page, in this process.

    Arguments:
        problem: The problem; it replaces one that was handed in under its name.
        proposals: Its proposals, the default first; by default the optimal ones if they are known,
            or the defensive density.
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
    for each in (problem.y, problem.theta):
        if each is not None and not all(map(math.isfinite, each.typical_range)):
            raise ValueError(f"{each.name}: its range has no end; declare the part that is shown")
    problem.typical_case()
    known = {made.variant: made for made in (*proposals, *untrained(problem, bool(proposals)))}
    OWN[problem.name] = Own(problem, known, file, folders or {}, warnings)


def untrained(problem: Problem, trained: bool = False) -> tuple[Proposals, ...]:
    """The proposals that a problem has before anything is trained for it.

    Arguments:
        problem: The problem.
        trained: Whether there are trained ones, which make the defensive density needless.
    """
    names = (ORACLE,) if "q1_plus" in (problem.optimal_proposals() or {}) else ()
    names = names if trained else (*names, DEFENSIVE)
    return tuple(amci.load_proposals(problem, variant=name) for name in names)


def serve_files(texts: Sequence[str] = ()) -> None:
    """Loads and checks the files that the environment names, and more; reports faults on stderr.

    The good ones then stand in the environment, where workers that are started later find them.

    Arguments:
        texts: FILE.py, FILE.py:Class or FILE.py=FOLDER, each.
    """
    for text in (*named(os.environ.get(FILES, "")), *texts):
        for line in _read(text, check=True):
            print(f"AMCI Explorer: {line}", file=sys.stderr, flush=True)
    if _READ:
        os.environ[FILES] = os.pathsep.join(_LISTED)


def troubles() -> list[str]:
    """What is wrong with the files, a line each."""
    return [line for lines in _READ.values() for line in lines]


def opening() -> str | None:
    """The problem that the page opens with if the server was given one from a file."""
    return next((name for name, each in _own().items() if each.file), None)


def problems() -> tuple[str, ...]:
    """The names of all problems that there are proposals for."""
    return *(name for name in amci.problems() if available_variants(name)), *_own()


def split(name: str) -> tuple[str, str]:
    """A problem's name without another f, and that f, empty if it has its own."""
    original, _, text = name.partition(BETWEEN)
    return original, text


def problem(name: str, f: str = "") -> Problem:
    """The problem of that name; with the expression f in the place of its own, if there is one.

    Raises:
        ValueError: no problem has that name, or f is no expression for it.
    """
    original, text = split(name)
    own = _own().get(original)
    found = amci.problem(original) if own is None else own.problem
    text = " ".join((f or text).split())
    return _target(found, text) if text else found


def warnings(name: str) -> tuple[str, ...]:
    """What a check of a problem's definition found, a sentence each."""
    return OWN[name].warnings if name in OWN else ()


def variants(name: str, session: object | None = None) -> tuple[str, ...]:
    """The kinds of proposals that there are for a problem, the default first.

    Arguments:
        name: The problem's name.
        session: The state of the page whose own are listed as well.
    """
    if split(name)[1]:
        known: tuple[str, ...] = (_fallback_proposals(name).variant,)
    else:
        own = _own().get(name)
        known = available_variants(name) if own is None else tuple(own.proposals)
    return (*known, *session_proposals.names(name, session))


def proposals(name: str, variant: str | None = None, revision: int = 0) -> Proposals:
    """The proposals of that variant; by default the first.

    Arguments:
        name: The problem's name.
        variant: The variant.
        revision: In a worker: which of those that the variant's name had.

    Raises:
        ValueError: there are none.
    """
    own = _own().get(name)
    variant = variant or variants(name)[0]
    found = session_proposals.get(name, variant, revision)
    if found is not None:
        return found
    if split(name)[1]:
        return _fallback_proposals(name)
    return _shipped(name, variant) if own is None else own.proposals[variant]


def command_name(name: str) -> str:
    """The problem, without another f, as the command line names it: FILE.py:Class if it is own.

    Raises:
        ValueError: it is from no file.
    """
    if name not in OWN:
        return name
    if name not in _FILES:
        raise ValueError(f"{name} was handed in by a program; give the server its file to train")
    return _FILES[name]


def history(name: str) -> tuple[HistoryEntry, ...]:
    """The checkpoints of the default proposals' training; empty if none are stored."""
    return () if name in OWN or split(name)[1] else amci.load_history(name)


def terms(name: str) -> tuple[str, ...]:
    """The terms of a problem that have proposals to draw from."""
    return tuple(t for t, q in zip(TERMS, proposals(name).as_tuple, strict=True) if q is not None)


def swept(name: str) -> tuple[str, ...]:
    """The estimators of a sweep over a problem's cases."""
    return default_estimators(problem(name), proposals(name))


def add_variant(
    problem_name: str, variant: str, proposals: Proposals, *, session: object | None = None
) -> str:
    """Adds proposals to a problem while the page runs, and returns the name they are listed by.

    Arguments:
        problem_name: The problem's name; with another f the one that `State.problem` has then.
        variant: Their name; a number is appended if that was given before.
        proposals: They; anything that pickle takes.
        session: The state of the page that lists them; None: every page does.

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
    taken = variants(problem_name)
    return session_proposals.add(problem_name, variant, proposals, session, taken=taken)


# Better proposals under a name that `add_variant` gave, and which ones a name has now: results of
# earlier revisions are not taken for those of later ones.
renew_variant, revision = session_proposals.renew, session_proposals.revision


@lru_cache(TARGETS_KEPT)
def _target(problem: Problem, text: str) -> OwnTarget:
    return amci.with_target(problem, text)


def _fallback_proposals(name: str) -> Proposals:
    """The proposals of a problem with another f for which none were trained."""
    original, text = split(name)
    return _fallbacks(_target(problem(original), text))


@lru_cache(TARGETS_KEPT)
def _fallbacks(target: OwnTarget) -> Proposals:
    return fallback_proposals(target, proposals(target.original.name))


@cache
def _shipped(name: str, variant: str | None) -> Proposals:
    """The result of `amci.load_proposals`, which looks for the files each time."""
    return amci.load_proposals(name, variant=variant)


def _own() -> dict[str, Own]:
    """The problems handed in; a worker first reads the files that the environment names."""
    _read_all(os.environ.get(FILES, ""))
    return OWN


@cache
def _read_all(texts: str) -> None:
    for text in named(texts):
        _read(text, check=False)


def _read(text: str, *, check: bool) -> list[str]:
    """Hands in the problem of a source, once; returns what is wrong with it, a line each."""
    try:
        source, wrong = Source.read(text), ""
    except ValueError as error:
        source, wrong = Source(text), str(error)
    if source.text in _READ:
        return []
    _READ[source.text] = [wrong] if wrong else []  # the file may ask for the page's problems
    if not wrong:
        before = set(OWN)
        _READ[source.text] = _bring(source, check=check)
        if set(OWN) - before:
            _LISTED.append(source.text)
    return _READ[source.text]


def _bring(source: Source, *, check: bool) -> list[str]:
    before = set(OWN)
    try:
        problem = source.load()
    except ValueError as error:
        # A file may call `hand_in` by itself.
        return [] if set(OWN) - before else [in_a_line(error)]
    _FILES.setdefault(problem.name, source.file)
    if set(OWN) - before:
        return []
    warnings: tuple[str, ...] = ()
    if check:
        found = amci.check(problem)
        if found.errors:
            lines = [f"{source.name}: {in_a_line(each.sentence)}" for each in found.errors]
            return [*lines, f"{source.name}: {problem.name} is not listed until that is mended"]
        warnings = tuple(in_a_line(each.sentence) for each in found.warnings)
    if problem.name in OWN:
        return [f"{source.name}: another file has a problem called {problem.name}; rename one"]
    stored = source.load_proposals(problem)
    made, folders = stored.proposals, stored.folders
    try:
        hand_in(problem, *made, file=source.name, folders=folders, warnings=warnings)
    except ValueError as error:
        return [f"{source.name}: {in_a_line(error)}", f"{source.name}: it is not listed"]
    return [f"{source.name}: proposals that cannot be used: {line}" for line in stored.wrong]
