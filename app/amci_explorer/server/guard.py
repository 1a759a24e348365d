r"""What the server answers: requests under its own names, for what the page needs, and no more.

The checks begin when this module is imported: by `make serve` or as a plugin of `panel serve`
before the server starts, with plain `panel serve` by the first visit.
"""

from __future__ import annotations

__all__ = ["ROUTES", "policy"]

import asyncio
import math
import os
import re
import sys
from secrets import token_urlsafe
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes
from weakref import WeakKeyDictionary

from bokeh.protocol.exceptions import ProtocolError
from bokeh.server.connection import ServerConnection
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.server.views import ws
from bokeh.settings import settings
from bokeh.util.token import get_session_id
from panel.io.resources import COMPONENT_PATH
from panel.io.server import DocHandler
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import OutputTransform, RequestHandler

from amci_explorer.server import compat
from amci_explorer.server.files import ROUTES
from amci_explorer.server.messages import LONGEST_MESSAGE, Bounded
from amci_explorer.server.records import shorten_records
from amci_explorer.server.session import say
from amci_explorer.server.shares import COOKIE, MESSAGES, PAGES, Door, Visitor, new_cookie

# Who may show the page in a frame: `--frames` of `amci_explorer.server.serve`. Empty: everybody.
FRAMES = os.environ.get("AMCI_FRAMES", "")
INLINE = re.compile(rb"<script\b(?![^>]*\bsrc=)")
# Bokeh would take an id or a token from an address or header, which is whoever's made the link:
# two visitors would share a page.
NAMES_SESSION, HEADER = {"bokeh-session-id", "bokeh-token"}, "Bokeh-Session-Id"
# Panel imports whatever module an address under the first names; the page uses none of these.
UNUSED = (f"/{COMPONENT_PATH}", "/autoload.js", "/metadata")
# A message comes in three parts; the whole document costs as much as a second of moves.
PART, WHOLE_DOCUMENT, CONNECTION, FURTHER = 1 / 3, 100, 10, 0.1
# Bytes that a session may send in its life in larger messages, for its models keep them. A file of
# draws or proposals has up to 20 MB.
MOST_SENT, SMALL = 64 * 2**20, 16 * 2**10
_SENT: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
# A browser that is this many seconds ahead of its share is told so, at most so often.
TOLD_AFTER, SECONDS_BETWEEN = 1.0, 60.0
TOO_MANY = "Your browser sends more than the server answers: its moves are answered late."
DOOR = Door()


class Refused(NamedTuple):
    """Why a request is not answered; and the seconds after which it may come again."""

    status: int
    why: str
    wait: float = 0.0


