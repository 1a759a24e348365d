r"""The problems on the page and their proposals: shipped, from files, and with another f.

The server and its workers read the same files, which the environment names:

    my_problem.py                  the one problem that is ready in it
    my_problem.py:MINE             the one of that name
    my_problem.py=made             with the proposals in the folder `made`

Without a folder's name, that beside the file with the file's own name is looked at: `my_problem`.
It holds proposals as `Proposals.save` writes them, or folders of such, one a variant.

A problem with another f is found by its name, `tail-1d with f = x1 > theta1`, in any process.
"""

from __future__ import annotations

__all__ = [
    "FILES",
    "OWN",
    "chosen",
    "command_name",
    "history",
    "in_a_line",
    "load_file",
    "opening",
    "problem",
    "problems",
    "proposals",
    "serve_files",
    "sizes",
    "split",
    "swept",
    "terms",
    "troubles",
    "variants",
    "warnings",
]

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

import amci_core as amci
from amci_core.estimators.draws import TERMS
from amci_core.evaluation.runs import default_estimators
from amci_core.flows import HistoryEntry, Proposals
from amci_core.flows.proposals import DEFENSIVE, check_proposals
from amci_core.models import Problem
from amci_core.proposals import ORACLE, available_variants
from amci_core.target import TargetProblem, fallback_proposals, target_name
from amci_explorer.problems import session_proposals
from amci_explorer.problems.settings import Settings

# What names the files, one after another as in PATH. A colon may stand before a class, and
# between two files.
FILES = "AMCI_PROBLEMS"
NAMED = re.compile(r"(?P<file>.+?\.py(?::\w+)?)(?:=(?P<folder>.+))?", re.DOTALL)
APART = re.compile(rf"{re.escape(os.pathsep)}(?=[^{re.escape(os.pathsep)}]*\.py)")
# Problems with another f that are kept, of all sessions together.
TARGETS_KEPT = 64
BETWEEN = target_name("", "")


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
    folders: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


# The problems handed in to this process, by name.
OWN: dict[str, Own] = {}
# Texts that named a file to this process, with what is wrong, a line each; and those with a
# problem.
_READ: dict[str, list[str]] = {}
_LISTED: list[str] = []
# The files that problems are from, with their whole path.
_FILES: dict[str, str] = {}


def hand_in(problem: Problem, *proposals: Proposals) -> None:
    """Adds a problem of your own to the page, in this process.

    Arguments:
        problem: The problem; it replaces one that was added under its name.
        proposals: Its proposals, the default first; by default the optimal ones if they are known,
            or the defensive density.

    Raises:
        ValueError: its name is taken, a range of y or theta has no end, proposals are for another
            problem, or a method of it returns what does not fit.
    """
    if problem.name in amci.problems() or BETWEEN in problem.name:
        raise ValueError(f"name: expected a name that no other problem has, got {problem.name!r}")
    for made in proposals:
        check_proposals(problem, made)
    for each in (problem.y, problem.theta):
        if each is not None and not np.isfinite(each.typical).all():
            raise ValueError(f"{each.name}: has an infinite range. Declare its typical_range")
    problem.typical_case()
    optimal = [ORACLE] if "q1_plus" in (problem.optimal_proposals() or {}) else []
    others = optimal if proposals else [*optimal, DEFENSIVE]
    all_of_it = (*proposals, *(amci.load_proposals(problem, variant=name) for name in others))
    OWN[problem.name] = Own(problem, {made.variant: made for made in all_of_it})


def load_file(text: str) -> Problem:
    """The problem of a file.

    Arguments:
        text: FILE.py, FILE.py:NAME or FILE.py=FOLDER.

    Raises:
        ValueError: the text is of another form, there is no such folder, or see
            `amci_core.load_problem`.
    """
    file, folder = _source(text)
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(f"no such folder: {folder}")
    try:
        return amci.load_problem(file)
    except ValueError as error:
        message = in_a_line(error).removeprefix("problem: ")
        raise ValueError(message.replace(os.path.dirname(file) + os.sep, "")) from None


def serve_files(texts: Sequence[str] = ()) -> None:
    """Loads and checks the files that the environment names, and more; reports faults on stderr.

    The good ones then stand in the environment, where workers that are started later find them.

    Arguments:
        texts: FILE.py, FILE.py:NAME or FILE.py=FOLDER, each.
    """
    for text in (*_named(os.environ.get(FILES, "")), *texts):
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


def sizes(name: str) -> dict[int, str]:
    """The shipped problems that are this one in so many dimensions, their names by that number."""
    stem, found = re.sub(r"\d+d$", "", name), {}
    for each in amci.problems():
        if (match := re.fullmatch(rf"{re.escape(stem)}(\d+)d", each)) and each != stem:
            found[int(match[1])] = each
    return found if name in found.values() else {}


def split(name: str) -> tuple[str, str]:
    """A problem's name without another f, and that f, empty if it has its own."""
    original, _, text = name.partition(BETWEEN)
    return original, text


