r"""Errors over independent runs, over (alpha, beta), and over cases (y, theta)."""

from __future__ import annotations

__all__ = [
    "Curve",
    "ErrorCurves",
    "Evaluation",
    "KnownCases",
    "ReuseErrors",
    "error_curves",
    "evaluate",
    "read_cases",
    "reuse_errors",
    "runs_by_draws",
]

from amci_core.evaluation.cases import Evaluation, KnownCases, evaluate, read_cases
from amci_core.evaluation.reuse import ReuseErrors, reuse_errors
from amci_core.evaluation.runs import Curve, ErrorCurves, error_curves, runs_by_draws
