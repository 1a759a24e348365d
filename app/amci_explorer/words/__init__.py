r"""Every sentence on the page: how to read it, and what is made from numbers."""

from __future__ import annotations

__all__ = ["CARDS", "HELP"]

import tomllib
from collections.abc import Mapping
from pathlib import Path

_TABLE = tomllib.loads((Path(__file__).parent / "help.toml").read_text(encoding="utf-8"))
# The titles of the cards behind tabs, by their names in links.
CARDS: Mapping[str, str] = _TABLE.pop("cards")
# How to read pictures and cards, by name.
HELP: Mapping[str, str] = _TABLE
