r"""What a page does by itself, in JavaScript: what its server cannot know, or is not there for."""

from __future__ import annotations

__all__ = ["SHARED", "source"]

import json
from pathlib import Path
from typing import Any

from amci_explorer.js.bundle import component

FOLDER = Path(__file__).parent


def source(name: str) -> str:
    """The text of a file here; a module with what it imports."""
    path = FOLDER / name
    return component(path) if path.suffix == ".mjs" else path.read_text(encoding="utf-8")


# Constants of the pictures that the page draws as well.
SHARED: dict[str, Any] = json.loads(source("shared.json"))
