r"""What is said of a problem of one's own."""

from __future__ import annotations

__all__ = ["about_warnings", "note"]

from collections.abc import Sequence
from html import escape

from amci_core.flows.proposals import REFERENCE
from amci_core.target import STAND_INS
from app import own


def about_warnings(found: Sequence[str]) -> str:
    """The warnings of a check, as HTML; empty where there is none."""
    if not found:
        return ""
    several = "this" if len(found) == 1 else "these"
    lines = "".join(f"<p>{escape(each)}</p>" for each in found)
    return f"<p><b>A check of its definition warns of {several}:</b></p>{lines}"


def note(name: str, variant: str) -> str:
    """What is to be said of proposals that were not trained for a problem; else empty."""
    if own.split(name)[1] and variant == STAND_INS:
        q2 = own.proposals(name, variant).q2
        said = (
            "the prior draws for every term. Errors are those of plain importance sampling."
            if q2 is None
            else "q₂ of the posterior, which is the same, draws for every term. AMCI is then as "
            "good as SNIS with q₂, and no better."
        )
        return f"No proposals have been trained for this f: {said}"
    if name in own.OWN and variant == REFERENCE:
        return (
            "No proposals have been trained for this problem: its broad reference draws for every "
            "term. Errors are those of plain importance sampling."
        )
    return ""
