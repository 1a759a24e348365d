r"""What Material's own parts are on this page: their roles, names and outlines of focus."""

from __future__ import annotations

__all__ = ["COMPONENTS"]

from typing import Any

OUTLINE = {"outline": "2px solid currentColor", "outlineOffset": "2px"}
TEXT = "var(--panel-on-surface-color, inherit)"
# For the theme, of Material's name for each part.
COMPONENTS: dict[str, Any] = {
    # The page's title is a third level to it, and its empty spacers are a fifth.
    "MuiTypography": {"defaultProps": {"variantMapping": {"h3": "h1", "h5": "div"}}},
    # The page brings a bar without a name, and shows it even when there is none to be.
    "MuiLinearProgress": {"styleOverrides": {"root": {"display": "none"}}},
    # A tooltip describes what has a name; a label on a plain element is none.
    "MuiTooltip": {"defaultProps": {"describeChild": True}},
    # A player's buttons keep the colour of a light page.
    "MuiIconButton": {"variants": [{"props": {"color": "default"}, "style": {"color": TEXT}}]},
    # On a phone the drawer is a dialogue, and has a name.
    "MuiDrawer": {"defaultProps": {"slotProps": {"paper": {"aria-label": "Controls"}}}},
    # What unfolds is no landmark of its own, and its title is no heading of the third level.
    "MuiAccordion": {
        "defaultProps": {
            "slotProps": {"region": {"role": "presentation"}, "heading": {"component": "div"}}
        }
    },
    "MuiSlider": {"styleOverrides": {"thumb": {"&.Mui-focusVisible": OUTLINE}}},
    "MuiButtonBase": {"styleOverrides": {"root": {"&.Mui-focusVisible": OUTLINE}}},
}
