r"""One type scale, one spacing unit and one palette: as CSS variables, for light and dark.

Style sheets of the views say `var(--small)`; Material's theme is made from the same values. The
colours of what is drawn stand in `colours`: those of Okabe and Ito, which people with any
colour vision can tell apart.
"""

from __future__ import annotations

__all__ = [
    "CROWDED",
    "FADE",
    "LOW",
    "NARROW",
    "THEME",
    "VARIABLES",
    "VERDICTS",
]

from typing import Any

from amci_core.diagnostics.verdict import LEVELS
from amci_explorer.colours import ESTIMATORS, SHAPES

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
# Type sizes, small to large: 13, 15 and 24 pixels.
TYPE = {"small": "0.8125rem", "text": "0.9375rem", "headline": "1.5rem"}
# The height of what is drawn in both opening cards: with words and numbers on one screen, and
# in one column whole above the bar with the handles.
FIRST, FIRST_NARROW = "clamp(290px, 100vh - 424px, 400px)", "clamp(200px, 100vh - 130px, 300px)"
# Up to this width one column, and the handles in a bar at the bottom.
NARROW = "screen and (max-width: 1099.95px)"
# Screens on which pictures are lower.
LOW = "(max-height: 559.95px)"
# And those with no room beside pictures for the names of curves.
CROWDED = f"screen and (max-width: 599.95px), {NARROW} and {LOW}"
# What scrolls sideways fades away where more follows.
FADE = "linear-gradient(90deg, #000 calc(100% - 40px), transparent)"
# The page's header, in pixels.
BAR_HEIGHT = 48
# What the colour of each level of a verdict is called in style sheets.
VERDICTS = dict(zip(LEVELS, ("good", "fair", "bad"), strict=True))
PALETTE = {
    "light": {
        "page": "#f4f6f8",
        "paper": "#ffffff",
        "ink": "#1b2329",
        "muted": "#4d5963",
        "line": "#d5dbe1",
        "accent": "#1f5f8b",
        "good": "#0b6b3a",
        "fair": "#8a4b00",
        "bad": "#b3261e",
    },
    "dark": {
        "page": "#12171c",
        "paper": "#1a2027",
        "ink": "#e8edf1",
        "muted": "#aab6c0",
        "line": "#3a444d",
        "accent": "#7cc0ec",
        "good": "#6fd49a",
        "fair": "#f2b45c",
        "bad": "#ff8f86",
    },
}


def _declared(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


def _of_curves(dark: bool) -> dict[str, str]:
    """The colours of curves for words: a little nearer to the ink, which small type needs."""
    names = ("q1", "q1_minus", "q2", "q1_complement")
    styles = ESTIMATORS | {name: SHAPES[name] for name in names}
    return {
        f"of-{name}": f"color-mix(in srgb, {style.colour(dark)} 80%, var(--ink))"
        for name, style in styles.items()
    }


# The page says on its root which theme it has.
VARIABLES = f"""
:root {{ {_declared(TYPE | PALETTE["light"] | _of_curves(False))} --bar: {BAR_HEIGHT}px;
         --first: {FIRST}; }}
@media {NARROW} {{ :root {{ --first: {FIRST_NARROW}; }} }}
:root[data-theme="dark"] {{ {_declared(PALETTE["dark"] | _of_curves(True))} color-scheme: dark; }}
body {{ color: var(--ink); }}
/* As wide as a screen: a printer scales it. Pictures of a dark page are drawn in light ink. */
@page {{ size: A3 landscape; margin: 10mm; }}
@media print {{
  :root {{ --page: #fff; --paper: #fff; }}
  :root, body {{ background: #fff !important; color-scheme: light !important;
                 print-color-adjust: exact; }}
  :root[data-theme="dark"] {{ --page: #000; --paper: #000;
                              --printed: invert(1) hue-rotate(180deg) brightness(1.2); }}
}}
@media screen {{ :root[data-theme] body {{ background: var(--page); }} }}
"""

# What Material's own parts are on this page: their roles, names and outlines of focus.
OUTLINE = {"outline": "2px solid currentColor", "outlineOffset": "2px"}
TEXT = "var(--panel-on-surface-color, inherit)"
COMPONENTS: dict[str, Any] = {
    # The page's title is a third level to it, and its empty spacers are a fifth.
    "MuiTypography": {"defaultProps": {"variantMapping": {"h3": "h1", "h5": "div"}}},
    # The page brings a bar without a name, and shows it even when there is none to be.
    "MuiLinearProgress": {"styleOverrides": {"root": {"display": "none"}}},
    # A tooltip describes what has a name; a label on a plain element is none.
    "MuiTooltip": {"defaultProps": {"describeChild": True}},
    # A player's buttons keep the colour of a light page.
    "MuiIconButton": {"variants": [{"props": {"color": "default"}, "style": {"color": TEXT}}]},
    # What unfolds is no landmark of its own, and its title is no heading of the third level.
    "MuiAccordion": {
        "defaultProps": {
            "slotProps": {"region": {"role": "presentation"}, "heading": {"component": "div"}}
        }
    },
    "MuiSlider": {"styleOverrides": {"thumb": {"&.Mui-focusVisible": OUTLINE}}},
    "MuiButtonBase": {"styleOverrides": {"root": {"&.Mui-focusVisible": OUTLINE}}},
    "MuiToolbar": {"styleOverrides": {"root": {"&&": {"minHeight": f"{BAR_HEIGHT}px"}}}},
    "MuiAppBar": {
        "styleOverrides": {
            "root": {
                "backgroundColor": "#17324a",
                "color": "#ffffff",
                "& .MuiIconButton-root, & .MuiButton-root": {
                    "color": "#ffffff",
                    "borderColor": "currentColor",
                },
            }
        }
    },
}

THEME = {
    mode: {
        "palette": {
            "primary": {"main": colours["accent"]},
            "background": {"default": colours["page"], "paper": colours["paper"]},
            "text": {"primary": colours["ink"], "secondary": colours["muted"]},
            "divider": colours["line"],
        },
        "typography": {"fontFamily": FONT},
        "components": COMPONENTS,
    }
    for mode, colours in PALETTE.items()
}
