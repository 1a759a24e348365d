r"""The page around the views: header, sidebar, main area, light and dark."""

from __future__ import annotations

__all__ = ["page"]

from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.models import CustomJS
from panel.util import edit_readonly
from panel_material_ui.base import BASE_TEMPLATE

from amci_explorer.explorer import Explorer
from amci_explorer.js.scripts import source
from amci_explorer.server.compat import FORGET_MODELS, start_busy_timer
from amci_explorer.server.session import callback
from amci_explorer.views.inputs import flat_button
from amci_explorer.views.layout import column
from amci_explorer.views.style import NARROW, THEME

HEADERS = "header, main .MuiToolbar-root { display: none !important; }"
WITHOUT_HEADER = f":host {{ --bar: 0px; }} {HEADERS}"
# What scrolls on a screen is as long as its content on paper.
PRINTED = f"""
@media print {{
  {HEADERS}
  :host, .page, :has(.main-content), .main-content {{
    height: auto !important; overflow: visible !important; display: block !important;
    background: none !important; }}
}}
"""
MAIN = f"""
:host {{ padding: 8px 16px 12px; gap: 12px; box-sizing: border-box; background: var(--page);
        min-height: calc(100vh - var(--bar)); }}
@media {NARROW} {{ :host {{ padding: 8px; gap: 8px; }} }}
@media print {{ :host {{ filter: var(--printed, none); }} }}
"""
# The handles beside the pictures stay in sight while these scroll. On a narrow page what is not
# in the bar at the bottom comes last, and the page ends above that bar.
BENCH = f"""
:host {{ display: flex !important; flex-flow: row nowrap !important; align-items: flex-start; }}
@media {NARROW} {{ :host {{ flex-flow: column nowrap !important; padding-bottom: 150px; }} }}
"""
SIDE = f"""
:host {{ flex: 0 0 260px !important; width: 260px !important; position: sticky; top: 0;
        max-height: calc(100vh - var(--bar)) !important; overflow-y: auto; padding: 6px 6px 12px;
        margin: -6px !important; box-sizing: border-box; scrollbar-width: thin; }}
:host > * {{ flex: none; }}
@media {NARROW} {{ :host {{ flex: 0 0 auto !important; width: 100% !important; position: static;
                          max-height: none !important; overflow: visible; padding: 0;
                          margin: 0 !important; order: 1; }} }}
@media print {{
  :host {{ position: static; max-height: none !important; overflow: visible; }}
  :host > :not(:first-of-type) {{ display: none !important; }}
}}
"""
# On a narrow page its parts stand in one column with the controls.
REST = f"""
:host {{ flex: 1 1 0 !important; min-width: 0; width: auto !important; }}
@media {NARROW} {{ :host {{ display: contents !important; }} }}
"""
# Both opening cards are as high as the higher one.
PICTURES = f"""
:host {{ display: grid !important; gap: 12px !important;
         grid-template-columns: minmax(0, 1fr) minmax(0, 1.12fr); }}
:host > * {{ width: auto !important; height: auto !important; align-self: stretch !important; }}
@media {NARROW} {{ :host {{ grid-template-columns: minmax(0, 1fr); gap: 8px !important; }} }}
"""
LAST = f"@media {NARROW} {{ :host {{ order: 2; }} }}"
# The theme is chosen before anything is drawn; a busy sign keeps no handle from the mouse.
TEMPLATE = BASE_TEMPLATE.environment.from_string(
    '{% extends "base.html" %}'
    "{% block preamble %}{{ super() }}<script>"
    + source("choose_theme.js")
    + "</script>{% endblock %}"
    "{% block loader_css %}{{ super() }}#loader { background: none; pointer-events: none; }"
    "{% endblock %}"
)


def _theme(wanted: str) -> str:
    """The theme to begin with: the link's, else what the page told at its last visit."""
    told = pn.state.cookies.get("amci-theme", wanted)
    return told if wanted == "system" else wanted


def page(explorer: Explorer, document: Any) -> pmui.Page:
    """Lays out what a session shows; for slides and frames one picture with its handles.

    Arguments:
        explorer: The views and controls.
        document: The session's Bokeh document.
    """
    controls = explorer.controls
    tour = flat_button("Tour", lambda _: explorer.tour.open(), sizing_mode=None, margin=(0, 8))
    if explorer.small:
        shown = explorer.card or explorer.densities
        side, rest = column(controls.case.panel, stylesheet=SIDE), [explorer.alerts, shown.panel]
    else:
        side = column(controls.side, stylesheet=SIDE)
        rest = [
            # Without a gap: most of the time there are no alerts.
            column(explorer.alerts, controls.top),
            explorer.headline.panel,
            column(explorer.densities.panel, explorer.errors.panel, stylesheet=PICTURES),
            explorer.summary.panel,
            column(explorer.tabs.panel, stylesheet=LAST),
            explorer.tour.panel,
        ]
    bench = column(side, column(*rest, gap=8, stylesheet=REST), gap=16, stylesheet=BENCH)
    created = pmui.Page(
        title="AMCI Explorer",
        sidebar=[],
        header=[] if explorer.small else [tour],
        main=[column(bench, explorer.address, stylesheet=MAIN)],
        theme_config=THEME,
        dark_theme=_theme(explorer.state.theme) == "dark",
        template=TEMPLATE,
        busy_indicator=None,
        stylesheets=[PRINTED, WITHOUT_HEADER] if explorer.small else [PRINTED],
        meta_description="See amortized Monte Carlo integration at work.",
    )

    # Nothing here shows that the server is busy. Panel's state would search this page twice at
    # every event of any visitor to tell it, and keep it for ever: another reference ends that.
    with edit_readonly(created):
        created.busy = created.param.loading
    start_busy_timer()

    opened = (FORGET_MODELS, source("keep_theme.js"), source("skip.js"))
    document.js_on_event("document_ready", *(CustomJS(code=code) for code in opened))
    document.js_on_event("connection_lost", CustomJS(code=source("connection_lost.js")))

    def recolour(*_: Any) -> None:
        explorer.recolour(created.dark_theme)
        explorer.state.set(theme="dark" if created.dark_theme else "light")

    created.param.watch(callback(recolour), "dark_theme")
    explorer.recolour(created.dark_theme)
    return created
