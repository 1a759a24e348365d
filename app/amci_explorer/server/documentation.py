r"""The documentation, without a network: `/docs/NAME.md` shows `docs/NAME.md` as a page."""

from __future__ import annotations

__all__ = ["Documentation", "documentation_root"]

from functools import cache
from html import escape
from pathlib import Path

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from tornado.web import HTTPError, RequestHandler

from amci_explorer.text import slug

KINDS = {".md": "text/html; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml"}
KINDS |= {".webp": "image/webp", ".conf": "text/plain"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} - AMCI Explorer</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 0 auto;
       padding: 1rem 1.2rem 4rem; }}
nav {{ display: flex; flex-wrap: wrap; gap: .3rem 1rem; font-size: .9rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; font-size: .9rem; }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid #8886; text-align: left; }}
@media (max-width: 40rem) {{ th, td {{ padding: .25rem .3rem; }}
                           td:last-child {{ min-width: 12rem; }} }}
pre {{ padding: .8rem; overflow-x: auto; background: #8882; border-radius: 6px; }}
img {{ max-width: 100%; background: #fff; }}
math[display=block] {{ overflow-x: auto; }}
a {{ color: light-dark(#1f5f8b, #7cc0f0); }}
</style>
</head>
<body>
<nav>{places}</nav>
<main>
{body}
</main>
</body>
</html>
"""
# The pages that every page links to, from left to right.
PLACES = (
    "index",
    "dashboard",
    "concepts",
    "own-model",
    "estimators",
    "when-not",
    "glossary",
    "faq",
)


class Documentation(RequestHandler):
    """Answers with a page, or a picture of one."""

    def initialize(self, name: str) -> None:
        """Takes the path below `/docs/`."""
        self.name = name or "index.md"

    def get(self) -> None:
        """Answers."""
        file = _files().get(self.name)
        if file is None:
            raise HTTPError(404)
        self.set_header("Content-Type", KINDS[file.suffix])
        self.finish(_page(file) if file.suffix == ".md" else file.read_bytes())


def documentation_root() -> Path:
    """The folder of the pages: in an installed package, else that of a checkout."""
    package = Path(__file__).resolve().parents[1]
    places = (package / "_docs", package.parents[1] / "docs")
    return next(place for place in places if place.is_dir())


@cache
def _files() -> dict[str, Path]:
    """What can be asked for, by its path."""
    root = documentation_root()
    found = (path for path in root.rglob("*") if path.suffix in KINDS)
    return {path.relative_to(root).as_posix(): path for path in found}


@cache
def _page(file: Path) -> str:
    """A file of Markdown as HTML."""
    root, text = documentation_root(), file.read_text(encoding="utf-8")
    up = "../" * (len(file.relative_to(root).parts) - 1)
    titles = {f"{up}{name}.md": _title(root / f"{name}.md") for name in PLACES}
    places = "".join(f'<a href="{link}">{title}</a>' for link, title in titles.items())
    return PAGE.format(title=_title(file), places=places, body=_reader().render(text))


@cache
def _title(file: Path) -> str:
    return escape(file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))


@cache
def _reader() -> MarkdownIt:
    def formula(text: str, how: dict[str, bool]) -> str:
        return convert(text, display="block" if how["display_mode"] else "inline")

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.use(anchors_plugin, max_level=3, slug_func=slug)
    return reader.use(dollarmath_plugin, renderer=formula, double_inline=True)
