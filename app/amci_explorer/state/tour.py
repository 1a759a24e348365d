r"""The tour: steps that set the page's state, light up a part of it and ask a question."""

from __future__ import annotations

__all__ = ["Step", "Tour", "TourError", "tour"]

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from amci_explorer.state.case import CHOICES
from amci_explorer.state.state import State
from amci_explorer.words import CARDS

# Names the file of another tour, as `python -m amci_explorer.server.serve --tour` does.
ANOTHER = "AMCI_TOUR"
SHIPPED = Path(__file__).with_name("tour.toml")
# Parts of the page that a step can light up; cards are opened by it.
PARTS = ("headline", "handles", "densities", "errors", "summary", "film", "own-f", "proposals")


class TourError(ValueError):
    """A file is no tour; says which step is wrong, and how."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Arguments:
        name: Its name in links: letters, digits and hyphens.
        title: Its title.
        text: Two or three sentences; formulas in LaTeX between dollars.
        light: The part of the page that it lights up; empty for none.
        question: A question to the reader; empty for none.
        answer: The answer, shown when it is opened.
        state: The fields of the state that it sets, as a link holds them; all others start anew.

    Raises:
        ValueError: an entry is missing, or not allowed.
    """

    name: str
    title: str
    text: str
    light: str = ""
    question: str = ""
    answer: str = ""
    state: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.name.replace("-", "").isalnum() and self.name.isascii()):
            raise ValueError(f"expected letters, digits and hyphens as name, got {self.name!r}")
        if self.light not in ("", *PARTS, *CARDS):
            allowed = ", ".join((*PARTS, *CARDS))
            raise ValueError(f"expected one of {allowed} as light, got {self.light!r}")
        if bool(self.question) != bool(self.answer):
            raise ValueError("expected question and answer together")
        wrong = {name: "no such field" for name in self.state.keys() - {"problem", *CHOICES}}
        wrong |= State().read(self.state)
        if wrong:
            raise ValueError("; ".join(f"{name}: {text}" for name, text in wrong.items()))

    @property
    def link(self) -> str:
        """The query of an address that opens the page here."""
        return urlencode({"tour": self.name})


@dataclass(frozen=True)
class Tour:
    """Steps in order, and the title of the whole."""

    title: str
    steps: tuple[Step, ...]

    def index(self, name: str) -> int | None:
        """The place of a step, by its name or its number from 1 on; None if there is no such."""
        for i, step in enumerate(self.steps):
            if name in (step.name, str(i + 1)):
                return i
        return None


def read_tour(file: str | Path) -> Tour:
    """Reads and checks a tour, TOML in UTF-8. A step without a problem is about the one before's.

    Arguments:
        file: Its path.

    Raises:
        TourError: it cannot be read, or an entry is missing, unknown or not allowed; the message
            names the file and the step.
    """
    place, problem, found = str(file), "", []
    try:
        content = tomllib.loads(Path(file).read_text("utf-8-sig"))
        for i, entry in enumerate(content["steps"], 1):
            place = f"{file}: step {i}"
            state = {name: _text(value) for name, value in entry.get("state", {}).items()}
            problem = state.get("problem", problem)
            if state and problem:
                state["problem"] = problem
            found.append(Step(**{**entry, "state": state}))
            if found[-1].name in [step.name for step in found[:-1]]:
                raise ValueError(f"expected another name for each step, got {found[-1].name!r}")
    except KeyError:
        raise TourError(f"{place}: expected tables as [[steps]]") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        text = str(error).replace("Step.__init__() got an", "")
        raise TourError(f"{place}: {text.replace('Step.__init__()', '').strip()}") from None
    if not found:
        raise TourError(f"{place}: expected at least one step")
    return Tour(str(content.get("title", "Tour")), tuple(found))


def tour() -> Tour:
    """The tour that is served: the shipped one, or that which the server was started with."""
    return _read_once(os.environ.get(ANOTHER, "") or str(SHIPPED))


@lru_cache(4)
def _read_once(file: str) -> Tour:
    return read_tour(file)


def _text(value: Any) -> str:
    """A field's value as a link holds it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
