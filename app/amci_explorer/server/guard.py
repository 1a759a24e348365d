r"""What the server answers and takes: requests under its own names, and small messages of text.

The checks begin when this module is imported: by `make serve` or as a plugin of `panel serve`
before the server starts, with plain `panel serve` by the first visit. How often a visitor may ask
is the proxy's affair: see `docs/nginx.conf`.
"""

from __future__ import annotations

__all__ = ["LONGEST_MESSAGE", "ROUTES", "policy"]

import asyncio
import os
import re
import sys
from secrets import token_urlsafe
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from bokeh.core.serialization import DeserializationError, Deserializer
from bokeh.server.connection import ServerConnection
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.server.views.ws import WSHandler
from bokeh.settings import settings
from panel.io.resources import COMPONENT_PATH
from panel.io.server import DocHandler
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from amci_explorer.server import compat
from amci_explorer.server.documentation import Documentation
from amci_explorer.server.files import ROUTES
from amci_explorer.server.session import COOKIE

# Who may show the page in a frame: `--frames` of `amci_explorer.server.serve`. Empty: everybody.
FRAMES = os.environ.get("AMCI_FRAMES", "")
# Bokeh's scripts make functions of text, and Panel's import modules of text; both set styles
# inline.
POLICY = (
    "default-src 'none'; script-src 'self' blob: 'unsafe-eval'{nonce}; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' blob:; manifest-src 'self'; base-uri 'self'; form-action 'self'"
)
INLINE = re.compile(r"<script\b(?![^>]*\bsrc=)")
# Panel imports any module that an address under the first names; the page uses none of these.
UNUSED = (f"/{COMPONENT_PATH}", "/autoload.js", "/metadata")
# Bytes of a message's part and of a request; a move of a handle has a few hundred. Characters of
# an address behind its `?`: Panel makes numbers of digits, and Python does so of 4,300 at most.
LONGEST_MESSAGE, LONGEST_QUERY = 32 * 2**10, 4_000
# Objects in a message: each is a change, an event or a value, and all are handled in one turn.
MOST_OBJECTS = 200
# Bytes of parts longer than a move that a session may send in its life: its models keep them.
MOVE, MOST_KEPT = 2 * 2**10, 4 * 2**20
_KEPT: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
# What a page never sends: new models, and values whose size in memory the message does not show.
REFUSED = ("bytes", "ndarray", "object", "slice", "typed_array")
# Pages are built one after the other, so that those that are open get a turn between two.
BUILDING = asyncio.Lock()


class Line(RequestHandler):
    """Answers every method with a status and a line of text."""

    def initialize(self, answer: tuple[int, str]) -> None:
        """Takes what is answered."""
        status, self.text = answer
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")

    def prepare(self) -> None:
        """Answers."""
        self.finish(f"{self.text}\n")


def policy(nonce: str = "", frames: str = FRAMES) -> str:
    """The content security policy of an answer.

    Arguments:
        nonce: The mark of inline scripts that may run; empty: none may.
        frames: Who may show it in a frame, with spaces between; empty for everybody.
    """
    rules = POLICY.format(nonce=f" 'nonce-{nonce}'" if nonce else "")
    return f"{rules}; frame-ancestors 'self' {frames}" if frames else rules


def _find_handler(
    theirs: Any, application: BokehTornado, request: HTTPServerRequest, **options: Any
) -> Any:
    # Bokeh's option, also where `panel serve` was given none.
    application.settings["websocket_max_message_size"] = LONGEST_MESSAGE
    connection: Any = request.connection
    connection.set_max_body_size(LONGEST_MESSAGE)
    path = request.path.removeprefix(application.prefix)
    # For health checks of proxies and containers, under any host name.
    line = (200, "ok") if path == "/health" else _refusal(application, request, path)
    if line is not None:
        return application.get_handler_delegate(request, Line, {"answer": line})
    if path.startswith("/docs/"):
        return application.get_handler_delegate(request, Documentation, {"name": path[6:]})
    return theirs(application, request, **options)


def _refusal(
    application: BokehTornado, request: HTTPServerRequest, path: str
) -> tuple[int, str] | None:
    """The status and the line with which a request is refused; None for all others."""
    hosts = settings.allowed_ws_origin() or application.websocket_origins
    # A page of another site can have its own name point to this server, and read the answers.
    if not check_allowlist(request.host.lower(), sorted(hosts)):
        return 403, f"No such host: {request.host[:40]!r}. Add it: make serve ORIGIN=name:port"
    if len(request.query) > LONGEST_QUERY:
        return 414, "The address is too long."
    # No file's name has a NUL; Tornado's files would fail at it, and Panel at a second `?`.
    path = unquote(path)
    if any(unused in path for unused in UNUSED) or "\0" in path or "?" in request.query:
        return 404, "Page not found (404)."
    # Bokeh would take a session's id or token from a link: its author would share the session.
    named = {"bokeh-session-id", "bokeh-token"} & request.arguments.keys()
    if named or "Bokeh-Session-Id" in request.headers:
        return 403, "The server alone names sessions. Open the page itself."
    return None


def _set_headers(_: Any, handler: RequestHandler, nonce: str = "") -> None:
    handler.set_header("Content-Security-Policy", policy(nonce))
    handler.set_header("X-Content-Type-Options", "nosniff")
    handler.set_header("Referrer-Policy", "same-origin")


def _write_page(theirs: Any, handler: RequestHandler, html: str) -> None:
    """Marks the inline scripts of a page with a number that only this answer has."""
    nonce = token_urlsafe(16)
    _set_headers(None, handler, nonce)
    theirs(handler, INLINE.sub(f"<script nonce={nonce}", html))


async def _get_page(theirs: Any, handler: RequestHandler, *arguments: Any) -> None:
    if COOKIE not in handler.request.cookies:
        handler.set_cookie(COOKIE, token_urlsafe(12), httponly=True, samesite="Lax")
    connection: Any = handler.request.connection
    async with BUILDING:
        # Who has gone meanwhile needs none.
        if not connection.stream.closed():
            await theirs(handler, *arguments)


async def _take(theirs: Any, socket: Any, part: str | bytes) -> None:
    """Takes a part of a message, or closes the connection if a page sends no such part."""
    if socket.connection is None or isinstance(part, bytes) or part.count("{") > MOST_OBJECTS:
        return socket.close(1008, "a page sends no such message")
    if len(part) > MOVE:
        session = socket.connection.session
        _KEPT[session] = _KEPT.get(session, 0) + len(part)
        if _KEPT[session] > MOST_KEPT:
            return socket.close(1008, "the page has sent too much")
    await theirs(socket, part)


def _refuse(value: dict[str, Any], _: Deserializer) -> Any:
    raise DeserializationError(f"a page sends no {value['type']}")


def _error(theirs: Any, connection: Any, message: Any, _: str) -> Any:
    """The answer to a message that failed, which names nothing of the server."""
    what = f"The server could not take this: {type(sys.exc_info()[1]).__name__}."
    reply = theirs(connection, message, what)
    reply.content = {"text": what, "traceback": None}
    return reply


# They change classes, for every server of this process: Bokeh has no hook before a request or a
# message is taken, and no option for headers.
compat.wrap(BokehTornado, "find_handler", _find_handler)
compat.wrap(RequestHandler, "set_default_headers", _set_headers)
compat.wrap(DocHandler, "get", _get_page)
compat.wrap(DocHandler, "write", _write_page)
compat.wrap(WSHandler, "on_message", _take)
compat.wrap(ServerConnection, "error", _error)
for kind in REFUSED:
    Deserializer.register(kind, _refuse)
