r"""The two pictures that the page opens with: side by side, or one at a time."""

from __future__ import annotations

__all__ = ["pictures"]

from typing import Any

import param
from panel.custom import JSComponent

from amci_explorer.js.scripts import SWITCH
from amci_explorer.views.layout import column
from amci_explorer.views.style import NARROW

SWITCHES = f"""
:host {{ display: none; }}
@media {NARROW} {{ :host {{ display: block; }} }}
[role=tablist] {{ display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; }}
button {{ font: inherit; font-size: var(--text); min-height: 32px; border: 0; cursor: pointer;
          background: transparent; color: var(--muted); border-bottom: 3px solid var(--line); }}
button[aria-selected=true] {{ color: var(--ink); font-weight: 600; border-color: var(--accent); }}
button:focus-visible {{ outline: 2px solid var(--accent); outline-offset: -2px; }}
"""
# Where there is room for one only, errors come first. Both keep their width: a picture without a
# width is never drawn.
PLACE = f"""
:host {{ display: grid !important; grid-template-columns: minmax(0, 1fr) minmax(0, 1.12fr);
         gap: 12px !important; }}
@media {NARROW} {{
  :host {{ display: flex !important; flex-flow: row nowrap !important; gap: 0 !important;
           --tools-order: 1; --title-display: none;
           overflow-x: auto !important; scroll-snap-type: x mandatory; scrollbar-width: none; }}
}}
"""
PICTURE = f"""
:host {{ min-width: 0; width: auto !important; }}
@media {NARROW} {{ :host {{ flex: 0 0 100% !important; scroll-snap-align: start; }} }}
"""
FIRST = f"@media {NARROW} {{ :host {{ order: -1; }} }}"


class Switch(JSComponent):
    """Tabs that lead from one picture to the other where there is room for one only."""

    names: Any = param.List(default=["Relative error", "Proposals"], doc="From left to right.")
    _esm = SWITCH
    _stylesheets = [SWITCHES]  # noqa: RUF012  Panel reads it of the class


def pictures(proposals: Any, errors: Any) -> Any:
    """The place of both pictures."""
    proposals.stylesheets = [*proposals.stylesheets, PICTURE]
    errors.stylesheets = [*errors.stylesheets, PICTURE, FIRST]
    switch = Switch(sizing_mode="stretch_width", margin=0)
    return column(switch, column(proposals, errors, stylesheet=PLACE))
