r"""Messages about a user's own problem."""

from __future__ import annotations

__all__ = ["about_warnings", "note"]

from collections.abc import Sequence
from html import escape

from amci_core.flows.proposals import DEFENSIVE
from amci_core.target import FALLBACK
from amci_explorer.problems import registry


def about_warnings(found: Sequence[str]) -> str:
    """The warnings of a check, as HTML; empty where there is none."""
    if not found:
        return ""
    several = "a warning" if len(found) == 1 else "warnings"
    lines = "".join(f"<p>{escape(each)}</p>" for each in found)
    return f"<p><b>The check of its definition gives {several}:</b></p>{lines}"


def note(name: str, variant: str) -> str:
    """A note on proposals that were not trained for a problem; empty for others."""
    if registry.split(name)[1] and variant == FALLBACK:
        q2 = registry.proposals(name, variant).q2
        said = (
            "every term is sampled from the prior. Errors are those of plain importance sampling."
            if q2 is None
            else "every term is sampled from q₂, since the posterior is unchanged. AMCI then "
            "has no advantage over SNIS q₂, and half the draws for each term."
        )
        return f"No proposals have been trained for this f: {said}"
    if name in registry.OWN and variant == DEFENSIVE:
        return (
            "No proposals have been trained for this problem: every term is sampled from its "
            "defensive density. Errors are those of plain importance sampling."
        )
    return ""
