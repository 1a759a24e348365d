r"""Proposals in JSON, for a page that evaluates them by itself: `js/proposals.mjs`."""

from __future__ import annotations

__all__ = ["LIVE", "weights", "weights_of"]

from base64 import b64encode
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import SiLU

from amci_core.estimators import PROPOSALS
from amci_core.flows import Proposals
from amci_core.flows.autoregressive import SplineProposal
from amci_core.flows.conditioner import Conditioner
from amci_core.flows.layers import Affine, ComposedFlow
from amci_core.flows.supports import HalfLine, SoftHalfLine, UnitInterval

# What `amci_explorer/js/targets.mjs` has in closed form.
LIVE = ("tail-1d", "gain-loss", "peak")
# What the page can carry the unit interval onto.
KINDS = {HalfLine: "half-line", SoftHalfLine: "soft-half-line", UnitInterval: "unit"}


def weights(proposals: Proposals) -> dict[str, Any]:
    """All proposals that there are, by name, as `weights_of` gives them.

    Raises:
        ValueError: a page cannot evaluate one of them.
    """
    named = zip(PROPOSALS, proposals.as_tuple, strict=True)
    return {name: weights_of(proposal) for name, proposal in named if proposal is not None}


def weights_of(proposal: Any) -> dict[str, Any]:
    """A spline on a half-line or the unit cube, or a Gaussian on the line, as plain values.

    The page takes theta for the bound of a half-line, as f has it in the problems that it knows.
    Weights are base64 of little-endian floats, row by row: of 32 bits where nothing is lost.

    Raises:
        ValueError: it is of another family.
    """
    networks: list[Any]
    if isinstance(proposal, SplineProposal) and _known(proposal):
        networks = list(proposal.networks)
        family: dict[str, Any] = {
            "family": "spline",
            "bins": proposal.bins,
            "sign": getattr(proposal.bijectors[0], "sign", 1),
            "coordinates": [
                {"kind": KINDS[type(kind)], "centre": kind.centre, "scale": kind.scale}
                for kind in proposal.bijectors
            ],
        }
    elif isinstance(proposal, ComposedFlow) and _is_gaussian(proposal):
        networks, family = [proposal.conditioner], {"family": "gaussian"}
    else:
        raise ValueError(
            "proposal: expected a spline on a half-line or the unit cube, or a Gaussian on the "
            f"line, got {type(proposal).__name__}"
        )
    if any(len(n.linear) > 1 and not isinstance(n.activation, SiLU) for n in networks):
        raise ValueError("proposal: expected networks with activation silu")
    exact = all(_is_single(t) for network in networks for t in network.parameters())
    bits = 32 if exact else 64
    first = networks[0]
    return {
        **family,
        "bits": bits,
        "centre": first.centre.double().tolist(),
        "halfWidth": first.half_width.double().tolist(),
        "readsY": proposal.problem.y is not None,
        "readsTheta": first.reads_theta,
        "networks": [_layers(network, bits) for network in networks],
    }


def _known(proposal: SplineProposal) -> bool:
    kinds = {type(kind) for kind in proposal.bijectors}
    return kinds <= KINDS.keys() and (kinds == {UnitInterval} or len(proposal.bijectors) == 1)


def _is_gaussian(proposal: ComposedFlow) -> bool:
    layers = [(type(layer), layer.width) for layer in proposal.layers]
    return proposal.base is None and layers == [(Affine, 2)]


def _is_single(values: Tensor) -> bool:
    return bool((values.float().double() == values.double()).all())


def _layers(network: Conditioner, bits: int) -> list[dict[str, str]]:
    return [
        {"weight": _base64(layer.weight, bits), "bias": _base64(layer.bias, bits)}
        for layer in network.linear
    ]


def _base64(values: Tensor, bits: int) -> str:
    numbers = values.detach().cpu().double().numpy().astype(np.dtype(f"<f{bits // 8}"))
    return b64encode(numbers.tobytes()).decode("ascii")
