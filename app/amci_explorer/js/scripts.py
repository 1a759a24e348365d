r"""What a page does by itself, in JavaScript: what its server cannot know, or is not there for."""

from __future__ import annotations

__all__ = [
    "ADDRESS",
    "CHOOSE_THEME",
    "CONNECTION_LOST",
    "FIGURES",
    "GRIP",
    "KEEP_THEME",
    "LIVE_DENSITIES",
    "SHARED",
    "SIGHT",
    "SKIP",
    "SLIDER",
    "TOUR",
]

import json
from pathlib import Path
from typing import Any

from amci_explorer.js.bundle import component

FOLDER = Path(__file__).parent
(
    CHOOSE_THEME,
    CONNECTION_LOST,
    FIGURES,
    KEEP_THEME,
    SKIP,
) = (
    (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    for name in (
        *("choose_theme", "connection_lost", "figures", "keep_theme"),
        "skip",
    )
)
# Components of their own, as modules.
ADDRESS, SIGHT, TOUR = (
    (FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in ("address", "sight", "tour")
)
LIVE_DENSITIES, GRIP, SLIDER = (
    component(FOLDER / f"{name}.mjs") for name in ("live_densities", "grip", "slider")
)
# Constants of the pictures that the page draws as well.
SHARED: dict[str, Any] = json.loads((FOLDER / "shared.json").read_text(encoding="utf-8"))
