r"""Formulas as MathML, which browsers draw and read out by themselves."""

from __future__ import annotations

__all__ = ["FORMULA", "INLINE", "formula", "with_formulas"]

from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import tostring

from latex2mathml.converter import convert_to_element

# What is small in a formula can be read on a phone too.
SCRIPTS = """
:is(msub, msup, msubsup, munder, mover, munderover) > :not(:first-child) {
    font-size: max(12px, 0.72em); }
"""
FORMULA = (
    """
.formula { display: flex; flex-wrap: wrap; align-items: center; gap: 0 1em; min-height: 44px;
           overflow: auto hidden; container-type: inline-size; }
math { margin: 0.2em 0; font-size: clamp(15px, 3.9cqi, 1.15rem);
       font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", "XITS Math",
                    "DejaVu Math TeX Gyre", math; }
"""
    + SCRIPTS
)
INLINE = "math { font-size: 1.08em; }" + SCRIPTS


@lru_cache(256)
def formula(latex: str) -> str:
    """A formula as HTML, which may go on in another line after a quad."""
    drawn = "".join(_math(part) for part in latex.split(r"\quad") if part.strip())
    return f'<div class="formula">{drawn}</div>'


@lru_cache(1024)
def with_formulas(text: str) -> str:
    """A text as HTML, with what stands between dollars as formulas in the line."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(
        _math(part, "inline") if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _math(latex: str, display: str = "block") -> str:
    """A formula as MathML; one that cannot be read is shown as it is written."""
    try:
        root = convert_to_element(latex, display=display)
    except Exception:  # latex2mathml raises many
        return f"<code>{escape(latex)}</code>"
    for node in root.iter():
        written = node.text or ""
        node.text = unescape(written)
        # Letters that are not as they were written are upright ones, or Greek.
        if node.tag == "mi" and written.startswith("&") and node.text.isupper():
            node.set("mathvariant", "normal")
        if node.tag == "mo" and node.text.isalpha():
            node.attrib.update(lspace="0", rspace="0")
        # Browsers know no such name.
        if node.get("width") == "negativethinmathspace":
            node.set("width", "-0.167em")
    return tostring(root, encoding="unicode")
