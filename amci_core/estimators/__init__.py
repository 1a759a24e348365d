r"""Estimators and their errors, from numbers alone: they see no flow and no problem."""

from __future__ import annotations

__all__ = ["ESTIMATORS", "Estimator", "Tabled", "resolve", "tables"]

from amci_core.estimators import tables
from amci_core.estimators.base import Estimator
from amci_core.estimators.estimators import ESTIMATORS, Tabled, resolve
