r"""Every private name of Panel and Bokeh that the page uses, and why.

Each stands under the subject of what is to be reported upstream, with the version that was looked
at; a newer one may do without it.
"""

from __future__ import annotations

__all__ = [
    "ACCESSIBLE",
    "FORGET_MODELS",
    "Pane",
    "Prompt",
    "PromptText",
    "frozen",
    "hide_working_directory",
    "start_busy_timer",
    "sweep_soon",
    "wrap",
]

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

import panel as pn
from bokeh.model import Model
from panel.io.document import _WRITE_BLOCK, _WRITE_MSGS, schedule_write_events

from amci_explorer.js.scripts import source

# Bokeh 3.9.2, "Roles, names and keys of a figure, its tools and its legend": the views' methods
# after which a script of ours gives them these.
DRAWN = [
    ["Figure", "_apply_html_attributes"],
    ["Figure", "after_render"],
    ["Toolbar", "render"],
    ["OnOffButton", "_toggle_active"],
    ["Legend", "_toggle_inactive"],
]
ACCESSIBLE = f"const drawn = {json.dumps(DRAWN)}\n{source('figures.js')}"
# Bokeh 3.9.2, "Models stay in a document for half a minute after they have left it", and "The
# first event that names a model from the server sends all of it back", which is refused there.
FORGET_MODELS = """
cb_obj._recompute_timeout = 1000
const apply = cb_obj.apply_json_patch
cb_obj.apply_json_patch = (...patch) => {
    apply.apply(cb_obj, patch)
    cb_obj._new_models.clear()
}
"""


class Pane(pn.pane.HTML):
    """HTML that finds its styles before it is part of a document.

    Panel 1.9.4, "A pane made in a callback looks for its style sheets elsewhere".
    """

    def _get_properties(self, doc: Any) -> dict[str, Any]:
        found: dict[str, Any] = super()._get_properties(doc or pn.state.curdoc)
        return found


def wrap(place: Any, name: str, ours: Callable[..., Any]) -> None:
    """Puts a function, called with theirs first, instead of one of a class or module."""
    theirs = getattr(place, name)

    def call(*arguments: Any, **options: Any) -> Any:
        return ours(theirs, *arguments, **options)

    setattr(place, name, call)


def hide_working_directory() -> None:
    """Takes the server's working directory out of what is sent with every page.

    Panel 1.9.4, "The default of a file selector is sent with every page".
    """
    for name, kind in Model.model_class_reverse_map.items():
        if name.startswith("FileSelector"):
            kind.lookup("directory").property._default = ""


def start_busy_timer() -> None:
    """Starts the timer by which Panel sees that it is no longer busy, in no visit's context.

    Panel 1.9.4, "The task of the busy indicator keeps the first session's context alive".
    """
    Context().run(pn.state._schedule_busy_cleanup)


# So long after a message it is seen to that none is left behind.
SECONDS_UNTIL_SWEPT = 0.02


def sweep_soon(document: Any) -> None:
    """Has Panel send messages that it has left in its queue, a little later.

    Panel queues messages while the socket is busy (its pull request 6667, "Ensure Websocket writes
    are always dispatched sequentially"). The first sender that finds none left ends the queue,
    also for those that wait for the socket: what they hold stays there until something else
    happens. A message that never leaves names its connection, which keeps the whole page.
    """
    if getattr(document, "session_context", None) is not None:
        asyncio.get_running_loop().call_later(SECONDS_UNTIL_SWEPT, _sweep, document)


def _sweep(document: Any) -> None:
    if document.session_context is None:
        _WRITE_MSGS.pop(document, None)
    elif _WRITE_MSGS.get(document):
        if document not in _WRITE_BLOCK:
            schedule_write_events(document, [], [])
        sweep_soon(document)


@contextmanager
def frozen(document: Any) -> Iterator[None]:
    """Has Bokeh look for what a page holds once, and not at all if no model came or went.

    It searches all of the page: 40 ms for our 400 models. `hold(freeze=True)` of Panel (its pull
    request 8417, "Add freeze parameter to hold() to defer model recomputation") does so for every
    message.
    """
    models = getattr(document, "models", None)
    if models is None or "invalidate" in vars(models):
        yield
        return
    asked: list[bool] = []
    models.invalidate = lambda: asked.append(True)
    models._freeze_count += 1
    try:
        yield
    finally:
        models._freeze_count -= 1
        del models.invalidate
        if asked:
            models.invalidate()


class Prompt:
    """A widget that what a page sends reaches before a button that is pressed next.

    Panel 1.9.4 waits 50 ms before it looks at an input; a slider's move takes less altogether.
    """

    _debounce = 1


class PromptText(Prompt):
    """The same for a text: it is there before the answer to a button in the same message."""

    # Bokeh wants to see these names.
    def _server_change(
        self, doc: Any, ref: Any, subpath: Any, attr: Any, old: Any, new: Any
    ) -> None:
        super()._server_change(doc, ref, subpath, attr, old, new)  # type: ignore[misc]
        self._change_event(doc)  # type: ignore[attr-defined]
