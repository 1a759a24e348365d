r"""Problems from Python files: what the environment, or the command line, names.

    my_problem.py                  the one problem that is ready in it
    my_problem.py:Mine             that class
    my_problem.py=made             with the proposals in the folder `made`

Without a folder's name, that beside the file with the file's own name is looked at: `my_problem`.
It holds proposals as `amci_core.save_proposals` writes them, or folders of such, one a variant.
"""

from __future__ import annotations

__all__ = ["FILES", "Source", "read_environment", "serve_files", "troubles"]

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.problems import registry

# What names the files, one after another as in PATH.
FILES = "AMCI_PROBLEMS"
NAMED = re.compile(r"(?P<file>.+?\.py(?::\w+)?)(?:=(?P<folder>.+))?", re.DOTALL)
# A colon may stand before a class, and between two files.
BETWEEN = re.compile(rf"{re.escape(os.pathsep)}(?=[^{re.escape(os.pathsep)}]*\.py)")


class Kept(NamedTuple):
    """Proposals in a folder: its parts by variant, they, and what is wrong with others."""

    folders: dict[str, str]
    proposals: list[Proposals]
    wrong: list[str]


@dataclass(frozen=True)
class Source:
    """A file that a problem is in, and a folder of proposals for it.

    Arguments:
        file: As `amci_core.load_problem` takes it.
        folder: The folder; None for the one beside the file, if there is one.
    """

    file: str
    folder: str | None = None

    @classmethod
    def read(cls, text: str) -> Source:
        """What a text names, with its whole path.

        Raises:
            ValueError: it is not of the form FILE.py, FILE.py:Class or FILE.py=FOLDER.
        """
        match = NAMED.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                f"problem: expected FILE.py, FILE.py:Class or FILE.py=FOLDER, got {text!r}"
            )
        folder = match["folder"]
        return cls(os.path.abspath(match["file"]), folder and os.path.abspath(folder))

    @property
    def name(self) -> str:
        """What messages and scripts call it: no path."""
        return os.path.basename(self.file)

    @property
    def text(self) -> str:
        """What `read` takes."""
        return self.file if self.folder is None else f"{self.file}={self.folder}"

    def load(self) -> Problem:
        """The problem.

        Raises:
            ValueError: see `amci_core.load_problem`, in a line; or there is no such folder.
        """
        if self.folder is not None and not Path(self.folder).is_dir():
            raise ValueError(f"there is no folder {self.folder}")
        try:
            return amci.load_problem(self.file)
        except ValueError as error:
            said = str(error).removeprefix("problem: ")
            raise ValueError(said.replace(os.path.dirname(self.file) + os.sep, "")) from None

    def load_proposals(self, problem: Problem) -> Kept:
        """The proposals in its folder."""
        python = re.sub(r":\w+$", "", self.file)
        place = Path(python).with_suffix("") if self.folder is None else Path(self.folder)
        if (place / "config.json").is_file():
            found = [place]
        else:
            found = sorted(path.parent for path in place.glob("*/config.json"))
        folders: dict[str, str] = {}
        made, wrong = [], []
        for each in found:
            try:
                loaded = amci.load_proposals(problem, folder=each)
            except ValueError as error:
                wrong.append(f"{each.name}: {_in_a_line(error)}")
                continue
            variant = each.name if loaded.variant in folders else loaded.variant
            folders[variant] = each.name if each == place else f"{place.name}/{each.name}"
            made.append(replace(loaded, variant=variant))
        return Kept(folders, made, wrong)


# What has been read in this process, and what was wrong with it.
_READ: dict[Source, list[str]] = {}
_DONE: set[str] = set()
_LISTED: list[str] = []
_LOCK = RLock()


def serve_files(texts: Sequence[str] = ()) -> None:
    """Loads and checks what the environment names, and more; says on stderr what is wrong.

    What is listed then stands in the environment, where workers that are started later find it.

    Arguments:
        texts: FILE.py, FILE.py:Class or FILE.py=FOLDER, each.
    """
    with _LOCK:
        for text in (*_named(), *texts):
            try:
                source = Source.read(text)
            except ValueError as error:
                source, wrong = Source(text), [str(error)]
                new = source not in _READ
                _READ.setdefault(source, wrong)
            else:
                new = source not in _READ
                if new:
                    before = set(registry.OWN)
                    _READ[source] = _bring(source, check=True)
                    if set(registry.OWN) - before:
                        _LISTED.append(source.text)
            for line in _READ[source] if new else ():
                print(f"AMCI Explorer: {line}", file=sys.stderr, flush=True)
        if _READ:
            os.environ[FILES] = os.pathsep.join(_LISTED)


def read_environment() -> None:
    """Loads what the environment names, once and without a check: a process that computes."""
    named = os.environ.get(FILES, "")
    if not named or named in _DONE:
        return
    with _LOCK:
        _DONE.add(named)
        for text in _named():
            with suppress(ValueError):
                source = Source.read(text)
                if source not in _READ:
                    _READ[source] = []  # the file may ask for the page's problems
                    _READ[source] = _bring(source, check=False)


def troubles() -> list[str]:
    """What is wrong with the files, a line each."""
    return [line for lines in _READ.values() for line in lines]


def _named() -> Iterable[str]:
    return filter(None, BETWEEN.split(os.environ.get(FILES, "")))


def _bring(source: Source, *, check: bool) -> list[str]:
    """Hands in the problem of a file, and says what is wrong with it, a line each."""
    before = set(registry.OWN)
    try:
        problem = source.load()
    except ValueError as error:
        # A file may hand in its problem by itself, see `amci_explorer.problems.registry.hand_in`.
        return [] if set(registry.OWN) - before else [_in_a_line(error)]
    if set(registry.OWN) - before:
        return []
    warnings: tuple[str, ...] = ()
    if check:
        found = amci.check(problem)
        if found.errors:
            lines = [f"{source.name}: {_in_a_line(each.sentence)}" for each in found.errors]
            return [
                *lines,
                f"{source.name}: {problem.name} is not listed until that is mended",
            ]
        warnings = tuple(_in_a_line(each.sentence) for each in found.warnings)
    if problem.name in registry.OWN:
        return [f"{source.name}: another file has a problem called {problem.name}; rename one"]
    folders, made, wrong = source.load_proposals(problem)
    try:
        registry.hand_in(problem, *made, file=source.name, folders=folders, warnings=warnings)
    except ValueError as error:
        return [f"{source.name}: {_in_a_line(error)}", f"{source.name}: it is not listed"]
    return [f"{source.name}: proposals that cannot be used: {line}" for line in wrong]


def _in_a_line(said: object) -> str:
    return " ".join(str(said).split())