def problem(name: str, f: str = "") -> Problem:
    """The problem of that name; with the expression f instead of its own, if one is given.

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
    own = _own().get(name)
    if split(name)[1]:
        known: tuple[str, ...] = (_fallback_proposals(name).variant,)
    else:
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


def chosen(settings: Settings) -> Proposals:
    """The proposals that settings name, or those of a checkpoint of their training."""
    earlier = history(settings.problem)
    if settings.snapshot is not None and earlier:
        return earlier[min(settings.snapshot, len(earlier) - 1)].proposals
    return proposals(settings.problem, settings.variant, settings.revision)


def command_name(name: str) -> str:
    """The problem, without another f, as the command line names it: FILE.py:NAME if it is own.

    Raises:
        ValueError: it is from no file.
    """
    if name in OWN and name not in _FILES:
        raise ValueError(
            f"{name} was added by a program. Start the server with its file to train it"
        )
    return _FILES.get(name, name)


@cache
def history(name: str) -> tuple[HistoryEntry, ...]:
    """The checkpoints of the default proposals' training; empty if none are stored."""
    return () if name in OWN or split(name)[1] else amci.load_history(name)


def terms(name: str) -> tuple[str, ...]:
    """The terms of a problem that have proposals to draw from."""
    return tuple(TERMS[j] for j in proposals(name).present)


def swept(name: str) -> tuple[str, ...]:
    """The estimators of a sweep over a problem's cases."""
    return default_estimators(problem(name), proposals(name))


def in_a_line(message: object) -> str:
    """A message without line breaks."""
    return " ".join(str(message).split())


@lru_cache(TARGETS_KEPT)
def _target(problem: Problem, text: str) -> TargetProblem:
    return amci.with_target(problem, text)


def _fallback_proposals(name: str) -> Proposals:
    """The proposals of a problem with another f for which none were trained."""
    original, text = split(name)
    return _fallbacks(_target(problem(original), text))


@lru_cache(TARGETS_KEPT)
def _fallbacks(target: TargetProblem) -> Proposals:
    return fallback_proposals(target, proposals(target.original.name))


@cache
def _shipped(name: str, variant: str | None) -> Proposals:
    """The result of `amci.load_proposals`, which looks for the files each time."""
    return amci.load_proposals(name, variant=variant)


def _own() -> dict[str, Own]:
    """The problems that were added; a worker first reads the files that the environment names."""
    _read_all(os.environ.get(FILES, ""))
    return OWN


@cache
def _read_all(texts: str) -> None:
    for text in _named(texts):
        _read(text, check=False)


def _named(texts: str) -> list[str]:
    """The files that a value of the environment names."""
    return [text for text in APART.split(texts) if text]


def _source(text: str) -> tuple[str, str | None]:
    """A file as `amci.load_problem` takes it, and a folder, with their whole paths."""
    match = NAMED.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"problem: expected FILE.py, FILE.py:NAME or FILE.py=FOLDER, got {text!r}"
        )
    folder = match["folder"]
    return os.path.abspath(match["file"]), folder and os.path.abspath(folder)


def _read(text: str, *, check: bool) -> list[str]:
    """Hands in the problem of a file, once; returns what is wrong with it, a line each."""
    try:
        text = "=".join(filter(None, _source(text)))
        wrong = ""
    except ValueError as error:
        wrong = str(error)
    if text in _READ:
        return []
    _READ[text] = [wrong] if wrong else []  # the file may ask for the page's problems
    before = set(OWN)
    try:
        if not wrong:
            _READ[text] = _bring(text, check=check)
    except ValueError as error:
        # A file may call `hand_in` by itself.
        _READ[text] = [] if set(OWN) - before else [in_a_line(error)]
    if set(OWN) - before:
        _LISTED.append(text)
    return _READ[text]


def _bring(text: str, *, check: bool) -> list[str]:
    """Hands in the problem of a file; returns what is wrong with its proposals."""
    before = set(OWN)
    problem, (file, folder) = load_file(text), _source(text)
    _FILES.setdefault(problem.name, file)
    if set(OWN) - before:
        return []
    name, found = os.path.basename(file), amci.check(problem) if check else None
    if found is not None and found.errors:
        lines = [f"{name}: {in_a_line(each.sentence)}" for each in found.errors]
        return [*lines, f"{name}: {problem.name} is hidden until these errors are fixed"]
    if problem.name in OWN:
        return [f"{name}: another file has a problem called {problem.name}; rename one"]
    place = Path(folder or re.sub(r"\.py(:\w+)?$", "", file))
    alone, made, folders, wrong = (place / "config.json").is_file(), [], {}, []
    for path in sorted(place.glob("config.json" if alone else "*/config.json")):
        try:
            loaded = amci.load_proposals(problem, folder=path.parent)
        except ValueError as error:
            cannot = f"{name}: proposals that cannot be used: {path.parent.name}"
            wrong.append(f"{cannot}: {in_a_line(error)}")
            continue
        variant = path.parent.name if loaded.variant in folders else loaded.variant
        folders[variant] = path.parent.name if alone else f"{place.name}/{path.parent.name}"
        made.append(replace(loaded, variant=variant))
    try:
        hand_in(problem, *made)
    except ValueError as error:
        return [f"{name}: {in_a_line(error)}", f"{name}: it is not listed"]
    own = OWN[problem.name]
    own.file, own.folders = name, folders
    if found is not None:
        own.warnings = tuple(in_a_line(each.sentence) for each in found.warnings)
    return wrong
