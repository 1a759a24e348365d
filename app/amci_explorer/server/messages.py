r"""What a message of a page may be.

A page sends what somebody did: a model's new value, an event, a piece of a file. Bokeh would take
more: new models, a whole document, arrays of any type, and gzip of any size. That is refused
before Bokeh reads it.
"""

from __future__ import annotations

__all__ = ["LONGEST_MESSAGE", "Bounded", "check"]

import json
import zlib
from base64 import b64decode
from typing import Any

from bokeh.core.serialization import Buffer
from bokeh.protocol.exceptions import ProtocolError

# Bytes of one message once unpacked, of one frame, and of a request's body. A move has a few
# hundred; the largest is a piece of a file, see `views.upload`: 256 KB, and as base64 of gzip.
LONGEST_MESSAGE = 2**20
# Values in a message, each of which takes a microsecond to read; a page sends up to a hundred.
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
    """Puts messages together, in the place of Bokeh's receiver.

    Arguments:
        protocol: Bokeh's protocol, which makes a message of its parts.
    """

    def __init__(self, protocol: Any) -> None:
        self._protocol, self._parts = protocol, list[Any]()
        # Bytes of the last message, as it came and unpacked.
        self.size = 0

    async def consume(self, part: str | bytes) -> Any:
        """The message, once its parts are there.

        Raises:
            ProtocolError: a page sends no such message.
        """
        # After header, metadata and content come the header and the bytes of a piece of a file.
        is_piece = len(self._parts) == 4
        if isinstance(part, str) == is_piece:
            raise ProtocolError("a page sends no such part of a message")
        if isinstance(part, str) and sum(map(part.count, ",[{")) > MOST_VALUES:
            raise ProtocolError("a page sends no such part of a message")
        self._parts.append(part)
        room = LONGEST_MESSAGE - sum(map(len, self._parts))
        if room < 0:
            raise ProtocolError("the message is too large")
        if len(self._parts) < 3:
            return None
        try:
            message = self._protocol.assemble(*self._parts[:3])
            buffers = message.header.get("num_buffers", 0)
            if message.header["msgtype"] not in KINDS or buffers not in (0, 1):
                raise ProtocolError("a page sends no message of that kind")
            if len(self._parts) < 3 + 2 * buffers:
                return None
            if buffers:
                message.assemble_buffer(json.loads(self._parts[3]), self._parts[4])
            if message.header["msgtype"] == "PATCH-DOC":
                room = check(message.content, room, len(self._parts[4]) if buffers else 0)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ProtocolError(f"no message: {type(error).__name__}") from None
        self._parts = []
        self.size = LONGEST_MESSAGE - room
        return message


def check(content: Any, room: int, piece: int = 0) -> int:
    """Refuses changes that a page does not make, and unpacks their bytes in place.

    Arguments:
        content: What a message says, as JSON has it.
        room: Bytes that all of its parts together may unpack to.
        piece: Bytes of its buffer, which count as often as it is named.

    Returns:
        The room that is left.

    Raises:
        ProtocolError: a page says no such thing, or it unpacks to more.
    """
    events = content["events"]
    if not 1 <= len(events) <= MOST_EVENTS or any(each["kind"] not in EVENTS for each in events):
        raise ProtocolError("expected changes of models, or events")
    return _check(events, room, piece)


def _check(value: Any, room: int, piece: int) -> int:
    if isinstance(value, dict):
        kind, dtype = str(value.get("type", "map")), str(value.get("dtype"))
        if kind not in TYPES or ("array" in kind[1:] and dtype not in DTYPES):
            raise ProtocolError("a page sends no value of that type")
        if kind == "bytes" and isinstance(value["data"], dict):
            room -= piece
            # A buffer that has not come is named as well.
            if room < 0 or not piece:
                raise ProtocolError("the message unpacks to too much")
        elif kind == "bytes":
            # Bokeh takes a buffer as it is; text it would unpack without a bound.
            data = _unpacked(value["data"], room)
            value["data"] = Buffer("", data)
            room -= len(data)
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            room = _check(each, room, piece)
    return room


def _unpacked(text: str, room: int) -> bytes:
    """The bytes of base64 of gzip."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        data = stream.decompress(b64decode(text, validate=True), room + 1)
    except (TypeError, ValueError, zlib.error):
        raise ProtocolError("expected base64 of gzip") from None
    if len(data) > room or not stream.eof or stream.unused_data:
        raise ProtocolError("the message unpacks to too much, or is no whole gzip")
    return data
