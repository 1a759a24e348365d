r"""Conditional densities: one file a family; `FAMILIES` maps names to their constructors."""

from __future__ import annotations

__all__ = [
    "FAMILIES",
    "ConditionalDensity",
    "Proposal",
    "Proposals",
    "SbiPosterior",
    "Snapshot",
    "Trainable",
]

from collections.abc import Callable

from amci_core.flows.autoregressive import autoregressive_spline, half_line_spline
from amci_core.flows.broad import broad_reference, defensive
from amci_core.flows.carried import carried_spline
from amci_core.flows.defended import defended_spline
from amci_core.flows.density import ConditionalDensity, Proposal, Trainable
from amci_core.flows.gamma_beta import GammaBeta
from amci_core.flows.gaussian import gaussian
from amci_core.flows.layered import layered_spline
from amci_core.flows.masked import masked_autoregressive
from amci_core.flows.outside import SbiPosterior
from amci_core.flows.proposals import Proposals, Snapshot
from amci_core.flows.radial import radial

FAMILIES: dict[str, Callable[..., Trainable]] = {
    "autoregressive-spline": autoregressive_spline,
    "broad": broad_reference,
    "carried-spline": carried_spline,
    "defended-spline": defended_spline,
    "defensive": defensive,
    "gamma-beta": GammaBeta,
    "gaussian": gaussian,
    "half-line-spline": half_line_spline,
    "layered-spline": layered_spline,
    "masked-autoregressive": masked_autoregressive,
    "radial": radial,
}
