r"""What a page does by itself, in JavaScript: what its server cannot know, or is not there for."""

from __future__ import annotations

__all__ = [
    "CONNECTION_LOST",
    "FIGURES",
    "FIT_PHONES",
    "FOLDS",
    "HIDE_ON_PHONES",
    "KEEP_THEME",
    "OWN_F",
    "REPLACE_ADDRESS",
    "SKIP",
]

from pathlib import Path

FOLDER = Path(__file__).parent / "javascript"
CONNECTION_LOST, FIGURES, FIT_PHONES, FOLDS, KEEP_THEME, OWN_F, REPLACE_ADDRESS, SKIP = (
    (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    for name in (
        *("connection_lost", "figures", "fit_phones", "folds", "keep_theme", "own_f"),
        *("replace_address", "skip"),
    )
)
# Until a page has folded its sidebar away it does not show it.
HIDE_ON_PHONES = "@media (max-width: 599.95px) { [data-pmui-layer] { visibility: hidden; } }"
