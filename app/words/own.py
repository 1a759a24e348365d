r"""What is said of a problem of one's own."""

from __future__ import annotations

__all__ = ["about_warnings"]

from collections.abc import Sequence
from html import escape


def about_warnings(found: Sequence[str]) -> str:
    """The warnings of a check, as HTML; empty where there is none."""
    if not found:
        return ""
    several = "this" if len(found) == 1 else "these"
    lines = "".join(f"<p>{escape(each)}</p>" for each in found)
    return f"<p><b>A check of its definition warns of {several}:</b></p>{lines}"
