r"""What the controls say: how a case differs from another, and what to know of its proposals."""

from __future__ import annotations

__all__ = ["about_reference", "about_warnings", "difference", "note"]

from collections.abc import Sequence
from html import escape

from amci_core.flows.proposals import DEFENSIVE
from amci_core.target import FALLBACK
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Settings

SYMBOLS = {"y": "y", "theta": "θ"}


def difference(found: Settings, wanted: Settings) -> str:
    """How a result's choice differs from the current one: "for θ = 3"."""
    values = {n: v for n, v in vars(found).items() if v != getattr(wanted, n)}
    parts = [f"{SYMBOLS[name]} = {_point(values[name])}" for name in SYMBOLS if name in values]
    parts += [f"{values[name]:,} {name}" for name in ("draws", "runs") if name in values]
    if found.seed != wanted.seed:
        parts.append(f"seed {found.seed}")
    if (found.variant, found.snapshot) != (wanted.variant, wanted.snapshot):
        early = "" if found.snapshot is None else f", checkpoint {found.snapshot + 1}"
        parts.append(f"{found.variant} proposals{early}")
    if not parts and found.revision != wanted.revision:
        return "from earlier in the training"
    return f"for {', '.join(parts)}" if parts else "with other settings"


def about_reference(reference: Settings | None, here: Settings) -> str:
    """What the reference case is, in a sentence."""
    if reference is None:
        return ""
    if reference.problem != here.problem:
        same = registry.split(reference.problem)[0] == registry.split(here.problem)[0]
        other = "another f" if same else ""
        return f"A is a case of {other or 'another problem'} and reappears when you return to it."
    if reference == here:
        return "This case is kept as A. It stays visible, dimmed, while you change settings."
    return f"A, in faint colours, is the case {difference(reference, here)}."


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


def _point(value: tuple[float, ...]) -> str:
    same = len(set(value)) == 1
    text = f"{value[0]:.3g}" if same else "(" + ", ".join(f"{v:.3g}" for v in value) + ")"
    return text.replace("-", "−")
