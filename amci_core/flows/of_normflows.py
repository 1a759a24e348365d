r"""Models of normflows as proposals that are trained here.

A model draws and evaluates points of the whole space, given a context: y and theta. Here its base
samples come from the generator that they are asked of, and its points go to the support of x. Its
layers read the context anew at every point, where our own families prepare it once per (y, theta);
they draw a seventh of the points a second.
"""

from __future__ import annotations

__all__ = ["NormflowsProposal"]

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
    """A model of normflows at given y and theta.

    Its layers are called one by one: the model's own methods add up log determinants in float32
    for weights of any type, and draw from the global generator.
    """

    network_rows = 1, 1

    def __init__(self, proposal: NormflowsProposal, y: Tensor, theta: Tensor | None) -> None:
        super().__init__(y.shape[:-1], dim=proposal.problem.x.dim, like=y)
        y, theta = flat_cases(y, theta)
        read = theta if theta is None or proposal.reads_theta else theta * 0
        self._context = proposal.inputs.inputs(y, read)
        self._layers, self._base = proposal.model.flows, proposal.model.q0
        bound = bounds(proposal.problem, proposal.bijectors, theta, y)
        # Bijectors of the coordinates, their parameters, and their bounds.
        self._coordinates = [
            (b, b.prepare(y.new_zeros(b.width)), None if bound is None else bound[i])
            for i, b in enumerate(proposal.bijectors)
        ]

    def _forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.special.ndtri(_open(u.flatten(0, 1)))
        z = self._base.loc + self._base.log_scale.exp() * z
        log_q, context = self._base.log_prob(z), self._context_of(u)
        for layer in self._layers:
            z, log_det = layer(z, context=context)
            log_q = log_q - log_det
        z, log_q = z.reshape(u.shape), log_q.reshape(u.shape[:-1])
        log_dets, columns = [standard_normal_log_prob(z)], []
        uniform = _open(torch.special.ndtr(z)).unbind(-1)
        for u_i, (bijector, parameters, bound) in zip(uniform, self._coordinates, strict=True):
            free, log_quantile = bijector.quantile(u_i, parameters)
            x_i, log_det = bijector.constrained(free, bound)
            columns.append(x_i)
            log_dets += [log_quantile, log_det]
        return torch.stack(columns, -1), log_q - sum(log_dets)

    def _log_prob(self, x: Tensor) -> Tensor:
        log_dets, columns = [], []
        for x_i, (bijector, parameters, bound) in zip(
            x.unbind(-1), self._coordinates, strict=True
        ):
            free, log_free = bijector.unconstrained(x_i, bound)
            u_i, log_det = bijector.cumulative(free, parameters)
            columns.append(u_i)
            log_dets += [log_free, log_det]
        z = torch.special.ndtri(_open(torch.stack(columns, -1)))
        log_q: Tensor = (sum(log_dets) - standard_normal_log_prob(z)).flatten()
        z, context = z.flatten(0, 1), self._context_of(x)
        for layer in reversed(self._layers):
            z, log_det = layer.inverse(z, context=context)
            log_q = log_q + log_det
        log_q = log_q + self._base.log_prob(z)
        return log_q.reshape(x.shape[:-1])

    def _context_of(self, points: Tensor) -> Tensor:
        return self._context.repeat_interleave(points.shape[1], 0)


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
