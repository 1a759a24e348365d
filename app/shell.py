r"""The page around the views: header, sidebar, main area, light and dark."""

from __future__ import annotations

__all__ = ["page"]

from contextvars import Context
from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.models import CustomJS
from panel.util import edit_readonly

from app.explorer import Explorer
from app.material import COMPONENTS
from app.scripts import CONNECTION_LOST, FIT_PHONES, FOLDS, HIDE_ON_PHONES, KEEP_THEME, OWN_F, SKIP
from app.session import answer
from app.views.layout import column, side_by_side

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
THEME = {
    "light": {
        "palette": {
            "primary": {"main": "#1f5f8b"},
            "background": {"default": "#f4f6f8", "paper": "#ffffff"},
        },
        "typography": {"fontFamily": FONT},
        "components": COMPONENTS,
    },
    "dark": {
        "palette": {
            "primary": {"main": "#7cc0ec"},
            "background": {"default": "#12171c", "paper": "#1a2027"},
        },
        "typography": {"fontFamily": FONT},
        "components": COMPONENTS
        | {
            "MuiAppBar": {
                "styleOverrides": {
                    "root": {
                        "backgroundColor": "#17324a",
                        "& .MuiIconButton-root": {"color": "#ffffff"},
                    }
                }
            }
        },
    },
}

WITHOUT_HEADER = "header { display: none !important; }"
MAIN = """
:host { padding: 16px; gap: 16px; box-sizing: border-box; }
@media (max-width: 599.95px) { :host { padding: 8px; gap: 8px; } }
"""


def page(explorer: Explorer, document: Any) -> pmui.Page:
    """Lays out what a visitor sees; for slides and frames one picture with its handles.

    Arguments:
        explorer: The views and controls.
        document: The visitor's Bokeh document.
    """
    if explorer.small:
        shown = explorer.cards[0].panel if explorer.cards else explorer.densities.panel
        handles = explorer.controls.case.panel
        main = column(
            explorer.story.alerts,
            side_by_side(shown, handles, least=280),
            explorer.address,
            stylesheet=MAIN,
        )
    else:
        main = column(
            explorer.story.panel,
            side_by_side(explorer.densities.panel, explorer.errors.panel, least=440),
            explorer.strip.panel,
            explorer.tabs.panel,
            explorer.address,
            stylesheet=MAIN,
        )
    created = pmui.Page(
        title="AMCI Explorer",
        sidebar=[] if explorer.small else [explorer.controls.panel],
        main=[main],
        sidebar_width=320,
        sidebar_resizable=False,
        theme_config=THEME,
        dark_theme=explorer.state.theme == "dark",
        busy_indicator=None,
        stylesheets=[WITHOUT_HEADER] if explorer.small else [HIDE_ON_PHONES],
        meta_description="See amortized Monte Carlo integration at work.",
    )

    # Nothing here shows that the server is busy. Panel's state would search this page twice at
    # every event of any visitor to tell it, and keep it for ever: another reference ends that.
    with edit_readonly(created):
        created.busy = created.param.loading
    # It runs a timer for that as well, once for all pages; in the context of a visit it would keep
    # that visit's page.
    Context().run(pn.state._schedule_busy_cleanup)

    scripts = [CustomJS(code=code) for code in (FIT_PHONES, FOLDS, KEEP_THEME, OWN_F, SKIP)]
    document.js_on_event("document_ready", *scripts)
    document.js_on_event("connection_lost", CustomJS(code=CONNECTION_LOST))

    def recolour(*_: Any) -> None:
        explorer.recolour(created.dark_theme)
        explorer.state.set(theme="dark" if created.dark_theme else "light")

    created.param.watch(answer(recolour), "dark_theme")
    explorer.recolour(created.dark_theme)
    return created
