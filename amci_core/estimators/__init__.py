r"""Estimators and their errors, from numbers alone: they see no flow and no problem."""

from __future__ import annotations

__all__ = [
    "COMPONENTS",
    "ESTIMATORS",
    "PROPOSALS",
    "TERMS",
    "Draws",
    "Estimator",
    "Moments",
    "Prepared",
    "Tabled",
    "combine",
    "moments",
    "relative_variance",
    "resolve",
    "snis_bound",
    "tables",
]

from amci_core.estimators import tables
from amci_core.estimators.base import Estimator, Prepared, combine
from amci_core.estimators.draws import COMPONENTS, PROPOSALS, TERMS, Draws
from amci_core.estimators.estimators import ESTIMATORS, Tabled, resolve
from amci_core.estimators.mis import Moments, moments
from amci_core.estimators.uncertainty import relative_variance, snis_bound
