r"""A button that takes a file: in pieces, never more than is allowed, kept by nobody."""

from __future__ import annotations

__all__ = ["Upload"]

from collections.abc import Callable
from typing import Any

import numpy as np
import panel_material_ui as pmui

from amci_explorer.server.session import callback

# Bytes in a message of the page; they grow by a third on their way, and 1 MB is allowed.
CHUNK = 2**18
LONGEST_NAME = 255


class Upload(pmui.FileInput):
    """A button that hands over a file's name and content, and forgets both.

    Panel's own gathers whatever a page sends for as long as it sends, and makes bytes of any
    number: what a page of ours never says is refused here.

    Arguments:
        take: Called with the name and the content.
        refuse: Called with what was wrong.
        most: The largest file, in bytes.
        options: For the widget.
    """

    def __init__(
        self,
        take: Callable[[str, bytes], Any],
        refuse: Callable[[str], Any],
        most: int,
        **options: Any,
    ) -> None:
        super().__init__(chunk_size=CHUNK, max_file_size=most, **options)
        self._take, self._refuse, self._most = callback(take), callback(refuse), most

    def _handle_msg(self, msg: Any) -> None:
        status = msg.get("status") if isinstance(msg, dict) else None
        if status == "upload_event":
            wrong = self._wrong(msg)
            if not wrong:
                self._process_chunk(msg)
                return
            self._file_buffer.clear()
            self._buffer.clear()
            self._send_msg({"status": "error", "error": wrong})
            self._refuse(wrong)
        elif status == "finished":
            if self._buffer:
                self._flush_buffer()
            self._send_msg({"status": "finished"})

    def _wrong(self, msg: dict[str, Any]) -> str:
        """Why a piece of a file is refused; empty where it is not."""
        name, data = msg.get("name"), msg.get("data")
        chunk, chunks = msg.get("chunk"), msg.get("total_chunks")
        fits = (
            isinstance(name, str)
            and len(name) <= LONGEST_NAME
            and isinstance(msg.get("mime_type"), str)
            and isinstance(data, bytes | bytearray | memoryview | np.ndarray)
            and type(chunk) is int
            and type(chunks) is int
            and 1 <= chunk <= chunks <= self._most // CHUNK + 1
        )
        if data is None or not fits:
            return "this file cannot be read"
        held = sum(
            len(piece) for file in self._file_buffer.values() for piece in file["chunks"].values()
        )
        if held + len(bytes(data)) > self._most or len(self._buffer) or len(self._file_buffer) > 1:
            return f"expected one file of at most {self._most / 1e6:.0f} MB"
        return ""

    def _update_file(self, filename: Any, mime_type: Any, value: Any) -> None:
        if isinstance(value, bytes):
            self._take(filename, value)
