r"""Trained proposals on disk: safetensors for the numbers, JSON for everything else, no pickle."""

from __future__ import annotations

__all__ = ["load_proposals", "snapshots"]
from amci_core.flows.exact import PosteriorNormal, TruncatedPosterior
from amci_core.flows.proposals import Proposals
from amci_core.models import problem


def load_proposals(name, variant="spline"):
    p = problem(name)
    return Proposals(name, variant, TruncatedPosterior(p), None, PosteriorNormal(p))
