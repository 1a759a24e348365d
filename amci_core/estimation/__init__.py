r"""One answer: an estimate of mu(y, theta) with its uncertainty, diagnostics and verdict."""

from __future__ import annotations

__all__ = [
    "Estimate",
    "Several",
    "TableEstimates",
    "estimate",
    "estimate_from_draws",
    "estimate_several",
    "estimate_to",
]

from amci_core.estimation.estimate import estimate, estimate_to
from amci_core.estimation.result import Estimate
from amci_core.estimation.several import Several, estimate_several
from amci_core.estimation.table import TableEstimates, estimate_from_draws
