r"""What the server answers: requests under its own names, for what the page needs, and no more.

The checks begin when this module is imported. `make serve` imports it before the server
starts; with plain `panel serve` the first visit does.
"""

from __future__ import annotations

__all__ = ["ROUTES", "admit", "count_error"]

import asyncio
import logging
import math
import sys
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.settings import settings
from panel.io.resources import COMPONENT_PATH
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from amci_explorer.server import compat
from amci_explorer.server.headers import Headers
from amci_explorer.server.messages import LONGEST_MESSAGE, Bounded
from amci_explorer.server.records import shorten_records
from amci_explorer.server.session import say
from amci_explorer.server.sessions import SESSIONS, SMALL, brings_session
from amci_explorer.server.shares import COOKIE, MESSAGES, PAGES, Door, Visitor, new_cookie

log = logging.getLogger(__name__)

# Characters of a name in a message, and of a reason for which a socket is closed.
SHOWN, LONGEST_REASON = 40, 100
# Bokeh's own, for a token that nobody else has given out.
SECONDS_OF_A_TOKEN = 300.0
LOOPBACK = ("127.0.0.1", "localhost")
# Panel asks a module that it imports early for routes of its own.
ROUTES: list[Any] = []
# A page for other sites' scripts and a description of the application: the page uses neither.
UNUSED = (f"/{COMPONENT_PATH}", "/autoload.js", "/metadata")
NOTHING = "There is nothing here."
# A websocket that is closed for what it sent (RFC 6455, section 7.4.1).
POLICY_VIOLATION, LARGEST_CODE = 1008, 4999
# A message comes in three parts; the whole document costs as much as a second of moves.
PART, WHOLE_DOCUMENT, CONNECTION = 1 / 3, 100, 10
FURTHER = 0.1
# A browser that is this many seconds ahead of its share is told so, at most so often.
TOLD_AFTER, SECONDS_BETWEEN = 1.0, 60.0
TOO_MANY = "Your browser sends more than the server answers: its moves are answered late."
DOOR = Door()


class Refusal(RequestHandler):
    """Answers with a status and one line of text."""

    def initialize(self, status: int, why: str, wait: float = 0.0) -> None:
        """Takes what `why_refused` gave."""
        self.status, self.why, self.wait = status, why, wait

    def prepare(self) -> None:
        """Answers whatever the method is."""
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        if self.wait:
            seconds = str(math.ceil(self.wait))
            self.set_header("Retry-After", seconds)
            # A browser that shows it comes again by itself.
            self.set_header("Refresh", seconds)
        self.finish(f"{self.why}\n")


def why_refused(application: BokehTornado, request: HTTPServerRequest) -> dict[str, Any] | None:
    """The status and the reason for which a request is refused; None for those that are answered.

    A page of another site can have its own name point to this server, and read the answers: the
    name in the request tells. Panel imports whatever module an address under /components/ names.
    """
    allowed = settings.allowed_ws_origin() or application.websocket_origins
    path = request.path
    if not _is_known(request.host.lower(), sorted(allowed)):
        why = f"This server has other names than {request.host[:SHOWN]!r}."
        return {"status": 403, "why": f"{why} To add one: make serve ORIGIN=name:port"}
    if any(each in path for each in UNUSED):
        return {"status": 404, "why": NOTHING}
    if min(unquote_to_bytes(path), default=32) < 32:
        return {"status": 400, "why": "An address has no control characters."}
    login = application.auth_provider.login_url
    if request.method not in ("GET", "HEAD") and not (login and path.endswith(login)):
        return {"status": 405, "why": "This server answers GET and HEAD alone."}
    if brings_session(request.arguments, request.headers):
        return {"status": 403, "why": "The server alone names sessions. Open the page itself."}
    if path.endswith("/ws"):
        protocol, _, token = request.headers.get("Sec-WebSocket-Protocol", "").partition(",")
        if protocol.strip() != "bokeh" or not SESSIONS.knows(token.strip()):
            return {"status": 403, "why": "No page of this server has that token. Reload yours."}
        wait = MESSAGES.ask(_visitor(request), CONNECTION)
        return _too_many("connections are opened", wait) if wait else None
    is_page = path.rstrip("/") in {application.prefix + each for each in application.app_paths}
    wait = PAGES.ask(_visitor(request)) if is_page else 0.0
    return _too_many("pages are opened", wait) if wait else None


def _too_many(what: str, wait: float) -> dict[str, Any]:
    why = f"Too many {what} from here. Try again in {math.ceil(wait)} seconds."
    return {"status": 503, "why": why, "wait": wait}


def _visitor(request: HTTPServerRequest) -> Visitor:
    cookie = request.cookies.get(COOKIE)
    return Visitor.of("" if cookie is None else cookie.value, request.remote_ip or "")


def _is_known(host: str, allowed: list[str]) -> bool:
    """Whether a page under that name could connect.

    A proxy may drop the port or name its own; a page under another port of this machine would
    open and never connect.
    """
    name = host.rpartition(":")[0] or host
    names = [each.rpartition(":")[0] or each for each in allowed]
    known = name not in LOOPBACK and check_allowlist(name, [f"{each}:80" for each in names])
    return known or check_allowlist(host, allowed)


