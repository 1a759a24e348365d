r"""Text of the tour in HTML, with its formulas in MathML."""

from __future__ import annotations

__all__ = ["formula", "html_of"]

import re
from html import escape

from latex2mathml.converter import convert

BETWEEN_DOLLARS = re.compile(r"\$([^$]+)\$")


def html_of(text: str) -> str:
    """Plain text, with formulas between dollars, as HTML; an empty line begins a paragraph."""
    paragraphs = (_line(part) for part in re.split(r"\n\s*\n", text.strip()))
    return "".join(f"<p>{each}</p>" for each in paragraphs if each)


def formula(tex: str) -> str:
    """A formula in TeX's notation as MathML, which browsers draw and read out by themselves."""
    converted: str = convert(tex)
    return converted


def _line(text: str) -> str:
    # Text and formulas take turns.
    parts = BETWEEN_DOLLARS.split(text)
    return "".join(formula(v) if i % 2 else escape(v) for i, v in enumerate(parts)).strip()