class Refusal(RequestHandler):
    """Answers with a status and one line of text."""

    def initialize(self, refused: Refused) -> None:
        """Takes what `_why_refused` gave."""
        self.refused = refused

    def prepare(self) -> None:
        """Answers whatever the method is."""
        self.set_status(self.refused.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        if self.refused.wait:
            seconds = str(math.ceil(self.refused.wait))
            self.set_header("Retry-After", seconds)
            # A browser that shows it comes again by itself.
            self.set_header("Refresh", seconds)
        self.finish(f"{self.refused.why}\n")


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

    Bokeh's scripts make functions of text, and Panel's import modules of text (`unsafe-eval`,
    `blob:`); both set styles inline.

    Arguments:
        nonce: The mark of inline scripts that may run; empty: none may.
        frames: Who may show it in a frame, with spaces between; empty for everybody.
    """
    rules = {
        "default-src": "'none'",
        "script-src": "'self' blob: 'unsafe-eval'" + (f" 'nonce-{nonce}'" if nonce else ""),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self' blob:",
        "manifest-src": "'self'",
        "base-uri": "'self'",
        "form-action": "'self'",
    }
    if frames:
        rules["frame-ancestors"] = f"'self' {frames}"
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _why_refused(application: BokehTornado, request: HTTPServerRequest) -> Refused | None:
    """Why a request is refused; None for those that are answered.

    A page of another site can have its own name point to this server, and read the answers: the
    name in the request tells.
    """
    path = request.path.removeprefix(application.prefix)
    allowed = settings.allowed_ws_origin() or application.websocket_origins
    if not _is_known(request.host.lower(), sorted(allowed)):
        why = f"This server has other names than {request.host[:40]!r}."
        return Refused(403, f"{why} To add one: make serve ORIGIN=name:port")
    if any(each in path for each in UNUSED):
        return Refused(404, "There is nothing here.")
    if min(unquote_to_bytes(path), default=32) < 32:
        return Refused(400, "An address has no control characters.")
    if not NAMES_SESSION.isdisjoint(request.arguments) or HEADER in request.headers:
        return Refused(403, "The server alone names sessions. Open the page itself.")
    makes_page, wait = path.rstrip("/") in application.app_paths, 0.0
    if path.endswith("/ws"):
        token = request.headers.get("Sec-WebSocket-Protocol", "").rpartition(",")[2].strip()
        try:
            session = get_session_id(token)
            # That of a session that has gone makes another one.
            makes_page = session not in {
                each.id for each in application.get_sessions(path.removesuffix("/ws"))
            }
        except Exception:  # what is no token fails anywhere in it
            return Refused(403, "No page of this server has that token. Reload yours.")
        wait = MESSAGES.take(_visitor(request), CONNECTION, late=False)
    if makes_page:
        wait = wait or PAGES.take(_visitor(request), late=False)
    why = f"Too many pages are opened from here. Try again in {math.ceil(wait)} seconds."
    return Refused(503, why, wait) if wait else None


def _is_known(host: str, allowed: list[str]) -> bool:
    """Whether a page under that name could connect.

    A proxy may drop the port or name its own; a page under another port of this machine would
    open and never connect.
    """
    name = host.rpartition(":")[0] or host
    names = [f"{each.rpartition(':')[0] or each}:80" for each in allowed]
    known = name not in ("127.0.0.1", "localhost") and check_allowlist(name, names)
    return known or check_allowlist(host, allowed)


def _visitor(request: HTTPServerRequest) -> Visitor:
    cookie = request.cookies.get(COOKIE)
    return Visitor.of("" if cookie is None else cookie.value, request.remote_ip or "")


def _find_handler(
    theirs: Any, application: BokehTornado, request: HTTPServerRequest, **options: Any
) -> Any:
    if Headers not in application.transforms:
        application.add_transform(Headers)
    limit = getattr(request.connection, "set_max_body_size", None)
    if limit is not None:
        limit(LONGEST_MESSAGE)
    refused = _why_refused(application, request)
    if refused is not None:
        return application.get_handler_delegate(request, Refusal, {"refused": refused})
    return theirs(application, request, **options)


async def _get_page(theirs: Any, handler: Any, *arguments: Any, **options: Any) -> None:
    visitor = _visitor(handler.request)
    async with DOOR.enter(visitor.address):
        # Who has gone meanwhile needs none.
        if handler.request.connection.stream.closed():
            return
        if not visitor.browser:
            secure = handler.request.protocol == "https"
            handler.set_cookie(COOKIE, new_cookie(), httponly=True, samesite="Lax", secure=secure)
        await theirs(handler, *arguments, **options)


async def _on_message(theirs: Any, socket: Any, part: str | bytes) -> None:
    await _in_turn(socket, PART)
    # What is left of who has gone is not read; Tornado tells it only once the message is done.
    if socket.ws_connection is not None and not socket.ws_connection.is_closing():
        await theirs(socket, part)


async def _handle(theirs: Any, socket: Any, message: Any) -> Any:
    session, size = socket.connection.session, socket.receiver.size
    if size > SMALL:
        _SENT[session] = _SENT.get(session, 0) + size
        if _SENT[session] > MOST_SENT:
            raise ProtocolError("the page has sent too much")
    pulls = message.msgtype == "PULL-DOC-REQ"
    cost = WHOLE_DOCUMENT if pulls else FURTHER * (len(message.content["events"]) - 1)
    await _in_turn(socket, cost)
    return await theirs(socket, message)


async def _in_turn(socket: Any, cost: float) -> None:
    """Waits until a socket may be read on: what it sends stays in the network, in its order."""
    wait = MESSAGES.take(_visitor(socket.request), cost)
    if wait > TOLD_AFTER and socket.connection is not None:
        say(socket.connection.session.document, TOO_MANY, SECONDS_BETWEEN)
    if wait:
        await asyncio.sleep(wait)


def _error(theirs: Any, connection: Any, message: Any, text: str) -> Any:
    """The answer to a message that failed: one line, which names nothing of the server."""
    what = f"The server could not take this: {type(sys.exc_info()[1]).__name__}."
    reply = theirs(connection, message, what)
    reply.content = {"text": what, "traceback": None}
    return reply


shorten_records()
# They change classes, for every server of this process. Bokeh has no hook before a request or a
# message is taken, and no option for headers or for how much a page may ask for.
compat.wrap(BokehTornado, "find_handler", _find_handler)
compat.wrap(DocHandler, "get", _get_page)
compat.wrap(ws.WSHandler, "on_message", _on_message)
compat.wrap(ws.WSHandler, compat.HANDLE, _handle)
compat.wrap(ServerConnection, "error", _error)
setattr(ws, "Receiver", Bounded)  # noqa: B010  mypy knows a class there
# Bokeh's option is not there for who imports us late.
setattr(ws.WSHandler, "max_message_size", LONGEST_MESSAGE)  # noqa: B010
