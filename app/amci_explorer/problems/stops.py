r"""Links to cases worth seeing, with a text: presets, and the steps of a tour."""

from __future__ import annotations

__all__ = ["Stop", "read_stop"]

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A case worth seeing.

    Arguments:
        name: What a preset is called; of a step its name in links.
        text: What there is to see, two or three sentences; formulas in LaTeX between dollars.
        link: What the page's address holds there; all else opens anew.
        title: The title of a tour's step.
        light: The part of the page that the step lights up; empty for none.
        question: A question to the reader; empty for none.
        answer: The answer, shown when it is opened.
    """

    name: str
    text: str
    link: Mapping[str, str]
    title: str = ""
    light: str = ""
    question: str = ""
    answer: str = ""


def read_stop(entry: Mapping[str, Any], problem: str) -> Stop:
    """Reads a stop from a table of a TOML file.

    Arguments:
        entry: The table. Its `link` is an address of the page, or what follows its question mark.
        problem: The problem of a link that names none.

    Raises:
        TypeError: an entry is missing or unknown.
        ValueError: the link is none.
    """
    query = entry.get("link", "").rpartition("?")[2]
    link = {"problem": problem, **dict(parse_qsl(query, strict_parsing=True))}
    return Stop(**{**entry, "link": link})
