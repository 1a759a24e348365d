r"""Bokeh's, Panel's and Material's files: compressed at the start, and kept by browsers."""

from __future__ import annotations

__all__ = ["ROUTES"]

import gzip
import re
from pathlib import Path
from typing import Any

import panel
import panel_material_ui
from bokeh.embed.bundle import extension_dirs
from bokeh.settings import settings
from tornado.web import RedirectHandler, StaticFileHandler

BOKEH = Path(settings.bokehjs_path()).resolve()
PANEL = Path(panel.__file__).resolve().parent / "dist"
MATERIAL = Path(panel_material_ui.__file__).resolve().parent / "dist"
# Material brings a font, and the page uses the system's.
FONT = re.compile(rb'@font-face\s*\{\s*font-family:\s*"?Roboto"?;[^}]*\}')
COMPRESSED = {
    str(path): gzip.compress(FONT.sub(b"", path.read_bytes()))
    for path in (
        *(BOKEH / "js" / f"bokeh{part}.min.js" for part in ("", "-widgets", "-tables")),
        *(PANEL / "panel.min.js", *PANEL.glob("css/*.css"), *PANEL.glob("bundled/theme/*.css")),
        *PANEL.glob("bundled/reactiveesm/es-module-shims*/dist/*.min.js"),
        *(*MATERIAL.glob("*.bundle.*s*"), MATERIAL / "material-icons.css"),
    )
}


class Compressed(StaticFileHandler):
    """Gives out the compressed copy of a file if there is one: every browser takes it."""

    @classmethod
    def get_content(cls, abspath: str, start: Any = None, end: Any = None) -> Any:
        """What is sent."""
        packed = COMPRESSED.get(abspath)
        return packed[start:end] if packed else super().get_content(abspath, start, end)

    def get_content_size(self) -> int:
        """The bytes that are sent."""
        return len(COMPRESSED.get(str(self.absolute_path), b"")) or super().get_content_size()

    def set_extra_headers(self, path: str) -> None:
        """Says that it is compressed, and that what is asked for by its version never changes."""
        if self.absolute_path in COMPRESSED:
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
    (r"/static/(.*)", Compressed, {"path": str(BOKEH)}),
]
