r"""Proposals in JSON, for a page that evaluates them by itself: `js/proposals.mjs`."""

from __future__ import annotations

__all__ = ["LIVE", "weights"]

from base64 import b64encode
from typing import Any

from torch import Tensor
from torch.nn import SiLU

from amci_core.estimators.draws import PROPOSALS
from amci_core.flows import Proposals
from amci_core.flows.autoregressive import SplineProposal
from amci_core.flows.layers import ComposedFlow, Triangular
from amci_core.flows.supports import HalfLine, SoftHalfLine

# What `amci_explorer/js/targets.mjs` has in closed form.
LIVE = ("tail-1d", "gain-loss")
# What the page can carry the unit interval onto.
KINDS = {HalfLine: "half-line", SoftHalfLine: "soft-half-line"}


def weights(proposals: Proposals) -> dict[str, Any]:
    """All proposals that there are, by name: splines on a half-line and Gaussians, on the line.

    The page takes theta for the bound of a half-line, as f has it in the problems that it knows.
    Weights are base64 of little-endian floats of 32 bits, row by row.

    Raises:
        ValueError: a page cannot evaluate one of them.
    """
    return {name: _stored(q) for name, q in proposals.by_name.items() if name in PROPOSALS}


def _stored(proposal: Any) -> dict[str, Any]:
    if isinstance(proposal, SplineProposal) and type(proposal.bijectors[0]) in KINDS:
        bijector: Any = proposal.bijectors[0]
        network: Any = proposal.networks[0]
        family = {
            "family": "spline",
            "kind": KINDS[type(bijector)],
            "bins": proposal.bins,
            "sign": bijector.sign,
        }
    elif (
        isinstance(proposal, ComposedFlow)
        and proposal.base is None
        and [(type(layer), layer.width) for layer in proposal.layers] == [(Triangular, 2)]
    ):
        network, family = proposal.conditioner, {"family": "gaussian"}
    else:
        raise ValueError(f"proposal: {type(proposal).__name__} cannot be evaluated by a page")
    if len(network.linear) > 1 and not isinstance(network.activation, SiLU):
        raise ValueError("proposal: expected a network with activation silu")
    return {
        **family,
        "centre": network.centre.double().tolist(),
        "halfWidth": network.half_width.double().tolist(),
        "readsY": proposal.problem.y is not None,
        "readsTheta": network.reads_theta,
        "layers": [
            {"weight": _base64(layer.weight), "bias": _base64(layer.bias)}
            for layer in network.linear
        ],
    }


def _base64(values: Tensor) -> str:
    return b64encode(values.detach().cpu().numpy().astype("<f4").tobytes()).decode("ascii")
