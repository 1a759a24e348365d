r"""The tour: stops in order, each with a title, a part of the page to light up, and a question."""

from __future__ import annotations

__all__ = ["Tour", "TourError", "read_tour", "tour"]

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from amci_explorer.problems.presets import Stop, read_stop
from amci_explorer.state.case import CHOICES, OPENING_PROBLEM, Case
from amci_explorer.words import CARDS

# Names the file of another tour, as `python -m amci_explorer.server.serve --tour` does.
ANOTHER = "AMCI_TOUR"
SHIPPED = Path(__file__).with_name("tour.toml")
# Parts of the page that a step can light up; a card is opened by it.
PARTS = ("headline", "handles", "densities", "errors", "summary", "own-f", "proposals")


class TourError(ValueError):
    """A file is no tour; says which step is wrong, and how."""


@dataclass(frozen=True)
class Tour:
    """Steps in order, and the title of the whole."""

    title: str
    steps: tuple[Stop, ...]

    def index(self, name: str) -> int | None:
        """The place of a step, by its name or its number from 1 on; None if there is no such."""
        for i, step in enumerate(self.steps):
            if name in (step.name, str(i + 1)):
                return i
        return None


def read_tour(file: str | Path) -> Tour:
    """Reads and checks a tour, TOML in UTF-8. A link without a problem is about the one before's.

    Arguments:
        file: Its path.

    Raises:
        TourError: it cannot be read, or an entry is missing, unknown or not allowed; the message
            names the file and the step.
    """
    place, problem, steps = str(file), OPENING_PROBLEM, dict[str, Stop]()
    try:
        content = tomllib.loads(Path(file).read_text("utf-8-sig"))
        for i, entry in enumerate(content.get("steps", ()), 1):
            place = f"{file}: step {i}"
            step = read_stop(entry, problem)
            _check(step)
            if step.name in steps:
                raise ValueError(f"expected another name for each step, got {step.name!r}")
            steps[step.name], problem = step, step.link["problem"]
    except (OSError, ValueError, TypeError, AttributeError) as error:
        text = str(error).replace("Stop.__init__() got an", "")
        raise TourError(f"{place}: {text.replace('Stop.__init__()', '').strip()}") from None
    if not steps:
        raise TourError(f"{place}: expected at least one table [[steps]]")
    return Tour(str(content.get("title", "Tour")), tuple(steps.values()))


def _check(step: Stop) -> None:
    if not (step.name.replace("-", "").isalnum() and step.name.isascii()):
        raise ValueError(f"expected letters, digits and hyphens as name, got {step.name!r}")
    if not step.title:
        raise ValueError("expected a title")
    if step.light not in ("", *PARTS, *CARDS):
        allowed = ", ".join((*PARTS, *CARDS))
        raise ValueError(f"expected one of {allowed} as light, got {step.light!r}")
    if bool(step.question) != bool(step.answer):
        raise ValueError("expected question and answer together")
    wrong = {name: "no such choice" for name in step.link.keys() - {"problem", *CHOICES}}
    wrong |= Case().read(step.link)
    if wrong:
        raise ValueError("; ".join(f"{name}: {text}" for name, text in wrong.items()))


def tour() -> Tour:
    """The tour that is served: the shipped one, or that which the server was started with."""
    return _read_once(os.environ.get(ANOTHER, "") or str(SHIPPED))


_read_once = cache(read_tour)
