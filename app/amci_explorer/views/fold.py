r"""A part of the page that is folded away until it is wanted."""

from __future__ import annotations

__all__ = ["Fold"]

from typing import Any

import param
from panel.custom import Child, JSComponent

from amci_explorer.js.scripts import FOLD

STYLE = """
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; padding: 10px 8px; font-size: var(--text); font-weight: 600;
          color: var(--ink); border-radius: 4px; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
.content { padding: 0 8px 12px 8px; }
"""


class Fold(JSComponent):
    """Creates a `details` element around a part of the page.

    Arguments:
        title: What is in it.
        content: The part.
    """

    title: Any = param.String(doc="What stands on it.")
    unfolded: Any = param.Boolean(default=False, doc="Whether its content is shown.")
    content: Any = Child(doc="What it holds.")
    _esm = FOLD
    _stylesheets = [STYLE]  # noqa: RUF012  Panel reads it of the class

    def __init__(self, title: str, content: Any, **options: Any) -> None:
        settings = {"sizing_mode": "stretch_width", "margin": 0} | options
        super().__init__(title=title, content=content, **settings)
