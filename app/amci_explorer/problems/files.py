r"""Problems from Python files: how one is named, loaded, and found with its proposals.

    my_problem.py                  the one problem that is ready in it
    my_problem.py:Mine             that class
    my_problem.py=made             with the proposals in the folder `made`

Without a folder's name, that beside the file with the file's own name is looked at: `my_problem`.
It holds proposals as `amci_core.save_proposals` writes them, or folders of such, one a variant.
"""

from __future__ import annotations

__all__ = ["FILES", "Source", "in_a_line", "named"]

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem

# What names the files, one after another as in PATH.
FILES = "AMCI_PROBLEMS"
NAMED = re.compile(r"(?P<file>.+?\.py(?::\w+)?)(?:=(?P<folder>.+))?", re.DOTALL)
# A colon may stand before a class, and between two files.
BETWEEN = re.compile(rf"{re.escape(os.pathsep)}(?=[^{re.escape(os.pathsep)}]*\.py)")


class Stored(NamedTuple):
    """Proposals from a folder, the folder of each variant, and a line about each bad folder."""

    proposals: list[Proposals]
    folders: dict[str, str]
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
        """The source that a text names, with its whole path.

        Raises:
            ValueError: the text is not of the form FILE.py, FILE.py:Class or FILE.py=FOLDER.
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
        """The file's name in messages and scripts: no path."""
        return os.path.basename(self.file)

    @property
    def text(self) -> str:
        """The text that `read` takes."""
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
            message = str(error).removeprefix("problem: ")
            raise ValueError(message.replace(os.path.dirname(self.file) + os.sep, "")) from None

    def load_proposals(self, problem: Problem) -> Stored:
        """The proposals in its folder."""
        python = re.sub(r":\w+$", "", self.file)
        place = Path(python).with_suffix("") if self.folder is None else Path(self.folder)
        alone = (place / "config.json").is_file()
        configurations = place.glob("config.json" if alone else "*/config.json")
        found = Stored([], {}, [])
        for folder in sorted(path.parent for path in configurations):
            try:
                loaded = amci.load_proposals(problem, folder=folder)
            except ValueError as error:
                found.wrong.append(f"{folder.name}: {in_a_line(error)}")
                continue
            variant = folder.name if loaded.variant in found.folders else loaded.variant
            found.folders[variant] = folder.name if alone else f"{place.name}/{folder.name}"
            found.proposals.append(replace(loaded, variant=variant))
        return found


def named(texts: str) -> list[str]:
    """The sources that a value of the environment names, as texts."""
    return [text for text in BETWEEN.split(texts) if text]


def in_a_line(message: object) -> str:
    """A message without line breaks."""
    return " ".join(str(message).split())
