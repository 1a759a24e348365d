r"""What a message of a page may be.

A page sends what a visitor did: a model's new value, an event, a piece of a file. Bokeh would take
more: new models, a whole document, arrays of any type, and gzip of any size. That is refused
before Bokeh reads it.
"""

from __future__ import annotations

__all__ = ["LONGEST_MESSAGE", "Bounded"]

import json
from collections.abc import Iterator
from typing import Any

from bokeh.protocol.exceptions import ProtocolError

# Bytes of one message, of one frame, and of a request's body. A move has a few hundred; the
# largest is a piece of a file, see `views.inputs`: 256 KB.
LONGEST_MESSAGE = 2**20
# Values in a message, a microsecond each to read; a page sends up to a hundred.
MOST_VALUES = 20_000
# Changes in a message, which are done in one turn of the server's loop; a page sends up to twenty.
MOST_EVENTS = 64
KINDS = {"PULL-DOC-REQ", "PATCH-DOC"}
EVENTS = {"ModelChanged", "MessageSent"}
# What a value can be made of, beside what JSON has.
TYPES = {"array", "bytes", "event", "map", "ndarray", "number", "ref", "set", "typed_array"}
# Another type has numpy make room for what its name says, such as "U99999999".
NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)}
DTYPES = {"bool", "object", "float32", "float64", *NUMBERS}


class Bounded:
    """Puts messages together, instead of Bokeh's receiver.

    Arguments:
        protocol: Bokeh's protocol, which makes a message of its parts.
    """

    def __init__(self, protocol: Any) -> None:
        self._protocol, self._parts = protocol, list[Any]()
        # Bytes of the last message.
        self.size = 0

    async def consume(self, part: str | bytes) -> Any:
        """The message, once its parts are there.

        Raises:
            ProtocolError: a page sends no such message.
        """
        self._parts.append(part)
        self.size = sum(map(len, self._parts))
        # After header, metadata and content come the header and the bytes of a piece of a file.
        right = isinstance(part, bytes if len(self._parts) == 5 else str)
        many = isinstance(part, str) and sum(map(part.count, ",[{")) > MOST_VALUES
        if self.size > LONGEST_MESSAGE or many or not right:
            raise ProtocolError("a page sends no such part of a message")
        if len(self._parts) < 3:
            return None
        try:
            message = self._protocol.assemble(*self._parts[:3])
            pieces = message.header.get("num_buffers", 0)
            if message.header["msgtype"] not in KINDS or pieces not in (0, 1):
                raise ProtocolError("a page sends no message of that kind")
            if len(self._parts) < 3 + 2 * pieces:
                return None
            if pieces:
                message.assemble_buffer(json.loads(self._parts[3]), self._parts[4])
            if message.header["msgtype"] == "PATCH-DOC":
                _check(message.content["events"], pieces)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ProtocolError(f"no message: {type(error).__name__}") from None
        self._parts = []
        return message


def _check(events: list[Any], pieces: int) -> None:
    if not 1 <= len(events) <= MOST_EVENTS or any(each["kind"] not in EVENTS for each in events):
        raise ProtocolError("expected changes of models, or events")
    for each in _parts(events):
        kind = each.get("type", "map")
        if kind not in TYPES or each.get("dtype", "bool") not in DTYPES:
            raise ProtocolError("a page sends no value of that type")
        # Bytes come behind the message and are named once; as text they would unpack to any size.
        if kind == "bytes":
            pieces -= 1
            if pieces < 0 or not isinstance(each["data"], dict):
                raise ProtocolError("a page sends no such bytes")


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    """All that has names in what a message says."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _parts(each)
