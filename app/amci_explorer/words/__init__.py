r"""Every sentence on the page: how to read it, and what is made from numbers."""

from __future__ import annotations

__all__ = ["HELP"]

import tomllib
from collections.abc import Mapping
from pathlib import Path

# How to read pictures and cards, by name.
HELP: Mapping[str, str] = tomllib.loads(
    (Path(__file__).parent / "help.toml").read_text(encoding="utf-8")
)
