r"""Draws, tables, estimates: what is done with numbers, whatever they were drawn from."""

from __future__ import annotations

__all__ = [
    "COMPONENTS",
    "ESTIMATORS",
    "PROPOSALS",
    "TERMS",
    "Combined",
    "Draws",
    "Estimator",
    "Moments",
    "Tabled",
    "combine",
    "moments",
    "resolve",
    "snis_bound",
    "split_budget",
    "tables",
    "variance",
]

from amci_core.estimators import tables
from amci_core.estimators.budget import snis_bound, split_budget, variance
from amci_core.estimators.combine import Combined, combine
from amci_core.estimators.draws import COMPONENTS, PROPOSALS, TERMS, Draws
from amci_core.estimators.estimators import ESTIMATORS, Estimator, Tabled, resolve
from amci_core.estimators.mis import Moments, moments
