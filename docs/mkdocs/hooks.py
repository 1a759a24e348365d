r"""What the site needs beside Markdown: formulas, the stars of shapes, and whole docstrings.

Formulas are set by the KaTeX that Panel brings along. It writes MathML, which browsers draw with
their own fonts, so that a page asks no other server.
"""

from __future__ import annotations

__all__ = ["on_config", "on_files", "on_page_markdown"]

from pathlib import Path
from typing import Any

import panel
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import SimpleTextInlineProcessor
from mkdocs.structure.files import File

RENDER = """
document$.subscribe(() => {
    for (const place of document.querySelectorAll(".arithmatex")) {
        const source = place.textContent.trim()
        if (!/^\\\\[[(]/.test(source)) { continue }
        katex.render(source.slice(2, -2), place, {
            displayMode: source.startsWith("\\\\["), output: "mathml", throwOnError: false,
        })
    }
})
"""

# The star of a shape, as in (*, D) and (3, *), and those of alpha*, beta*, u*, V*.
STAR = r"(?:(?<=[(\s])(?=\*[,)])|(?<=[αβ])|(?<=\balpha)|(?<=\bbeta)|(?<=\b[uV]))(\*)"
# After code (190) and escapes (180), before emphasis (60).
PRIORITY = 170


class Stars(Extension):
    """Takes stars that belong to the mathematics for what they are, and not for emphasis."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(SimpleTextInlineProcessor(STAR), "stars", PRIORITY)


def on_config(config: Any) -> Any:
    """Adds the extension, for pages and docstrings alike."""
    config.markdown_extensions.append(Stars())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the scripts to the site."""
    bundled = Path(panel.__file__).parent / "dist" / "bundled" / "katex"
    (script,) = bundled.glob("katex@*/dist/katex.min.js")
    files.append(File.generated(config, "formulas/katex.min.js", abs_src_path=str(script)))
    files.append(File.generated(config, "formulas/render.js", content=RENDER))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Adds the docstrings to the page that has a table of them."""
    if page.file.src_uri != "reference.md":
        return markdown
    return f"{markdown}\n{Path(__file__).with_name('interface.md').read_text()}"
