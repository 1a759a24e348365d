r"""One of several: a list of the browser's own, or a row of buttons."""

from __future__ import annotations

__all__ = ["MILLISECONDS_OF_DEBOUNCE", "Select", "choice", "select"]

from typing import Any

import panel as pn
import panel_material_ui as pmui

# Panel waits 50 ms before it looks at an input; more than a slider's move takes it altogether.
MILLISECONDS_OF_DEBOUNCE = 1
# As Material's fields look, whose own list is no list for assistive technology.
LIST = """
:host { position: relative; }
label { position: absolute; z-index: 1; top: -0.55em; left: 9px; padding: 0 5px; line-height: 1.1;
        font-size: 0.75rem; color: var(--panel-on-surface-color, inherit); opacity: 0.8; }
label::before { content: ""; position: absolute; z-index: -1; inset: 0;
                background: linear-gradient(transparent 45%, var(--paper) 45%); }
.bk-input-group { margin: 0; }
select.bk-input { appearance: none; width: 100%; height: 36px; padding: 0 30px 0 13px; margin: 0;
         font: inherit; font-size: 1rem; text-overflow: ellipsis; cursor: pointer;
         color: var(--panel-on-surface-color, inherit);
         background: var(--panel-surface-color, canvas) !important;
         border: 1px solid color-mix(in srgb, currentColor 45%, transparent);
         border-radius: 4px; }
select.bk-input:hover { border-color: currentColor; }
select.bk-input:focus-visible { outline: 2px solid var(--panel-primary-color, currentColor);
                                outline-offset: -2px; border-color: transparent; }
select.bk-input:disabled { opacity: 0.6; cursor: default; }
option { color: var(--panel-on-surface-color, canvastext);
         background: var(--panel-surface-color, canvas); }
:host::after { content: ""; position: absolute; right: 14px; bottom: 15px; width: 7px; height: 7px;
               border: solid var(--panel-on-surface-color, currentColor);
               border-width: 0 2px 2px 0; transform: rotate(45deg); opacity: 0.7;
               pointer-events: none; }
"""
UNSEEN_LABEL = """
.MuiFormLabel-root { position: absolute; width: 1px; height: 1px; overflow: hidden;
                     clip-path: inset(50%); }
"""


class Select(pn.widgets.Select):
    """A list whose choice reaches the server without delay."""

    _debounce = MILLISECONDS_OF_DEBOUNCE


def select(label: str, options: list[str] | dict[str, Any], **more: Any) -> Select:
    """A list to choose from, at first the first; as wide as its place."""
    first = next(iter(options.values() if isinstance(options, dict) else options), None)
    settings = {"value": first, "sizing_mode": "stretch_width", "stylesheets": [LIST]} | more
    return Select(label=label, options=options, **settings)


def choice(label: str, options: list[Any] | dict[str, Any], **more: Any) -> pmui.RadioButtonGroup:
    """A row of buttons of which one is pressed; the label is for assistive technology."""
    settings = {"size": "small", "margin": 0} | more
    return pmui.RadioButtonGroup(
        options=options,
        label=label,
        sx={"& .MuiToggleButton-root": {"textTransform": "none", "py": "3px"}},
        stylesheets=[UNSEEN_LABEL],
        **settings,
    )
