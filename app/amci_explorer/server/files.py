r"""Bokeh's, Panel's and Material's files: compressed before anybody asks, and kept by browsers."""

from __future__ import annotations

__all__ = ["ROUTES"]

import gzip
import mimetypes
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import panel
import panel_material_ui
from bokeh.embed.bundle import extension_dirs
from bokeh.server.views.multi_root_static_handler import MultiRootStaticHandler
from bokeh.server.views.static_handler import StaticHandler
from bokeh.settings import settings
from tornado.web import StaticFileHandler

SECONDS_OF_A_YEAR = 365 * 24 * 3600
# Fonts have a hash in their names, what else a page asks for has it behind a question mark.
HASHED = re.compile(r"-[A-Z0-9]{8}\.woff2?$")


def _compressed(folder: str) -> dict[str, str]:
    """Writes compressed files into a folder: their paths by those of the files that they are."""
    bokeh, panels, material = (
        Path(settings.bokehjs_path()) / "js",
        Path(panel.__file__).parent / "dist",
        Path(panel_material_ui.__file__).parent / "dist",
    )
    sources = [
        *(bokeh / f"bokeh{part}.min.js" for part in ("", "-widgets", "-tables")),
        *(panels / "panel.min.js", *panels.glob("css/*.css"), *panels.glob("bundled/theme/*.css")),
        *panels.glob("bundled/reactiveesm/es-module-shims*/dist/*.min.js"),
        *material.glob("*.bundle.*s*"),
        material / "material-icons.css",
    ]
    found = {}
    for number, path in enumerate(sources):
        found[str(path)] = f"{folder}/{number}.gz"
        Path(found[str(path)]).write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return found


FOLDER = TemporaryDirectory(prefix="amci-files-")
COMPRESSED = _compressed(FOLDER.name)


class Compressed(StaticFileHandler):
    """Gives out the compressed copy of a file if there is one and the browser takes it."""

    packed: str | None = None

    def validate_absolute_path(self, root: Any, absolute_path: str) -> str | None:
        """The file to read."""
        path = super().validate_absolute_path(root, absolute_path)
        if "gzip" in self.request.headers.get("Accept-Encoding", ""):
            self.packed = COMPRESSED.get(str(path))
        return self.packed or path

    def get_content_size(self) -> int:
        """The bytes that are sent; Tornado has noted the file's own."""
        return os.path.getsize(str(self.absolute_path))

    def get_content_type(self) -> str:
        """The type of the file itself."""
        return mimetypes.guess_type(self.path)[0] or super().get_content_type()

    def get_cache_time(self, path: str, modified: Any, mime_type: str) -> int:
        """What is asked for by its hash or version never changes."""
        return SECONDS_OF_A_YEAR if self.request.query or HASHED.search(path) else 0

    def set_extra_headers(self, path: str) -> None:
        """Says that it is compressed, and whether it may be kept."""
        self.set_header("Vary", "Accept-Encoding")
        if self.packed:
            self.set_header("Content-Encoding", "gzip")
        if self.get_cache_time(path, None, ""):
            self.set_header("Cache-Control", f"public, max-age={SECONDS_OF_A_YEAR}, immutable")


class BokehFiles(Compressed, StaticHandler):
    """Bokeh's own files."""


class ExtensionFiles(Compressed, MultiRootStaticHandler):
    """Files of what extends Bokeh: Panel and Material UI."""


# As `panel serve --plugins` takes them; they come before Bokeh's own.
ROUTES = [
    (r"/static/extensions/(.*)", ExtensionFiles, {"root": extension_dirs}),
    (r"/static/(.*)", BokehFiles),
]
