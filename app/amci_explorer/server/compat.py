r"""Every name of Bokeh, Panel and Tornado that is put another in the place of, and why.

They change classes, for every server of this process, so that plain `panel serve`, which imports
our code with the first visit, is guarded from then on.
"""

from __future__ import annotations

__all__ = ["hang_up", "install", "sockets_of", "used_token"]

from collections.abc import Callable
from typing import Any

from bokeh.server.connection import ServerConnection
from bokeh.server.tornado import BokehTornado
from bokeh.server.views import ws
from bokeh.server.views.session_handler import SessionHandler
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
