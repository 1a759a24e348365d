r"""Models of normflows as proposals that are trained here.

A model draws and evaluates points of the whole space, given a context: y and theta. Here its base
samples come from the generator that they are asked of, and its points go to the support of x. Its
layers read the context anew at every point, where our own families prepare it once per (y, theta);
they draw a seventh of the points a second.
"""

from __future__ import annotations

__all__ = ["NormflowsProposal", "neural_spline"]

from collections.abc import Callable
from typing import Any

import normflows as nf
import torch
from torch import Tensor

from amci_core.flows.conditioner import Inputs, flat_cases
from amci_core.flows.density import Trainable, TransformedDensity
from amci_core.flows.supports import Coordinates, bounds, coordinate_bijectors
from amci_core.models.base import Problem
from amci_core.models.densities import standard_normal_log_prob

# Points that go through all layers at once, so that a large draw fits the memory.
PIECE = 2**16
# Splines of the standardized points reach so far to both sides; beyond they are straight.
REACH = 5.0


class NormflowsProposal(Trainable):
    """A `normflows.ConditionalNormalizingFlow`, then the bijector to the support of x.

    The context has a column for every number of y and of theta, scaled to about [-1, 1]; those of
    theta are zero where it is not read.

    Arguments:
        make: Takes the problem and `arguments`, and gives the model, whose base is
            `normflows.distributions.DiagGaussian`; called with the global generator seeded.
        problem: The problem whose x it proposes.
        coordinates: For each coordinate of x its `kind`, and about its `centre` and `scale`, see
            `coordinate_bijectors`.
        reads_theta: Whether it depends on theta beside y.
        arguments: Those of `make`.

    Raises:
        ValueError: the model is of another kind, or has another base.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        problem: Problem,
        *,
        coordinates: Coordinates,
        reads_theta: bool = True,
        **arguments: Any,
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            model = make(problem, **arguments)
        kinds = nf.ConditionalNormalizingFlow, nf.distributions.DiagGaussian
        if not (isinstance(model, kinds[0]) and isinstance(model.q0, kinds[1])):
            raise ValueError(
                "make: expected a function that gives a normflows.ConditionalNormalizingFlow with "
                f"a base normflows.distributions.DiagGaussian, got {type(model).__name__} with "
                f"{type(getattr(model, 'q0', None)).__name__}"
            )
        self.problem, self.model = problem, model
        self.inputs = Inputs(problem)
        self.reads_theta = reads_theta
        self.bijectors = coordinate_bijectors(problem, coordinates)

    def initialize(self, generator: torch.Generator) -> None:
        """Nothing: a model starts from the weights that it was made with."""

    def at(self, y: Tensor, theta: Tensor | None) -> NormflowsDensity:
        return NormflowsDensity(self, y, theta)


class NormflowsDensity(TransformedDensity):
    """A model of normflows at given y and theta."""

    def __init__(self, proposal: NormflowsProposal, y: Tensor, theta: Tensor | None) -> None:
        y_rows, theta_rows = flat_cases(y, theta)
        read = theta_rows if theta_rows is None or proposal.reads_theta else theta_rows * 0
        self._context = proposal.inputs.inputs(y_rows, read)
        super().__init__(y.shape[:-1], dim=proposal.problem.x.dim, like=self._context)
        self._layers, self._base = proposal.model.flows, proposal.model.q0
        bound = bounds(proposal.problem, proposal.bijectors, theta_rows, self._context)
        zeros = [self._context.new_zeros(b.width) for b in proposal.bijectors]
        # Bijectors of the coordinates, what they read, and their bounds.
        self._columns = [
            (b, b.prepare(zero), None if bound is None else bound[i])
            for i, (b, zero) in enumerate(zip(proposal.bijectors, zeros, strict=True))
        ]

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self._in_pieces(self._forward, z.reshape(self.cases, -1, self.dim))

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(*self.batch_shape, *x.shape[-2:]).reshape(self.cases, -1, self.dim)
        return self._in_pieces(self._inverse, x)[1]

    def _in_pieces(self, compute: Any, points: Tensor) -> tuple[Tensor, Tensor]:
        """Points and log densities that are computed for points (cases, n, D), some at a time."""
        n = points.shape[1] if torch.is_grad_enabled() else max(1, PIECE // max(self.cases, 1))
        pieces = []
        for piece in points.split(n or 1, 1):
            context = self._context[:, None].expand(-1, piece.shape[1], -1).flatten(0, 1)
            pieces.append(compute(piece, context))
        x, log_q = (torch.cat(parts, 1) for parts in zip(*pieces, strict=True))
        return x.reshape(*self.batch_shape, -1, self.dim), log_q.reshape(*self.batch_shape, -1)

    # The layers are called here, one by one: the model's own methods add up log determinants in
    # float32 for weights of any type, and draw from the global generator.
    def _forward(self, u: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.special.ndtri(_open(u.flatten(0, 1)))
        z = self._base.loc + self._base.log_scale.exp() * z
        log_q = self._base.log_prob(z)
        for layer in self._layers:
            z, log_det = layer(z, context=context)
            log_q = log_q - log_det
        z = z.reshape(u.shape)
        log_q = log_q.reshape(u.shape[:-1]) - standard_normal_log_prob(z)
        columns = []
        uniform = _open(torch.special.ndtr(z)).unbind(-1)
        for u_i, (bijector, prepared, bound) in zip(uniform, self._columns, strict=True):
            free, log_quantile = bijector.quantile(u_i, prepared)
            x_i, log_det = bijector.constrained(free, bound)
            columns.append(x_i)
            log_q = log_q - sum(log for log in (log_quantile, log_det) if log is not None)
        return torch.stack(columns, -1), log_q

    def _inverse(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        columns, log_q = [], torch.zeros_like(x[..., 0])
        for x_i, (bijector, prepared, bound) in zip(x.unbind(-1), self._columns, strict=True):
            free, log_free = bijector.unconstrained(x_i, bound)
            u_i, log_det = bijector.cumulative(free, prepared)
            columns.append(u_i)
            log_q = log_q + sum(log for log in (log_free, log_det) if log is not None)
        z = torch.special.ndtri(_open(torch.stack(columns, -1)))
        log_q = (log_q - standard_normal_log_prob(z)).flatten()
        z = z.flatten(0, 1)
        for layer in reversed(self._layers):
            z, log_det = layer.inverse(z, context=context)
            log_q = log_q + log_det
        return x, (log_q + self._base.log_prob(z)).reshape(x.shape[:-1])


def _open(u: Tensor) -> Tensor:
    """Numbers of [0, 1] away from both ends, whose quantiles are infinite."""
    info = torch.finfo(u.dtype)
    return u.clamp(info.tiny, 1 - info.eps / 2)


def neural_spline(
    problem: Problem, *, layers: int, hidden: int, bins: int
) -> nf.ConditionalNormalizingFlow:
    """A neural spline flow of coupling layers, as normflows has it, for two dimensions or more.

    References:
        Durkan, Bekasov, Murray, Papamakarios, Neural Spline Flows, 2019.
        Stimper et al., normflows: A PyTorch Package for Normalizing Flows, JOSS 2023.

    Arguments:
        problem: The problem whose x it proposes.
        layers: Number of coupling layers; every second one transforms the other coordinates.
        hidden: Width of the residual block of each layer's network.
        bins: Number of bins of each spline.
    """
    dim, read = problem.x.dim, sum(v.dim for v in (problem.y, problem.theta) if v is not None)
    stack = [
        nf.flows.CoupledRationalQuadraticSpline(
            dim,
            num_blocks=1,
            num_hidden_channels=hidden,
            num_context_channels=read,
            num_bins=bins,
            tail_bound=REACH,
            reverse_mask=bool(i % 2),
        )
        for i in range(layers)
    ]
    return nf.ConditionalNormalizingFlow(
        nf.distributions.DiagGaussian(dim, trainable=False), stack
    )
