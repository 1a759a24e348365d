r"""What the server answers: requests under its own names, for what the page needs, and no more.

The checks begin when this module is imported: by `make serve` or as a plugin of `panel serve`
before the server starts, with plain `panel serve` by the first visit.
"""

from __future__ import annotations

__all__ = ["ROUTES"]

import asyncio
import logging
import math
import os
import re
import sys
import time
from ipaddress import ip_network
from secrets import token_urlsafe
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary, WeakValueDictionary

from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.connection import ServerConnection
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.server.views import ws
from bokeh.settings import settings
from panel.io import location
from panel.io.resources import COMPONENT_PATH
from panel.io.server import DocHandler
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import OutputTransform, RequestHandler

from amci_explorer.server import compat
from amci_explorer.server.documentation import Documentation
from amci_explorer.server.files import ROUTES
from amci_explorer.server.messages import LONGEST_MESSAGE, Bounded
from amci_explorer.server.records import Short
from amci_explorer.server.shares import COOKIE, MESSAGES, PAGES, browser_named, new_cookie

# Who may show the page in a frame: `--frames` of `amci_explorer.server.serve`. Empty: everybody.
FRAMES = os.environ.get("AMCI_FRAMES", "")
# Bokeh's scripts make functions of text, and Panel's import modules of text; both set styles
# inline.
POLICY = (
    "default-src 'none'; script-src 'self' blob: 'unsafe-eval'{nonce}; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' blob:; manifest-src 'self'; base-uri 'self'; form-action 'self'"
)
INLINE = re.compile(rb"<script\b(?![^>]*\bsrc=)")
# Panel imports any module that an address under the first names; the page uses none of these.
UNUSED = (f"/{COMPONENT_PATH}", "/autoload.js", "/metadata")
# In moves: the whole document costs as much as a second of them.
WHOLE_DOCUMENT, FURTHER_CHANGE = 100, 0.1
# Bytes that a session may send in its life in larger messages, for its models keep them. A file of
# draws or proposals has up to 20 MB.
MOST_SENT, SMALL = 64 * 2**20, 16 * 2**10
_SENT: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
# Pages are built one at a time, and addresses take turns; between two of them others have half of
# the time that the first took.
REST, LONGEST_REST = 0.5, 1.0
BUILDING = asyncio.Lock()
_TURNS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