def admit(document: Any) -> bool:
    """Whether the visit that a document was made for may have the page.

    With plain `panel serve` the first visit has been let in by nobody: its script asks.
    """
    context = document.session_context
    request = None if context is None else context.request
    if request is None:
        return True
    query = parse_qs(urlsplit(request.uri).query, keep_blank_values=True)
    if brings_session(query, request.headers):
        return False
    if context.session is None and not SESSIONS.knows(compat.used_token(context)):
        SESSIONS.give(compat.used_token(context), context.id, SECONDS_OF_A_TOKEN)
    return True


def count_error(document: Any) -> None:
    """Notes an error of a document's session; one with too many is closed."""
    session = getattr(document.session_context, "session", None)
    if session is not None and SESSIONS.errs(session.id):
        _shut(session, "too many errors")


def _shut(session: Any, why: str) -> None:
    log.error("a session is closed: %s", why)
    for socket in compat.sockets_of(session):
        socket.close(POLICY_VIOLATION, why)


def _find_handler(
    theirs: Any, application: BokehTornado, request: HTTPServerRequest, **options: Any
) -> Any:
    limit = getattr(request.connection, "set_max_body_size", None)
    if limit is not None:
        limit(LONGEST_MESSAGE)
    refused = why_refused(application, request)
    if refused is not None:
        return application.get_handler_delegate(request, Refusal, refused)
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


async def _get_session(theirs: Any, handler: Any) -> Any:
    session = await theirs(handler)
    if session is not None:
        seconds = handler.application.session_token_expiration
        SESSIONS.give(session.token, session.id, seconds)
    return session


async def _on_message(theirs: Any, socket: Any, fragment: str | bytes) -> None:
    # What comes after it has been closed is not read, nor what is left of who has gone.
    if not _has_gone(socket):
        await _in_turn(socket, PART)
    if not _has_gone(socket):
        await theirs(socket, fragment)


async def _handle(theirs: Any, socket: Any, message: Any) -> Any:
    session, size = socket.connection.session, socket.receiver.size
    if size > SMALL and SESSIONS.sends(session, size):
        _shut(session, "the page has sent too much")
        return None
    if message.msgtype == "PULL-DOC-REQ":
        await _in_turn(socket, WHOLE_DOCUMENT)
        return await theirs(socket, message)
    return await _one_by_one(theirs, socket, message)


async def _one_by_one(theirs: Any, socket: Any, message: Any) -> Any:
    """Does what a message says event by event, others' moves in between; the last one's reply.

    The parts of the message have paid for its first event; others cost less, as a picture that is
    moved sends several at once.
    """
    first, *others = message.content["events"] or [None]
    if others:
        message.content = {"events": [first]}
    reply = await theirs(socket, message)
    for event in others:
        await _in_turn(socket, FURTHER)
        await asyncio.sleep(0)
        # Nobody waits for the moves of who has left, and what follows an error is not done.
        if _has_gone(socket) or reply.msgtype == "ERROR":
            break
        message.content = {"events": [event]}
        reply = await theirs(socket, message)
    return reply


async def _on_pong(theirs: Any, socket: Any, data: bytes) -> None:
    await _in_turn(socket, PART)
    theirs(socket, data)


def _on_ping(theirs: Any, socket: Any, data: bytes) -> None:
    """No browser's script sends pings; Tornado reads on, so that they cannot wait."""
    if MESSAGES.ask(_visitor(socket.request)):
        compat.hang_up(socket, POLICY_VIOLATION, "too many pings")
    else:
        theirs(socket, data)


def _has_gone(socket: Any) -> bool:
    """Whether a socket is closed: Tornado tells it only once the message is done."""
    return socket.ws_connection is None or socket.ws_connection.is_closing()


async def _in_turn(socket: Any, cost: float) -> None:
    """Waits until a socket may be read on: what it sends stays in the network, in its order."""
    wait = MESSAGES.take(_visitor(socket.request), cost)
    if wait:
        if wait > TOLD_AFTER and socket.connection is not None:
            say(socket.connection.session.document, TOO_MANY, SECONDS_BETWEEN)
        await asyncio.sleep(wait)


def _close(theirs: Any, socket: Any, code: int | None = None, reason: str | None = None) -> None:
    known = code if code is None or code <= LARGEST_CODE else POLICY_VIOLATION
    theirs(socket, known, None if reason is None else reason[:LONGEST_REASON])


def _error(connection: Any, message: Any, text: str) -> Any:
    """The answer to a message that failed: one line, which names nothing of the server."""
    del text
    error = sys.exc_info()[1]
    count_error(connection.session.document)
    what = f"The server could not take this: {type(error).__name__}."
    reply = connection.protocol.create("ERROR", message.header["msgid"], what)
    reply.content = {"text": what, "traceback": None}
    return reply


shorten_records()
compat.install(
    find_handler=_find_handler,
    headers=Headers,
    get_page=_get_page,
    get_session=_get_session,
    receiver=Bounded,
    on_message=_on_message,
    handle=_handle,
    on_ping=_on_ping,
    on_pong=_on_pong,
    longest_message=LONGEST_MESSAGE,
    close=_close,
    error=_error,
)
