r"""Every name of Bokeh, Panel and Tornado that is put another in the place of, and why.

They change classes, for every server of this process, so that plain `panel serve`, which imports
our code with the first visit, is guarded from then on.
"""

from __future__ import annotations

__all__ = ["frozen", "hang_up", "install", "sockets_of", "sweep_soon", "used_token"]

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bokeh.server.connection import ServerConnection
from bokeh.server.tornado import BokehTornado
from bokeh.server.views import ws
from bokeh.server.views.session_handler import SessionHandler
from panel.io.document import _WRITE_BLOCK, _WRITE_MSGS, schedule_write_events
from panel.io.server import DocHandler
from tornado.web import OutputTransform

Wrap = Callable[..., Any]


def install(
    *,
    find_handler: Wrap,
    headers: type[OutputTransform],
    get_page: Wrap,
    get_session: Wrap,
    receiver: type,
    on_message: Wrap,
    handle: Wrap,
    on_ping: Wrap,
    on_pong: Wrap,
    longest_message: int,
    close: Wrap,
    error: Wrap,
) -> None:
    """Puts our parts in the place of theirs.

    Arguments:
        find_handler: Called with theirs, the application, a request and options. Bokeh has no hook
            before a request is answered.
        headers: Bokeh sends no security headers, and has no option for them.
        get_page: Called with theirs and the handler. Bokeh opens as many pages as are asked for.
        get_session: Called with theirs and the handler. Bokeh takes any id or token, unless these
            are signed; whoever makes a link has signed ones.
        receiver: Bokeh bounds frames, not messages, and unpacks gzip without a bound.
        on_message: Called with theirs, the socket and a fragment. Bokeh reads on at any
            rate.
        handle: Called with theirs, the socket and a message.
        on_ping: Called with theirs, the socket and the data. Tornado answers at any rate.
        on_pong: Called with theirs, the socket and the data. Tornado takes those too that it
            has not asked for.
        longest_message: Bytes of a frame. Bokeh's option is not there for who imports us late.
        close: Called with theirs, the socket, a code and a reason. Bokeh's codes are none of the
            protocol's, and its reasons have any length.
        error: Called with the connection, a message and a text. Bokeh answers with a traceback.
    """

    def wrapped(place: type, name: str, ours: Wrap) -> None:
        theirs = getattr(place, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return ours(theirs, *arguments, **options)

        setattr(place, name, call)

    def with_headers(theirs: Wrap, application: Any, *arguments: Any, **options: Any) -> Any:
        if headers not in application.transforms:
            application.add_transform(headers)
        return find_handler(theirs, application, *arguments, **options)

    wrapped(BokehTornado, "find_handler", with_headers)
    wrapped(DocHandler, "get", get_page)
    wrapped(SessionHandler, "get_session", get_session)
    wrapped(ws.WSHandler, "on_message", on_message)
    wrapped(ws.WSHandler, "_handle", handle)
    wrapped(ws.WSHandler, "on_ping", on_ping)
    wrapped(ws.WSHandler, "on_pong", on_pong)
    wrapped(ws.WSHandler, "close", close)
    setattr(ws, "Receiver", receiver)  # noqa: B010  mypy knows a class there
    setattr(ws.WSHandler, "max_message_size", longest_message)  # noqa: B010
    setattr(ServerConnection, "error", error)  # noqa: B010


def hang_up(socket: Any, code: int, why: str) -> None:
    """Closes a websocket at once: Tornado would read on until the other side agrees."""
    if socket.ws_connection is not None:
        socket.ws_connection.client_terminated = True
        socket.close(code, why)


def sockets_of(session: Any) -> list[Any]:
    """A session's websockets: Bokeh only counts them."""
    return [connection._socket for connection in session._subscribed_connections]


def used_token(context: Any) -> str:
    """The token that a session was made with: Bokeh shows what it holds, not the token."""
    token: str = context._token
    return token


# So long after a message it is seen to that none is left behind.
SECONDS_UNTIL_SWEPT = 0.02


def sweep_soon(document: Any) -> None:
    """Has Panel send messages that it has left in its queue, a little later.

    Panel queues messages while the socket is busy (its pull request 6667, "Ensure Websocket writes
    are always dispatched sequentially"). The first sender that finds none left ends the queue,
    also for those that wait for the socket: what they hold stays there until something else
    happens. A message that never leaves names its connection, which keeps the whole page.
    """
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
