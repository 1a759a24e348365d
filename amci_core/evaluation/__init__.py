r"""Problems, proposals and estimators put to work: estimates, and errors over runs and cases."""

from __future__ import annotations

__all__ = [
    "AmortizationMap",
    "Curve",
    "ErrorCurves",
    "Estimate",
    "Evaluation",
    "Precise",
    "ReuseErrors",
    "TermsEstimate",
    "amortization_map",
    "error_curves",
    "estimate",
    "estimate_terms",
    "estimate_to",
    "evaluate",
    "pilot_moments",
    "reuse_errors",
    "stream_amortization_map",
    "stream_error_curves",
    "stream_reuse_errors",
]

from amci_core.evaluation.amortization import (
    AmortizationMap,
    amortization_map,
    stream_amortization_map,
)
from amci_core.evaluation.cases import Evaluation, evaluate
from amci_core.evaluation.curves import Curve, ErrorCurves, error_curves, stream_error_curves
from amci_core.evaluation.estimate import Estimate, estimate, pilot_moments
from amci_core.evaluation.precision import Precise, estimate_to
from amci_core.evaluation.reuse import ReuseErrors, reuse_errors, stream_reuse_errors
from amci_core.evaluation.terms import TermsEstimate, estimate_terms
