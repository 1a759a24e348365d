r"""When a page may be told what: many changes in one message, none before it stands."""

from __future__ import annotations

__all__ = ["one_message", "when_loaded"]

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


def when_loaded(act: Callable[..., Any]) -> Callable[..., None]:
    """Has an answer to a user's action wait until the page has told that it stands.

    A quick user can move a slider before that. Panel would throw away what widgets and panes are
    told in answer: it takes it that the page will get the whole document later, but it has it.
    """

    def wait(*arguments: Any) -> None:
        if pn.state.loaded:
            act(*arguments)
        else:
            pn.state.onload(partial(act, *arguments))

    return wait
