r"""The page's HTML: its title, problem and shape stand before any script."""

from __future__ import annotations

__all__ = ["REMOVE_OUTLINE", "TEMPLATE", "outline"]

import re
from hashlib import md5
from html import escape
from typing import Any

import panel_material_ui as pmui
from panel_material_ui.base import BASE_TEMPLATE

from amci_core.models import Problem
from amci_explorer.js.scripts import CHOOSE_THEME
from amci_explorer.views.style import BAR_HEIGHT, NARROW

# A part of Bokeh that the page does not use. Panel's script fails without Bokeh's tables.
UNUSED = re.compile(r'<script[^>]*src="[^"]*/bokeh-gl\.min\.js[^"]*"[^>]*></script>')
# The components come as a module, which the first of them would ask for once the page's models are
# there. With another address, of a version to come, it would be loaded twice.
MODULE = (
    "panel-material-ui/panel-material-ui.bundle.js?" + md5(pmui.__version__.encode()).hexdigest()
)
STYLE = f"""
#outline {{ position: absolute; inset: 0 0 auto; z-index: -1; font-family: system-ui;
    color: var(--ink); background: var(--page); min-height: 100vh; }}
#outline header {{ background: #17324a; color: #fff; font-size: 1.25rem; padding: 0 16px;
    line-height: {BAR_HEIGHT}px; }}
#outline main {{ display: grid; grid-template-columns: 264px 1fr 1fr; gap: 12px;
    padding: 8px 16px; }}
#outline p {{ grid-column: 2 / -1; margin: 0; line-height: 1.5; }}
#outline div {{ background: var(--paper); border-radius: 8px; height: 440px; }}
#outline div:first-child {{ grid-row: 1 / 3; height: 600px; }}
@media {NARROW} {{ #outline main {{ grid-template-columns: 1fr; }}
    #outline p {{ grid-column: 1; grid-row: 1; }} }}
"""
REMOVE_OUTLINE = "document.getElementById('outline')?.remove()"
# Scripts stand behind the outline, so that the browser paints it while they load.
TEMPLATE = BASE_TEMPLATE.environment.from_string(
    '{% extends "base.html" %}{% block preamble %}{{ super() }}'
    '<link rel="preload" as="fetch" crossorigin href="{{ dist_url }}../' + MODULE + '">'
    f"<script>{CHOOSE_THEME}</script><style>{STYLE}</style>{{% endblock %}}"
    # Neither does a busy sign darken it, or keep a handle from the mouse.
    "{% block loader_css %}{{ super() }}#loader { background: none; pointer-events: none; }"
    "{% endblock %}"
    "{% block js_resources %}{% endblock %}"
    "{% block contents %}{{ outline.html }}{{ super() }}{{ outline.used(bokeh_js) }}{% endblock %}"
)


def outline(problem: Problem, *, frame: bool) -> dict[str, Any]:
    """What the template asks for.

    Arguments:
        problem: The problem that the page opens with.
        frame: Whether the page is one picture with its handles, which has another shape.
    """
    whole = (
        f"<div id=outline><header>AMCI Explorer</header><main><div></div>"
        f"<p><b>{escape(problem.title)}.</b> {escape(problem.description)}</p>"
        "<div></div><div></div></main></div>"
    )
    return {
        "html": "" if frame else whole,
        "used": lambda scripts: UNUSED.sub("", scripts),
    }
