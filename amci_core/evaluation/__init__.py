r"""Problems, proposals and estimators put to work: estimates, and errors over runs and cases."""

from __future__ import annotations

__all__ = [
    "Curve",
    "ErrorCurves",
    "Estimate",
    "Evaluation",
    "ReuseErrors",
    "error_curves",
    "estimate",
    "evaluate",
    "reuse_errors",
    "stream_error_curves",
    "stream_reuse_errors",
]

from amci_core.evaluation.cases import Evaluation, evaluate
from amci_core.evaluation.curves import Curve, ErrorCurves, error_curves, stream_error_curves
from amci_core.evaluation.estimate import Estimate, estimate
from amci_core.evaluation.reuse import ReuseErrors, reuse_errors, stream_reuse_errors
