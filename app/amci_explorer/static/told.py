r"""The tour's steps as the page tells them: live where it can be, else with a stored picture."""

from __future__ import annotations

__all__ = ["Step", "is_live", "subject_of", "told"]

from collections.abc import Mapping
from typing import Any, Protocol

from amci_explorer.numbers.weights import LIVE
from amci_explorer.static.facts import VARIANT
from amci_explorer.static.kinds import KINDS
from amci_explorer.static.pictures import row
from amci_explorer.static.words import html_of

# What the page shows by itself of its live problems, and by a stored picture of others.
PARTS = {"headline", "handles", "densities", "errors", "strip"}
# Parts in which one plays, trains or writes; for that there has to be a server.
SERVED = {"play", "film", "own-f", "train"}
NOTE = "<p><i>Playing, training and your own f need the page with its server.</i></p>"


class Step(Protocol):
    """What a step of the tour has."""

    @property
    def name(self) -> str:
        """A short name, for the address."""

    @property
    def title(self) -> str:
        """Its heading."""

    @property
    def text(self) -> str:
        """Plain text, with formulas between dollars."""

    @property
    def light(self) -> str:
        """The part of the page that it is about."""

    @property
    def question(self) -> str:
        """What to think about, or nothing."""

    @property
    def answer(self) -> str:
        """The answer to that."""

    @property
    def state(self) -> Mapping[str, Any]:
        """Fields of the page that it sets."""


def is_live(step: Step) -> bool:
    """Whether the page can show the step's case by itself; a step without a case leaves it."""
    problem, variant = step.state.get("problem"), step.state.get("variant")
    return problem in (None, *LIVE) and variant in (None, "", VARIANT) and not step.state.get("f")


def subject_of(step: Step) -> str | None:
    """The kind of picture that is stored for a step; None where all is live."""
    live = is_live(step)
    if live and step.light in PARTS:
        return None
    stored = set(KINDS) - (PARTS if live else set())
    found = next((k for k in (step.light, step.state.get("card")) if k in stored), None)
    return found if live else found or "errors"


def told(step: Step, picture: Mapping[str, str] | None) -> dict[str, Any]:
    """A step as the page reads it.

    Arguments:
        step: The step.
        picture: Files and words of its stored picture, if it has one.
    """
    live = is_live(step)
    case = {k: step.state[k] for k in ("problem", "y", "theta") if live and k in step.state}
    return {
        "name": step.name,
        "title": step.title,
        "text": html_of(step.text) + (NOTE if step.light in SERVED else ""),
        "light": step.light,
        "question": html_of(step.question),
        "answer": html_of(step.answer),
        "live": live,
        "case": {k: v if k == "problem" else row(v) for k, v in case.items()},
        "picture": picture,
    }
