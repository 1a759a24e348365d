r"""Text of the tour in HTML, with its formulas in MathML."""

from __future__ import annotations

__all__ = ["html_of"]

import re

from amci_explorer.views.formula import with_formulas


def html_of(text: str) -> str:
    """Plain text, with formulas between dollars, as HTML; an empty line begins a paragraph."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))
    return "".join(f"<p>{with_formulas(each)}</p>" for each in paragraphs if each)
