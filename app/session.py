r"""When a page may be told what: many changes in one message, none before it stands."""

from __future__ import annotations

__all__ = ["answer", "one_message"]

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import panel as pn


@contextmanager
def one_message(document: Any) -> Iterator[None]:
    """Collects what changes inside, and sends it to the page at once, so that it paints once.

    Arguments:
        document: The visitor's Bokeh document.
    """
    with pn.io.hold(document):
        yield


def answer(act: Callable[..., Any]) -> Callable[..., None]:
    """Makes of an action the answer to a user's: given once the page stands, in one message.

    A quick user can move a slider before that. Panel would throw away what widgets and panes are
    told in answer: it takes it that the page will get the whole document later, but it has it. And
    while other messages are under way Panel answers without the document's lock: a change of a
    Bokeh model raises then, unless it is collected.
    """

    def given(*arguments: Any) -> None:
        with one_message(pn.state.curdoc):
            act(*arguments)

    def wait(*arguments: Any) -> None:
        if pn.state.loaded:
            given(*arguments)
        else:
            pn.state.onload(partial(given, *arguments))

    return wait
