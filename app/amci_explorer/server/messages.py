r"""What a message of a page may be, in bytes of all its parts once they are unpacked.

A page sends what somebody did: a model's new value, an event, a piece of a file. Bokeh would take
more: new models, a whole document, arrays of any type, and gzip of any size. That is
refused before Bokeh reads it.
"""

from __future__ import annotations

__all__ = ["LONGEST_MESSAGE", "Bounded", "check"]

import binascii
import json
import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from bokeh.core.serialization import Buffer
from bokeh.protocol.exceptions import ProtocolError
from bokeh.protocol.receiver import Receiver

# Bytes of one message once unpacked, of one frame, and of a request's body. A move has a few
# hundred; the largest is a piece of a file, see `views.upload`: 256 KB, and as base64 of gzip.
LONGEST_MESSAGE = 2**20
# Values in a message, each of which takes some 60 bytes and a microsecond to read; a page sends up
# to a hundred.
MOST_VALUES = 20_000
DEEPEST = 50
# Header, metadata, content, and ten buffers of two parts each; a piece of a file has one.
MOST_PARTS = 23
KINDS = {"PULL-DOC-REQ", "PATCH-DOC"}
EVENTS = {"ModelChanged", "MessageSent"}
# What a value can be made of, beside what JSON has.
TYPES = {"array", "bytes", "event", "map", "ndarray", "number", "ref", "set", "typed_array"}
NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32)}
DTYPES = {"bool", "object", "float32", "float64", *NUMBERS}


class Bounded(Receiver):
    """Puts messages together, none of them larger or of another kind than a page's are."""

    held = parts = 0
    # Bytes of the last message: as it came or once unpacked, whichever is more.
    size = 0

    async def consume(self, fragment: str | bytes) -> Any:
        """The message, once it is whole.

        Raises:
            ProtocolError: a page sends no such message.
        """
        self.held += len(fragment)
        self.parts += 1
        if self.held > LONGEST_MESSAGE:
            raise ProtocolError("the message is too large")
        if isinstance(fragment, str) and sum(map(fragment.count, ",[{")) > MOST_VALUES:
            raise ProtocolError("the message has too many values")
        try:
            message = await super().consume(fragment)
            if message is None:
                if self.parts >= MOST_PARTS:
                    raise ProtocolError("the message has too many buffers")
                return None
            header = message.header
            if not isinstance(header, dict) or header.get("msgtype") not in KINDS:
                raise ProtocolError("a page sends no message of that kind")
            self.size = self.held
            if header["msgtype"] == "PATCH-DOC":
                sizes = {buffer.id: len(buffer.data) for buffer in message.buffers}
                room = LONGEST_MESSAGE - self.held
                self.size = max(self.held, room - check(message.content, room, sizes))
        except (json.JSONDecodeError, RecursionError, TypeError, AttributeError) as error:
            raise ProtocolError(f"no message: {type(error).__name__}") from None
        self.held = self.parts = 0
        return message


def check(content: Any, room: int, buffers: Mapping[str, int] | None = None) -> int:
    """Refuses what a page does not say, and unpacks its bytes in place; the room that is left.

    Arguments:
        content: What a message says, as JSON has it.
        room: Bytes that all of its parts together may unpack to.
        buffers: The sizes of its buffers; one counts as often as it is named.

    Raises:
        ProtocolError: a page says no such thing, or it unpacks to more.
    """
    events = content.get("events") if isinstance(content, dict) else None
    if not isinstance(events, list) or any(
        not isinstance(event, dict) or event.get("kind") not in EVENTS for event in events
    ):
        raise ProtocolError("expected changes of models, or events")
    level = [content]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, list):
                inner += each
            elif isinstance(each, dict):
                room = _unpack(each, room, buffers or {})
                inner += each.values()
        level = [each for each in inner if isinstance(each, dict | list)]
        if not level:
            return room
    raise ProtocolError("the message is nested too deeply")


def _unpack(value: dict[str, Any], room: int, buffers: Mapping[str, int]) -> int:
    """Unpacks a value that is bytes; gives the room that is left."""
    kind = value.get("type", "map")
    if not isinstance(kind, str) or kind not in TYPES:
        raise ProtocolError("a page sends no value of that type")
    # Another type has numpy make room for what its name says, such as "U99999999".
    if kind in ("ndarray", "typed_array") and not (
        isinstance(value.get("dtype"), str) and value["dtype"] in DTYPES
    ):
        raise ProtocolError("a page sends no array of that type")
    if kind != "bytes":
        return room
    named = value.get("data")
    if isinstance(named, dict) and named.keys() == {"id"} and named["id"] in buffers:
        room -= buffers[named["id"]]
        if room < 0:
            raise ProtocolError("the message unpacks to too much")
        return room
    try:
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        data = stream.decompress(b64decode(value["data"], validate=True), room + 1)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error):
        raise ProtocolError("expected base64 of gzip") from None
    if len(data) > room:
        raise ProtocolError("the message unpacks to too much")
    if not stream.eof or stream.unused_data:
        raise ProtocolError("expected base64 of one whole gzip")
    # Bokeh takes a buffer as it is; of a text it would call `gzip.decompress`, without a bound.
    value["data"] = Buffer("", data)
    return room - len(data)
