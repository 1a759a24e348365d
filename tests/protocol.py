"""A page without a browser: it speaks Bokeh's protocol over a plain websocket."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from serving import PATIENCE
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

DOCUMENT_READY = {
    "type": "event",
    "name": "document_ready",
    "values": {"type": "map", "entries": []},
}


class Page:
    """One page: what it is sent, and what it says.

    Arguments:
        token: What the server knows it by.
        connection: Its websocket.
    """

    def __init__(self, token: str, connection: WebSocketClientConnection) -> None:
        self.token, self.connection = token, connection
        self.document: Any = {}

    @classmethod
    async def come(cls, address: str, cookie: str = "") -> Any:
        """Opens the page, and takes its whole document as a browser does."""
        headers = {"Cookie": cookie}
        request = HTTPRequest(
            address, headers=headers, connect_timeout=PATIENCE, request_timeout=PATIENCE
        )
        html = (await AsyncHTTPClient(max_clients=100).fetch(request)).body.decode()
        found = re.search(r'"token":"([^"]+)"', html)
        assert found is not None
        page = await cls.connect(address, found[1], cookie)
        await page.send("PULL-DOC-REQ", {})
        page.document = json.loads((await page.receive_until("PULL-DOC-REPLY"))[1])
        # The page says when it is loaded: then what it asks for is computed.
        await page.patch({"kind": "MessageSent", "msg_type": "bokeh_event"}, DOCUMENT_READY)
        return page

    @classmethod
    async def connect(cls, address: str, token: str, cookie: str = "") -> Any:
        """Another connection of a page that has come, as after a break."""
        path, _, query = address.partition("?")
        socket = HTTPRequest(
            f"{path.replace('http', 'ws', 1)}/ws?{query}",
            headers={"Origin": path.rpartition("/")[0], "Cookie": cookie},
            connect_timeout=PATIENCE,
        )
        connection = await websocket_connect(
            socket, subprotocols=["bokeh", token], max_message_size=2**30
        )
        page = cls(token, connection)
        await page.receive()
        return page

    def leave(self) -> None:
        """Closes the page."""
        self.connection.close()

    def model(self, **attributes: Any) -> dict[str, Any]:
        """The first model of the document with these attributes; {} where there is none."""
        for model in _models(self.document):
            held = model["attributes"]
            if all(name in held and held[name] == attributes[name] for name in attributes):
                return model
        return {}

    async def change(self, model: str, name: str, value: Any) -> None:
        """Says that an attribute of a model has changed, as a widget does that was moved."""
        change = {"kind": "ModelChanged", "model": {"id": model}, "attr": name, "new": value}
        await self.send("PATCH-DOC", {"events": [change]})

    async def patch(self, event: dict[str, Any], data: Any) -> None:
        """Sends one event with its data."""
        await self.send("PATCH-DOC", {"events": [{**event, "msg_data": data}]})

    async def send(self, kind: str, content: dict[str, Any]) -> None:
        """Sends a message in its three parts."""
        header = {"msgid": uuid.uuid4().hex, "msgtype": kind}
        for part in (header, {}, content):
            await self.connection.write_message(json.dumps(part))

    async def receive(self) -> tuple[str, str, list[bytes]]:
        """The next message: its kind, its content as JSON, and its buffers.

        Raises:
            ConnectionError: the server has closed the connection.
        """
        header = json.loads(await self._read())
        await self._read()
        content = await self._read()
        buffers = []
        for _ in range(header.get("num_buffers", 0)):
            await self._read()
            buffers.append(await self._read())
        return header["msgtype"], content, buffers

    async def receive_until(self, kind: str) -> tuple[str, str, list[bytes]]:
        """The next message of that kind; those before it are dropped."""
        while True:
            message = await self.receive()
            if message[0] == kind:
                return message

    async def _read(self) -> Any:
        message = await self.connection.read_message()
        if message is None:
            raise ConnectionError("the server closed the connection")
        return message


def _models(node: Any) -> Iterator[dict[str, Any]]:
    """All models in a document as JSON."""
    if isinstance(node, dict):
        if "id" in node and "attributes" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _models(each)