class Line(RequestHandler):
    """Answers with a status and one line of text, for every method."""

    def initialize(self, status: int, why: str, wait: float = 0.0) -> None:
        """Takes what `_refusal` gave."""
        self.set_status(status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        # A browser that shows it comes again by itself.
        for name in ("Retry-After", "Refresh") if wait else ():
            self.set_header(name, str(math.ceil(wait)))
        self.why = why

    def prepare(self) -> None:
        """Answers."""
        self.finish(f"{self.why}\n")


class Headers(OutputTransform):
    """Tells a browser with every answer what the page may do.

    Of inline scripts those of the answer itself may run, marked with a number that only it has.
    """

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Adds the headers."""
        nonce = ""
        if finishing and "html" in headers.get("Content-Type", ""):
            nonce = token_urlsafe(16)
            chunk = INLINE.sub(f"<script nonce={nonce}".encode(), chunk)
            headers["Content-Length"] = str(len(chunk))
        headers["Content-Security-Policy"] = policy(nonce)
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"
        return status_code, headers, chunk


def policy(nonce: str = "", frames: str = FRAMES) -> str:
    """The content security policy of an answer.

    Arguments:
        nonce: The mark of inline scripts that may run; empty: none may.
        frames: Who may show it in a frame, with spaces between; empty for everybody.
    """
    rules = POLICY.format(nonce=f" 'nonce-{nonce}'" if nonce else "")
    return f"{rules}; frame-ancestors 'self' {frames}" if frames else rules


def _refusal(application: BokehTornado, request: HTTPServerRequest) -> dict[str, Any] | None:
    """Why a request is refused; None for those that are answered."""
    path = request.path.removeprefix(application.prefix)
    allowed = settings.allowed_ws_origin() or application.websocket_origins
    # A page of another site can have its own name point to this server, and read the answers.
    if not check_allowlist(request.host.lower(), sorted(allowed)):
        why = f"This server does not answer to the host name {request.host[:40]!r}."
        return {"status": 403, "why": f"{why} To add one: make serve ORIGIN=name:port"}
    # No file's name has a NUL; Tornado's files would fail at it.
    if any(each in path for each in UNUSED) or "\0" in unquote(path):
        return {"status": 404, "why": "Page not found (404)."}
    # Bokeh would take an id or a token from an address or header, which is whoever's made the
    # link: two visitors would share a page.
    named = {"bokeh-session-id", "bokeh-token"} & request.arguments.keys()
    if named or "Bokeh-Session-Id" in request.headers:
        return {"status": 403, "why": "The server alone names sessions. Open the page itself."}
    # To connect makes a page as well, where its session has gone.
    if path.rstrip("/").removesuffix("/ws") in application.app_paths:
        wait = PAGES.take(*_asks(request), late=False)
        if wait:
            why = f"Too many pages are opened from here. Try again in {math.ceil(wait)} seconds."
            return {"status": 503, "why": why, "wait": wait}
    return None


def _asks(request: HTTPServerRequest) -> tuple[str, str]:
    """The browser and the address of a request; of IPv6 a network of 64 bits counts as one."""
    cookie, address = request.cookies.get(COOKIE), request.remote_ip or ""
    if ":" in address:
        address = str(ip_network(f"{address.partition('%')[0]}/64", strict=False))
    return browser_named(cookie.value if cookie else ""), address


def _find_handler(
    theirs: Any, application: BokehTornado, request: HTTPServerRequest, **options: Any
) -> Any:
    connection: Any = request.connection
    connection.set_max_body_size(LONGEST_MESSAGE)
    path = request.path.removeprefix(application.prefix)
    # For health checks of proxies and containers, under any host name.
    alive = {"status": 200, "why": "ok"} if path == "/health" else None
    answer = alive or _refusal(application, request)
    if answer:
        return application.get_handler_delegate(request, Line, answer)
    if path.startswith("/docs/"):
        name = {"name": path.removeprefix("/docs/")}
        return application.get_handler_delegate(request, Documentation, name)
    return theirs(application, request, **options)


async def _get_page(theirs: Any, handler: Any, *arguments: Any, **options: Any) -> None:
    browser, address = _asks(handler.request)
    async with _TURNS.setdefault(address, asyncio.Lock()):
        await BUILDING.acquire()
        began = time.monotonic()
        try:
            # Who has gone meanwhile needs none.
            if handler.request.connection.stream.closed():
                return
            if not browser:
                flags: Any = {"httponly": True, "samesite": "Lax"}
                secure = handler.request.protocol == "https"
                handler.set_cookie(COOKIE, new_cookie(), secure=secure, **flags)
            await theirs(handler, *arguments, **options)
        finally:
            # A page takes one turn of the loop: without a rest others would get none.
            rest = min(REST * (time.monotonic() - began), LONGEST_REST)
            asyncio.get_running_loop().call_later(rest, BUILDING.release)


async def _handle(theirs: Any, socket: Any, message: Any) -> Any:
    """Waits until a message may be taken: what is sent after it stays in the network."""
    session, size = socket.connection.session, socket.receiver.size
    if size > SMALL:
        _SENT[session] = _SENT.get(session, 0) + size
        if _SENT[session] > MOST_SENT:
            raise ProtocolError("the page has sent too much")
    cost: float = WHOLE_DOCUMENT
    if message.msgtype == "PATCH-DOC":
        cost = 1 + FURTHER_CHANGE * (len(message.content["events"]) - 1)
    await asyncio.sleep(MESSAGES.take(*_asks(socket.request), cost))
    # Of who has gone nothing is taken; Tornado tells it only once this message is done.
    gone = socket.ws_connection is None or socket.ws_connection.is_closing()
    return None if gone else await theirs(socket, message)


def _error(theirs: Any, connection: Any, message: Any, text: str) -> Any:
    """The answer to a message that failed: one line, which names nothing of the server."""
    what = f"The server could not take this: {type(sys.exc_info()[1]).__name__}."
    reply = theirs(connection, message, what)
    reply.content = {"text": what, "traceback": None}
    return reply


def _parse_query(theirs: Any, query: str) -> dict[str, Any]:
    """What Panel makes of an address; nothing if a number has more digits than Python converts."""
    try:
        return dict(theirs(query))
    except ValueError:
        return {}


def _flush(theirs: Any, handler: Any, include_footers: bool = False) -> Any:
    compat.transform(handler, Headers)
    return theirs(handler, include_footers)


logging.setLogRecordFactory(Short)
logging.captureWarnings(True)
# They change classes, for every server of this process. Bokeh has no hook before a request or a
# message is taken, and no option for headers or for how much a page may ask for.
compat.wrap(BokehTornado, "find_handler", _find_handler)
compat.wrap(RequestHandler, "flush", _flush)
compat.wrap(DocHandler, "get", _get_page)
compat.wrap(location, "parse_query", _parse_query)
compat.wrap(ws.WSHandler, compat.HANDLE, _handle)
compat.wrap(ServerConnection, "error", _error)
setattr(ws, "Receiver", Bounded)  # noqa: B010  mypy knows a class there
# Bokeh's option is not there for who imports us late.
setattr(ws.WSHandler, "max_message_size", LONGEST_MESSAGE)  # noqa: B010
