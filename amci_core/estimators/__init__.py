r"""Draws, tables, estimates: what is done with numbers, whatever they were drawn from."""

from __future__ import annotations

__all__ = [
    "ESTIMATORS",
    "PROPOSALS",
    "TERMS",
    "Combined",
    "Draws",
    "Estimator",
    "Moments",
    "Points",
    "combine",
    "estimator",
    "pooled_moments",
    "running_moments",
    "snis_bound",
    "split_budget",
    "tables",
    "variance",
]

from amci_core.estimators import tables
from amci_core.estimators.bound import snis_bound
from amci_core.estimators.budget import split_budget
from amci_core.estimators.combine import Combined, combine
from amci_core.estimators.draws import PROPOSALS, TERMS, Draws, Points
from amci_core.estimators.moments import Moments, pooled_moments, running_moments, variance
from amci_core.estimators.named import ESTIMATORS, Estimator, estimator
