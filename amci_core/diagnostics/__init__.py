r"""Whether an estimate can be believed, and how well draws serve each of its terms."""

from __future__ import annotations

__all__ = ["TermDiagnostics", "Verdict", "pareto_k", "pareto_threshold"]

from amci_core.diagnostics.pareto import pareto_k, pareto_threshold
from amci_core.diagnostics.term import TermDiagnostics
from amci_core.diagnostics.verdict import Verdict
