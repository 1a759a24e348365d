r"""Whether an estimate can be believed, and how well draws serve each of its terms."""

from __future__ import annotations

__all__ = [
    "LEVELS",
    "TermDiagnostics",
    "Verdict",
    "diagnose",
    "judge",
    "pareto_k",
    "pareto_tail",
    "pareto_threshold",
]

from amci_core.diagnostics.pareto import pareto_k, pareto_tail, pareto_threshold
from amci_core.diagnostics.term import TermDiagnostics, diagnose
from amci_core.diagnostics.verdict import LEVELS, Verdict, judge
