r"""Bokeh's, Panel's and Material's files: compressed once, and kept by browsers."""

from __future__ import annotations

__all__ = ["ROUTES"]

import gzip
import re
from functools import cache
from pathlib import Path
from typing import Any

import panel_material_ui  # noqa: F401  its folder is among Bokeh's
from bokeh.embed.bundle import extension_dirs
from bokeh.settings import settings
from tornado.web import RedirectHandler, StaticFileHandler

KINDS = (".js", ".css")
# Material brings a font, and the page uses the system's.
FONT = re.compile(rb'@font-face\s*\{\s*font-family:\s*"?Roboto"?;[^}]*\}')


@cache
def _compressed(path: str) -> bytes:
    return gzip.compress(FONT.sub(b"", Path(path).read_bytes()), 6)


class Compressed(StaticFileHandler):
    """Gives out scripts and styles compressed: every browser takes that."""

    @classmethod
    def get_content(cls, abspath: str, start: Any = None, end: Any = None) -> Any:
        """What is sent."""
        if not abspath.endswith(KINDS):
            return super().get_content(abspath, start, end)
        return _compressed(abspath)[start:end]

    def get_content_size(self) -> int:
        """The bytes that are sent."""
        path = str(self.absolute_path)
        return len(_compressed(path)) if path.endswith(KINDS) else super().get_content_size()

    def set_extra_headers(self, path: str) -> None:
        """Says that it is compressed, and that what is asked for by its version never changes."""
        if path.endswith(KINDS):
            self.set_header("Content-Encoding", "gzip")
        if self.request.query:
            self.set_header("Cache-Control", "public, max-age=31536000, immutable")


# As `panel serve --plugins` takes them; they come before Bokeh's own. Panel's way from the root to
# the page would lose what is asked for.
ROUTES = [
    (r"/", RedirectHandler, {"url": "dashboard", "permanent": False}),
    *(
        (rf"/static/extensions/{name}/(.*)", Compressed, {"path": str(folder)})
        for name, folder in extension_dirs.items()
    ),
    (r"/static/(.*)", Compressed, {"path": str(Path(settings.bokehjs_path()).resolve())}),
]
