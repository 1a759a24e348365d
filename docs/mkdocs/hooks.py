r"""What the site needs beside Markdown: formulas, set by the KaTeX that Panel brings along.

It writes MathML, which browsers draw with their own fonts, so that a page asks no other server.
"""

from __future__ import annotations

__all__ = ["on_files"]

from pathlib import Path
from typing import Any

import panel
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


def on_files(files: Any, config: Any) -> Any:
    """Adds the scripts to the site."""
    bundled = Path(panel.__file__).parent / "dist" / "bundled" / "katex"
    (script,) = bundled.glob("katex@*/dist/katex.min.js")
    files.append(File.generated(config, "formulas/katex.min.js", abs_src_path=str(script)))
    files.append(File.generated(config, "formulas/render.js", content=RENDER))
    return files
