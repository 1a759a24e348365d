r"""What a choice is, and how one differs from another."""

from __future__ import annotations

__all__ = ["about_reference", "difference"]

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


def _point(value: tuple[float, ...]) -> str:
    same = len(set(value)) == 1
    text = f"{value[0]:.3g}" if same else "(" + ", ".join(f"{v:.3g}" for v in value) + ")"
    return text.replace("-", "−")
