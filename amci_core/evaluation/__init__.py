r"""Errors over independent runs, over (alpha, beta), and over cases (y, theta)."""

from __future__ import annotations

__all__ = [
    "Cases",
    "Curve",
    "ErrorCurves",
    "Evaluation",
    "KnownCases",
    "ReuseErrors",
    "Sweep",
    "error_curves",
    "evaluate",
    "read_cases",
    "read_sweep",
    "reuse_errors",
    "runs_by_draws",
]

from amci_core.evaluation.cases import Cases, Evaluation, KnownCases, Sweep, evaluate, read_cases
from amci_core.evaluation.reuse import ReuseErrors, reuse_errors
from amci_core.evaluation.runs import Curve, ErrorCurves, error_curves, runs_by_draws
from amci_core.evaluation.sweep import read_sweep
