r"""Formulas as MathML, which browsers draw and read out by themselves."""

from __future__ import annotations

__all__ = ["FORMULA", "INLINE", "formula", "with_formulas"]

from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import tostring

from latex2mathml import exceptions
from latex2mathml.converter import convert_to_element

FORMULA = """
.formula { display: flex; flex-wrap: wrap; align-items: center; gap: 0 1em; min-height: 44px;
           overflow: auto hidden; container-type: inline-size; }
math { margin: 0.2em 0; font-size: min(1.15rem, 3.9cqi);
       font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", "XITS Math",
                    "DejaVu Math TeX Gyre", math; }
"""
INLINE = "math { font-size: 1.08em; }"
# Where a formula may go on in another line; and the parts that would hold such a place themselves.
BREAK, WITHIN = r"\quad", (("{", "}"), (r"\left", r"\right"), (r"\begin", r"\end"))
# Spaces that browsers know no name of.
SPACES = {"negativethinmathspace": "-0.167em"}
# What a formula of a problem's author may not bring along.
UNWANTED = ("href", "style", "class", "id")
WRONG: tuple[type[Exception], ...] = (
    *(e for e in vars(exceptions).values() if isinstance(e, type) and issubclass(e, Exception)),
    *(LookupError, ValueError, TypeError, AttributeError, StopIteration, RecursionError),
)


@lru_cache(256)
def formula(latex: str) -> str:
    """A formula as HTML; one that cannot be read is shown as it is written."""
    parts = latex.split(BREAK)
    if not all(part.count(one) == part.count(other) for part in parts for one, other in WITHIN):
        parts = [latex]
    try:
        drawn = "".join(_math(part) for part in parts if part.strip())
    except WRONG:
        drawn = f"<code>{escape(latex)}</code>"
    return f'<div class="formula">{drawn}</div>'


@lru_cache(1024)
def with_formulas(text: str) -> str:
    """A text as HTML, with what stands between dollars as formulas in the line."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(_inline(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def _inline(latex: str) -> str:
    try:
        return _math(latex, display="inline")
    except WRONG:
        return f"<code>{escape(latex)}</code>"


def _math(latex: str, *, display: str = "block") -> str:
    root = convert_to_element(latex, display=display)
    for node in root.iter():
        written = node.text or ""
        node.text = unescape(written)
        # Letters that are not as they were written are upright ones, or Greek.
        if node.tag == "mi" and written.startswith("&") and node.text.isupper():
            node.set("mathvariant", "normal")
        if node.tag == "mo" and node.text.isalpha():
            node.attrib.update(lspace="0", rspace="0")
        if node.get("width") in SPACES:
            node.set("width", SPACES[node.attrib["width"]])
        for name in UNWANTED:
            node.attrib.pop(name, None)
    return tostring(root, encoding="unicode")
