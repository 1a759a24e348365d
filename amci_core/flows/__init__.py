r"""Conditional densities: one file a family; `FAMILIES` is their registry."""

from __future__ import annotations

__all__ = [
    "FAMILIES",
    "AtContext",
    "ConditionalDensity",
    "HistoryEntry",
    "PosteriorDraws",
    "Proposal",
    "Proposals",
    "Trainable",
]

from amci_core.flows.density import ConditionalDensity, Proposal, Trainable
from amci_core.flows.external import AtContext
from amci_core.flows.families import FAMILIES
from amci_core.flows.posterior import PosteriorDraws
from amci_core.flows.proposals import HistoryEntry, Proposals
