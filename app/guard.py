r"""What the server answers: requests under its own names, for what the page needs, and no more.

The checks begin when this module is imported. `python -m app.serve` imports it before the server
starts; with plain `panel serve` the first visit does.
"""

from __future__ import annotations

__all__ = ["LONGEST_MESSAGE", "ROUTES", "decoded"]

from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.protocol.exceptions import ProtocolError
from bokeh.protocol.receiver import Receiver
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.server.views import ws
from bokeh.settings import settings
from panel.io.resources import COMPONENT_PATH
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

# Bytes of one message or request of a page; those of a widget have a few hundred.
LONGEST_MESSAGE = 2**20
# Characters of a name in a message.
SHOWN = 40
LOOPBACK = ("127.0.0.1", "localhost")
# Panel asks a module that it imports early for routes of its own.
ROUTES: list[Any] = []


def decoded(arguments: Mapping[str, Sequence[bytes]]) -> dict[str, str]:
    """The parameters of a page's address as text, whatever bytes came.

    Arguments:
        arguments: For each name its values; the first one holds.
    """
    return {
        name: values[0].decode(errors="replace") for name, values in arguments.items() if values
    }


class Bounded(Receiver):
    """Puts a visitor's messages together, none of them endless."""

    held = 0

    async def consume(self, fragment: str | bytes) -> Any:
        """The message, once it is whole."""
        self.held += len(fragment)
        if self.held > LONGEST_MESSAGE:
            raise ProtocolError("the message is too long")
        message = await super().consume(fragment)
        if message is not None:
            self.held = 0
        return message


class Refusal(RequestHandler):
    """Answers with a status and one line of text."""

    def initialize(self, status: int, why: str) -> None:
        """Takes what `why_refused` gave."""
        self.status, self.why = status, why

    def prepare(self) -> None:
        """Answers whatever the method is."""
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self.why}\n")


def why_refused(application: BokehTornado, request: HTTPServerRequest) -> dict[str, Any] | None:
    """The status and the reason for which a request is refused; None for those that are answered.

    A page of another site can have its own name point to this server, and read the answers: the
    name in the request tells. Panel imports whatever module an address under /components/ names;
    the page uses none.
    """
    allowed = settings.allowed_ws_origin() or application.websocket_origins
    if not _is_known(request.host.lower(), sorted(allowed)):
        why = f"This server has other names than {request.host[:SHOWN]!r}."
        return {"status": 403, "why": f"{why} To add one: make serve ORIGIN=name:port"}
    if f"/{COMPONENT_PATH}" in request.path:
        return {"status": 404, "why": "There is nothing here."}
    return None


def _is_known(host: str, allowed: list[str]) -> bool:
    """Whether a page under that name could connect.

    A proxy may drop the port or name its own; a page under another port of this machine would
    open and never connect.
    """
    name = host.rpartition(":")[0] or host
    names = [each.rpartition(":")[0] or each for each in allowed]
    known = name not in LOOPBACK and check_allowlist(name, [f"{each}:80" for each in names])
    return known or check_allowlist(host, allowed)


def _begin() -> None:
    """Puts the checks in the place of what they check for, for every server of this process."""
    find_handler = BokehTornado.find_handler

    def checked(self: BokehTornado, request: HTTPServerRequest, **options: Any) -> Any:
        limit = getattr(request.connection, "set_max_body_size", None)
        if limit is not None:
            limit(LONGEST_MESSAGE)
        refused = why_refused(self, request)
        if refused is not None:
            return self.get_handler_delegate(request, Refusal, refused)
        return find_handler(self, request, **options)

    for place, name, check in (
        (BokehTornado, "find_handler", checked),
        (ws, "Receiver", Bounded),
        (ws.WSHandler, "max_message_size", LONGEST_MESSAGE),
    ):
        setattr(place, name, check)


_begin()
