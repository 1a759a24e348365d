r"""Amortized Monte Carlo integration: E[f(x; theta)] under p(x | y), for every y and theta."""

from __future__ import annotations

__all__ = [
    "error_curves",
    "estimate",
    "evaluate",
    "load_proposals",
    "problem",
    "problems",
    "reuse_errors",
    "stream_error_curves",
]

from amci_core.evaluation import (
    error_curves,
    estimate,
    evaluate,
    reuse_errors,
    stream_error_curves,
)
from amci_core.models import problem, problems
from amci_core.pretrained import load_proposals
