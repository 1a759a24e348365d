r"""What a page does by itself, in JavaScript: what its server cannot know, or is not there for."""

from __future__ import annotations

__all__ = ["GRIP", "LIVE_DENSITIES", "SHARED", "SLIDER", "TOUR", "source"]

import json
from pathlib import Path
from typing import Any

from amci_explorer.js.bundle import component

FOLDER = Path(__file__).parent


def source(name: str) -> str:
    """The text of a file here; a module with what it imports."""
    path = FOLDER / name
    return component(path) if path.suffix == ".mjs" else path.read_text(encoding="utf-8")


TOUR, GRIP, SLIDER = source("tour.js"), source("grip.mjs"), source("slider.mjs")
LIVE_DENSITIES = source("live_densities.mjs")
# Constants of the pictures that the page draws as well.
SHARED: dict[str, Any] = json.loads(source("shared.json"))
