r"""Numbers and names for reading."""

from __future__ import annotations

__all__ = [
    "doubt",
    "duration",
    "effective",
    "in_symbols",
    "number",
    "percent",
    "pretty",
    "slug",
    "subscript",
    "table",
]

import math
import re
from collections.abc import Iterable

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 3) -> str:
    """A number: 0.0234, 2.03 × 10⁻⁴; "?" for what is not known."""
    if not math.isfinite(value):
        return "?" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        text = f"{value:.{digits}g}"
        # What has more digits than are wanted is written in full all the same.
        return (f"{float(text):,.0f}" if "e" in text else text).replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.replace('-', '−')} × 10{str(int(exponent)).translate(RAISED)}"


def slug(heading: str) -> str:
    """A heading as the end of an address, as GitHub and MkDocs write it."""
    return re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")


def doubt(standard_error: float, width: float = math.inf, *, judged: bool = True) -> str:
    """A standard error, if draws can judge it; one beyond the width of f's range is unusable."""
    if standard_error > width or math.isinf(standard_error):
        return "unusable"
    return number(standard_error, 2) if judged and standard_error >= 0 else "not judged"


def duration(seconds: float) -> str:
    """A time: 40 s, 3 min."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def effective(draws: float) -> str:
    """An effective sample size, in draws."""
    return number(draws) if draws >= 1 else "below 1" if draws > 0 else "0"


def percent(share: float) -> str:
    """A share, however small."""
    return f"{100 * share:.1f} %" if share >= 1e-3 else f"{number(100 * share, 2)} %"


def subscript(value: int) -> str:
    """Its digits, below the line."""
    return str(value).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def pretty(name: str, *, signed: bool) -> str:
    """E1_plus as E₁⁺, or as E₁ where f takes one sign."""
    return in_symbols(name if signed else name.replace("_plus", ""))


def in_symbols(text: str) -> str:
    """E1_plus as E₁⁺, q2 as q₂, mu as μ, 2e-9 as 2 × 10⁻⁹."""

    def symbol(found: re.Match[str]) -> str:
        sign = {"_plus": "⁺", "_minus": "⁻", None: ""}[found[3]]
        return f"{found[1]}{subscript(int(found[2]))}{sign}"

    text = re.sub(r"[\d.]+e[-+]\d+", lambda found: number(float(found[0])), text)
    return re.sub(r"\b([Eq])([12])(_plus|_minus)?", symbol, re.sub(r"\bmu\b", "μ", text))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells in HTML, which keys can scroll where it is too wide."""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    top = "".join(f"<th>{cell}</th>" for cell in head)
    return f'<div class="wide" tabindex="0"><table><tr>{top}</tr>{body}</table></div>'
