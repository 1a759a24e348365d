r"""When a page may be told what: many changes in one message, none before it stands."""

from __future__ import annotations

__all__ = [
    "COOKIE",
    "browser_of",
    "callback",
    "guarded",
    "on_failure",
    "on_page",
    "weakly",
]

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakMethod

import panel as pn
from bokeh.settings import settings

from amci_explorer.server import compat

# A random number, by which the tabs of a browser are known to be one's.
COOKIE = "amci-browser"
# Bokeh would ask the environment for every array that it sends.
settings.simple_ids = settings.simple_ids()
# And look at every visit for mistakes that are ours.
settings.perform_document_validation = False

# By the session's document: who tells what failed.
_TELL: WeakKeyDictionary[Any, Callable[[Exception], None]] = WeakKeyDictionary()


def on_failure(document: Any, tell: Callable[[Exception], None]) -> None:
    """Has a method called with errors of a document's updates."""
    _TELL[document] = weakly(tell)


@contextmanager
def guarded(document: Any) -> Iterator[None]:
    """The one way to a page: a change is one message, a failure is reported.

    Every change of a loaded page is made in here. Bokeh and Panel have a way of
    their own each to send what is not, and one may overtake the other: the page would be told of a
    picture that it has not got yet.

    Arguments:
        document: The session's Bokeh document.
    """
    try:
        with pn.io.hold(document), compat.frozen(document):
            try:
                yield
            except Exception as error:
                if document not in _TELL:
                    raise
                _TELL[document](error)
    finally:
        compat.sweep_soon(document)


async def on_page(document: Any, act: Callable[[], None]) -> None:
    """Changes a page as one message, and waits until that is done; before it is sent at once.

    Arguments:
        document: The session's Bokeh document.
        act: Changes it; not called if this is cancelled before.
    """
    done = asyncio.get_running_loop().create_future()

    def turn() -> None:
        session = getattr(document.session_context, "session", None)
        if done.cancelled():
            return
        if session is not None and session.connection_count and not pn.state.loaded:
            # The page has got the document, but Panel would keep what changes from it.
            return pn.state.onload(partial(document.add_next_tick_callback, turn))
        try:
            with guarded(document):
                act()
        finally:
            done.set_result(None)

    document.add_next_tick_callback(turn)
    await done


def browser_of(document: Any) -> str:
    """The name of a session's browser; without our cookie each session has its own."""
    request = getattr(document.session_context, "request", None)
    return getattr(request, "cookies", {}).get(COOKIE) or f"session {id(document)}"


def callback(act: Callable[..., Any], *, early: bool = False) -> Callable[..., None]:
    """Makes of an action the answer to a user's: given once the page stands, in one message.

    A quick user can move a slider before that. Panel would throw away what a callback sets in
    answer: it takes it that the page will get the whole document later, but it has it. And
    while other messages are under way Panel answers without the document's lock: a change of a
    Bokeh model raises then, unless it is collected. What widgets say while the page is built, and
    so has no roots, is no user's.

    Arguments:
        act: The action.
        early: Whether to act also while the page is built.
    """

    def given(*arguments: Any) -> None:
        with guarded(pn.state.curdoc):
            act(*arguments)

    def wait(*arguments: Any) -> None:
        document: Any = pn.state.curdoc
        if pn.state.loaded:
            given(*arguments)
        elif document.roots:
            pn.state.onload(partial(given, *arguments))
        elif early:
            act(*arguments)

    return wait


def weakly(method: Callable[..., Any]) -> Callable[..., None]:
    """Calls a method of a session's object while that exists, and does not keep it alive.

    Panel keeps what it is given for a session where the session itself is only looked up: with the
    method it would keep the whole page, for as long as the server runs.
    """
    there = WeakMethod(method)

    def called(*arguments: Any) -> None:
        found = there()
        if found is not None:
            found(*arguments)

    return called
