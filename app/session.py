r"""Changes of many models in one message, so that the page paints once."""

from __future__ import annotations

__all__ = ["one_message"]

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import panel as pn


@contextmanager
def one_message(document: Any) -> Iterator[None]:
    """Collects what changes inside, and sends it to the page at once.

    Until the page has told that it stands, Panel's `hold` throws changes away, although the page
    may have its document already: there every change is sent by itself.

    Arguments:
        document: The visitor's Bokeh document.
    """
    if not pn.state.loaded:
        yield
        return
    with pn.io.hold(document):
        yield
