r"""The tour: steps that set the page's state, light up a part of it and ask a question."""

from __future__ import annotations

__all__ = ["LIGHTS", "Step", "Tour", "TourError", "read_tour", "steps", "tour"]

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.words import CARDS

# Names the file of another tour, as `python -m amci_explorer.server.serve --tour` does.
ANOTHER = "AMCI_TOUR"
SHIPPED = Path(__file__).with_name("tour.toml")
# Parts of the page that a step can light up; the cards behind tabs are opened by that as well.
LIGHTS = (
    *("headline", "handles", "densities", "errors", "summary", "film", "own-f", "proposals"),
    *CARDS,
)
TEXTS = ("name", "title", "text", "light", "question", "answer")
NEEDED = ("name", "title", "text")
MOST_STEPS, LONGEST_TEXT = 100, 2000
MOST_BYTES, DIGITS = 1_000_000, 15


class TourError(ValueError):
    """A file is no tour; says which entry is wrong, what it is and what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    Arguments:
        name: What links call it: letters, digits and hyphens.
        title: Its title.
        text: Two or three sentences; formulas in LaTeX between dollars.
        light: The part of the page that it lights up, one of `LIGHTS`; empty for none.
        question: What the reader is asked; empty for nothing.
        answer: The answer, shown when it is opened.
        state: The fields of the state that it sets, as a link holds them; all others start anew.
            Without a problem it is that of the step before.
    """

    name: str
    title: str
    text: str
    light: str = ""
    question: str = ""
    answer: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def link(self) -> str:
        """The query of an address that opens the page here."""
        return urlencode({"tour": self.name})


@dataclass(frozen=True)
class Tour:
    """Steps, and what they are about.

    Arguments:
        title: Title of the whole.
        steps: The steps, in order.
    """

    title: str
    steps: tuple[Step, ...]

    def index(self, name: str) -> int | None:
        """Where a step stands, by its name or its number from 1 on; None if there is no such."""
        names = [step.name for step in self.steps]
        if name in names:
            return names.index(name)
        known = name.isascii() and name.isdigit() and 1 <= int(name[:4]) <= len(names)
        return int(name) - 1 if known and len(name) < 4 else None


def read_tour(file: str | Path) -> Tour:
    """Reads and checks a tour, TOML in UTF-8.

    Arguments:
        file: Its path.

    Raises:
        TourError: it cannot be read, is no TOML, or an entry is missing, unknown, of another type
            or not allowed; the message names the file, the step and the entry.
    """
    path = Path(file)
    # What is there and no file, a pipe or a device, would be read without end.
    odd = path.exists() and not path.is_dir() and not path.is_file()
    if odd or (path.is_file() and path.stat().st_size > MOST_BYTES):
        raise TourError(f"{path}: cannot be read (expected a file of 1 MB or less)")
    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8"
        raise TourError(f"{path}: cannot be read ({reason})") from None
    except tomllib.TOMLDecodeError as error:
        raise TourError(f"{path}: not valid TOML ({error})") from None
    except (RecursionError, ValueError):
        raise TourError(f"{path}: not valid TOML (nested too deeply, or a huge number)") from None
    _expect(_is_moderate(content), path, f"numbers of at most {DIGITS} digits", "a longer one")
    _expect(not content.keys() - {"title", "steps"}, path, "title and steps alone", [*content])
    title, entries = content.get("title", "Tour"), content.get("steps", [])
    _expect(isinstance(title, str), path, "a text as title", title)
    there = isinstance(entries, list) and 1 <= len(entries) <= MOST_STEPS
    _expect(there, path, f"1 to {MOST_STEPS} tables as [[steps]]", entries)
    found: tuple[Step, ...] = ()
    problem = ""
    for i, entry in enumerate(entries, 1):
        found += (_step(path, i, entry, problem),)
        problem = found[-1].state.get("problem", problem)
    names = [step.name for step in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    _expect(twice is None, path, "a name of its own for every step", twice)
    return Tour(title, found)


def tour() -> Tour:
    """The tour that is served: the shipped one, or that which the server was started with."""
    return _read_once(os.environ.get(ANOTHER, "") or str(SHIPPED))


def steps() -> tuple[Step, ...]:
    """The steps of `tour`."""
    return tour().steps


@lru_cache(4)
def _read_once(file: str) -> Tour:
    return read_tour(file)


def _is_moderate(value: Any) -> bool:
    """Whether no whole number in it is so long that it cannot be written."""
    if isinstance(value, dict | list):
        return all(map(_is_moderate, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or abs(value) < 10**DIGITS


def _step(path: Path, number: int, entry: Any, problem: str) -> Step:
    place = f"{path}: step {number}"
    _expect(isinstance(entry, dict), place, "a table", entry)
    unknown = entry.keys() - {*TEXTS, "state"}
    _expect(not unknown, place, f"entries of {', '.join((*TEXTS, 'state'))}", sorted(unknown))
    for name in TEXTS:
        value = entry.get(name, "" if name not in NEEDED else None)
        fits = isinstance(value, str) and len(value) <= LONGEST_TEXT
        _expect(fits and (value or name not in NEEDED), place, f"a text as {name}", value)
    name, light, state = entry["name"], entry.get("light", ""), entry.get("state", {})
    plain = name.replace("-", "").isalnum() and name.isascii()
    _expect(plain, place, "letters, digits and hyphens as name", name)
    _expect(light in ("", *LIGHTS), place, f"one of {', '.join(LIGHTS)} as light", light)
    _expect(
        bool(entry.get("answer")) == bool(entry.get("question")),
        place,
        "an answer with its question",
        entry.get("question") or entry.get("answer"),
    )
    _expect(isinstance(state, dict), place, "a table as state", state)
    if state and problem:
        # The step before it is about the same problem.
        state = {"problem": problem, **state}
    wrong = _wrong(state)
    _expect(not wrong, place, "a state that the page can have", wrong)
    return Step(**{**entry, "state": _link(state)})


def _wrong(state: dict[str, Any]) -> str:
    """What a state cannot have, in words; nothing where it is fine."""
    unknown = [name for name in state if name not in FIELDS and name != "problem"]
    if unknown:
        return f"{unknown[0]}: expected one of problem, {', '.join(FIELDS)}"
    wrong = State().read(_link(state))
    return "; ".join(f"{name}: {text}" for name, text in wrong.items())


def _link(state: Mapping[str, Any]) -> dict[str, str]:
    """A state as a link holds it."""
    return {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in state.items()
    }


def _expect(met: Any, place: Any, expected: str, value: Any) -> None:
    if not met:
        text = repr(value)
        short = text if len(text) <= 200 else f"{text[:200]} …"
        raise TourError(f"{place}: expected {expected}, got {short}")
