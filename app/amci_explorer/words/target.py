r"""Messages about another f: what it may contain, and where it is wrong."""

from __future__ import annotations

__all__ = ["allowed", "at_its_place", "wrong"]

from html import escape

from amci_core.models import Problem
from amci_core.models.expression import LONGEST, ExpressionError

# Characters of a text that are shown about a mistake: as many as a phone's line has.
SHOWN = 30


def allowed(problem: Problem) -> str:
    """What an expression may contain, for a problem."""
    names = [_names("x", problem.x.dim)]
    if problem.theta is not None:
        names.append(_names("theta", problem.theta.dim))
    return (
        f"Up to {LONGEST} characters of {' and '.join(names)}, numbers, + - * / **, comparisons, "
        "and, or, not, exp, log, sqrt, abs, sin, cos, tanh, min, max, where(condition, a, b), and "
        "over coordinates sum, mean, norm, all, any. Enter applies, Escape restores."
    )


def wrong(error: ValueError) -> str:
    """What is wrong, in a sentence that begins with the place."""
    if isinstance(error, ExpressionError):
        return f"Column {error.column}: {error.why}"
    return str(error).removeprefix("f: ")


def at_its_place(text: str, error: ValueError) -> str:
    """The text with a caret below the mistake, as HTML; empty where it has no place."""
    if not isinstance(error, ExpressionError):
        return ""
    at = min(error.column - 1, len(text))
    start = max(0, min(at - SHOWN // 2, len(text) - SHOWN))
    before, after = ("…" if start else ""), ("…" if start + SHOWN < len(text) else "")
    line = f"{before}{text[start : start + SHOWN]}{after}"
    return f"{escape(line)}\n{' ' * (at - start + len(before))}^"


def _names(name: str, size: int) -> str:
    return f"{name}1" if size == 1 else f"{name}1 to {name}{size}, or {name} for all"
