r"""The page around the views: header, sidebar, main area, light and dark."""

from __future__ import annotations

__all__ = ["page"]

from typing import Any

import panel_material_ui as pmui

from app.explorer import Explorer

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
THEME = {
    "light": {
        "palette": {
            "primary": {"main": "#1f5f8b"},
            "background": {"default": "#f4f6f8", "paper": "#ffffff"},
        },
        "typography": {"fontFamily": FONT},
    },
    "dark": {
        "palette": {
            "primary": {"main": "#7cc0ec"},
            "background": {"default": "#12171c", "paper": "#1a2027"},
        },
        "typography": {"fontFamily": FONT},
    },
}


def page(explorer: Explorer) -> pmui.Page:
    """Lays out what a visitor sees."""
    columns = {"flex": "1 1 440px", "min-width": "0"}

    def column(*content: Any) -> pmui.Column:
        return pmui.Column(*content, styles=columns, sizing_mode="stretch_width", margin=0)

    main = pmui.Column(
        explorer.story.panel,
        pmui.FlexBox(
            column(explorer.densities.panel),
            column(explorer.errors.panel),
            gap="16px",
            sizing_mode="stretch_width",
        ),
        explorer.strip.panel,
        explorer.reuse.panel,
        sizing_mode="stretch_width",
        margin=0,
        sx={"p": "16px", "gap": "16px"},
    )
    created = pmui.Page(
        title="AMCI Explorer",
        sidebar=[explorer.controls.panel],
        main=[main],
        sidebar_width=320,
        sidebar_resizable=False,
        theme_config=THEME,
        busy_indicator=None,
        meta_description="See amortized Monte Carlo integration at work.",
    )

    def recolour(*_: Any) -> None:
        for view in explorer.views:
            view.recolour(created.dark_theme)

    created.param.watch(recolour, "dark_theme")
    recolour()
    return created
