r"""What the page needs to know of a problem before anything is computed."""

from __future__ import annotations

__all__ = ["history", "swept", "terms"]

from amci_core.estimators.draws import TERMS
from amci_core.evaluation.runs import default_estimators
from amci_core.flows import HistoryEntry
from amci_core.models import Problem
from amci_explorer.problems import registry


def terms(problem: Problem) -> tuple[str, ...]:
    """The terms that have proposals to draw from."""
    proposals = registry.proposals(problem.name).as_tuple
    return tuple(name for name, q in zip(TERMS, proposals, strict=True) if q is not None)


def swept(problem: Problem) -> tuple[str, ...]:
    """The estimators of a sweep over cases."""
    return default_estimators(problem, registry.proposals(problem.name))


def history(problem: Problem) -> tuple[HistoryEntry, ...]:
    """The checkpoints of the default proposals' training; empty if none are stored."""
    return registry.snapshots(problem.name)
