r"""Conditional masked autoregressive flows: the paper's family for tails in several dimensions.

A layer shifts and scales every coordinate by what a masked network makes of those before it:

    x_i = m_i(x_<i) + exp(s_i(x_<i)) z_i.

The density of given points takes one pass of the network a layer, a draw goes through the
coordinates one by one. Every second layer runs through the coordinates backwards.
"""

from __future__ import annotations

__all__ = ["MaskedAffine", "MaskedProposal", "masked_autoregressive"]

import math

import torch
from normflows.nets.made import MADE
from torch import Tensor, nn

from amci_core._arguments import check_count
from amci_core.flows.conditioner import activation_of
from amci_core.flows.gaussian import FlowProposal, Layer
from amci_core.models.base import Problem

# The logarithm of a scale is limited to +- this in every layer, softly.
LOG_SCALE_SPREAD = 3.0


class MaskedAffine(Layer):
    """A masked autoregressive layer; normflows' own draws in parallel and cannot widen.

    Columns of context: what y and theta add to the first hidden layer of the masked network.

    References:
        Papamakarios, Pavlakou, Murray, Masked Autoregressive Flow for Density Estimation, 2017.
        Germain et al., MADE: Masked Autoencoder for Distribution Estimation, 2015.

    Arguments:
        dim: Number of dimensions D.
        hidden: Width of both hidden layers.
        activation: The network's activation.
        backwards: Whether the last coordinate comes first.
    """

    def __init__(self, dim: int, *, hidden: int, activation: str, backwards: bool) -> None:
        super().__init__()
        self.dim, self.width, self.backwards = dim, hidden, backwards
        # normflows draws weights from the global generator, and `initialize` draws them again.
        with torch.random.fork_rng(devices=[]):
            self.network = MADE(
                dim,
                hidden,
                num_blocks=1,
                output_multiplier=2,
                use_residual_blocks=False,
                activation=activation_of(activation),
            )
        self.activation = activation_of(activation)

    def initialize(self, generator: torch.Generator) -> None:
        """Draws the network's weights; its last layer starts small, near the identity."""
        last = self.network.final_layer
        for linear in (m for m in self.network.modules() if isinstance(m, nn.Linear)):
            bound = 1 / math.sqrt(linear.in_features)
            with torch.no_grad():
                scale = 0.1 if linear is last else 1.0
                linear.weight.uniform_(-bound * scale, bound * scale, generator=generator)
                linear.bias.uniform_(-bound, bound, generator=generator)
                if linear is last:
                    linear.bias.zero_()

    def _split(self, x: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.activation(self.network.initial_layer(x) + parameters[:, None])
        return self._limited(self.network.final_layer(self.network.blocks[0](hidden)))

    @staticmethod
    def _limited(out: Tensor) -> tuple[Tensor, Tensor]:
        # A shift and a free scale for every coordinate in turn.
        shift, free = out[..., 0::2], out[..., 1::2]
        return shift, LOG_SCALE_SPREAD * torch.tanh(free / LOG_SCALE_SPREAD)

    def _ordered(self, points: Tensor) -> Tensor:
        return points.flip(-1) if self.backwards else points

    def forward(self, z: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        z = self._ordered(z)
        first, last = self.network.initial_layer, self.network.final_layer
        (block,) = self.network.blocks
        # With the hidden units in the order of the coordinates that they wait for, each is
        # computed once, as soon as these are known.
        order = first.degrees.argsort(stable=True)
        ends = first.degrees.bincount(minlength=self.dim).cumsum(0).tolist()
        weights_1, weights_2 = first.weight[order], block.linear.weight[order][:, order]
        given, bias_2 = (first.bias + prepared[:, None])[..., order], block.linear.bias[order]
        weights_3 = last.weight[:, order]
        hidden_1 = hidden_2 = z.new_zeros(*z.shape[:-1], 0)
        x, log_det = z[..., :0], torch.zeros_like(z[..., 0])
        for i in range(self.dim):
            new = slice(ends[i - 1] if i else 0, ends[i])
            added = self.activation(x @ weights_1[new, :i].T + given[..., new])
            hidden_1 = torch.cat([hidden_1, added], -1)
            added = self.activation(hidden_1 @ weights_2[new, : new.stop].T + bias_2[new])
            hidden_2 = torch.cat([hidden_2, added], -1)
            rows = slice(2 * i, 2 * i + 2)
            shift, log_scale = self._limited(
                hidden_2 @ weights_3[rows, : new.stop].T + last.bias[rows]
            )
            x = torch.cat([x, shift + log_scale.exp() * z[..., i : i + 1]], -1)
            log_det = log_det + log_scale.squeeze(-1)
        return self._ordered(x), log_det

    def inverse(self, x: Tensor, prepared: Tensor) -> tuple[Tensor, Tensor]:
        x = self._ordered(x)
        shift, log_scale = self._split(x, prepared)
        return self._ordered((x - shift) * (-log_scale).exp()), -log_scale.sum(-1)


class MaskedProposal(FlowProposal):
    """A flow whose layers have weights of their own, beside those of the conditioner."""

    def initialize(self, generator: torch.Generator) -> None:
        # The conditioner belongs to hidden layers, so that it does not start small.
        for linear in self.conditioner.linear:
            bound = 1 / math.sqrt(linear.in_features)
            with torch.no_grad():
                linear.weight.uniform_(-bound, bound, generator=generator)
                linear.bias.zero_()
        for layer in self.layers:
            if isinstance(layer, MaskedAffine):
                layer.initialize(generator)


def masked_autoregressive(
    problem: Problem, *, reads_theta: bool, layers: int, hidden: int, activation: str
) -> MaskedProposal:
    """The paper's family for the five-dimensional tail: masked layers over N(0, I).

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, appendix
        "Five-dimensional tail integral".

    Arguments:
        problem: The problem whose x it proposes.
        reads_theta: Whether it depends on theta beside y.
        layers: Number of masked layers.
        hidden: Width of the two hidden layers of each.
        activation: The networks' activation.

    Raises:
        ValueError: the activation is not known, layers or hidden is not a whole number in range,
            or a hidden layer is too narrow for the dimension of x.
    """
    check_count("layers", layers, low=1, high=64)
    # A hidden layer reads the first 1, 2, .. D - 1 coordinates in turn.
    check_count("hidden", hidden, low=max(1, problem.x.dim - 1), high=4096)
    stack = [
        MaskedAffine(problem.x.dim, hidden=hidden, activation=activation, backwards=i % 2 == 1)
        for i in range(layers)
    ]
    proposal = MaskedProposal(
        problem, stack, reads_theta=reads_theta, hidden=(), activation=activation
    )
    proposal.initialize(torch.Generator().manual_seed(0))
    return proposal
