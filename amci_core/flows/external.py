r"""Proposals from elsewhere: functions of y and theta that return a distribution.

A distribution takes all points at a time, draws with the global generator, and outside its support
raises, gives NaN, or gives a finite number, depending on `validate_args` (which importing zuko
switches off for all of them). A `ConditionalDensity` draws with the generator it is given, and is
-inf there. `External` turns one into the other.

Models of normflows can be trained here as well. A model draws and evaluates points of the whole
space, given a context: y and theta. Here its base samples come from the generator that they are
asked of, and its points go to the support of x. Its layers read the context anew at every point,
where our own families prepare it once per (y, theta); they draw a seventh of the points a second.
"""

from __future__ import annotations

__all__ = ["AtContext", "NormflowsProposal"]

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import normflows as nf
import torch
from torch import Tensor

from amci_core.checking import affordable, contradiction, place, places
from amci_core.flows.conditioner import Inputs, flat_cases
from amci_core.flows.density import ConditionalDensity, Proposal, Trainable, TransformedDensity
from amci_core.flows.supports import Coordinates, bounds, coordinate_bijectors
from amci_core.models import Problem
from amci_core.models.densities import standard_normal_log_prob
from amci_core.models.distributions import inside

# For the draws that are compared with log_prob.
SECONDS = 1.0
SUCH_AS = "such as lambda y, theta: flow(y)"


@dataclass(frozen=True)
class External(Proposal):
    """A proposal from elsewhere, see `Proposals.from_distributions`.

    Arguments:
        make: Called with y (*, D_y) and theta (*, D_theta), or None if there is no theta.
        dim: Number of dimensions D of x.
    """

    make: Callable[[Tensor, Tensor | None], Any]
    dim: int

    def __call__(self, y: Tensor, theta: Tensor | None) -> ExternalDensity:
        made = self.make(y.double(), None if theta is None else theta.double())
        return ExternalDensity(made, y.shape[:-1], self.dim)


class ExternalDensity(ConditionalDensity):
    """A distribution from elsewhere, at y and theta of batch shape (*), as estimators need it."""

    def __init__(self, distribution: Any, batch_shape: torch.Size, dim: int) -> None:
        super().__init__(batch_shape)
        self.distribution, self.dim = distribution, dim
        with _seeded(torch.Generator().manual_seed(0)):
            # A point of the support, which replaces those outside.
            self.within = distribution.sample(torch.Size((1,)))

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        with _seeded(generator):
            points = self.distribution.sample(torch.Size((n,)))
        x = points.detach().double().reshape(n, *self.batch_shape, self.dim).movedim(0, -2)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        points = x.expand(*self.batch_shape, *x.shape[-2:]).movedim(-2, 0).double()
        points = points.reshape(len(points), *self.within.shape[1:])
        try:
            there = _inside(self.distribution, points)
        except (AttributeError, NotImplementedError):  # it declares no support
            log_q = self.distribution.log_prob(points)
        else:
            wide = there.reshape(*there.shape, *[1] * (points.ndim - there.ndim))
            log_q = self.distribution.log_prob(torch.where(wide, points, self.within))
            log_q = log_q.masked_fill(~there.reshape(log_q.shape), -torch.inf)
        by_draw: Tensor = log_q.detach().to(x.dtype).reshape(len(points), *self.batch_shape)
        return by_draw.movedim(0, -1)


def _inside(q: Any, points: Tensor) -> Tensor:
    if hasattr(q, "transform") and hasattr(q, "base"):  # a flow of zuko's
        return _inside(q.base, q.transform(points))
    there: Tensor = inside(q, points)
    return there


def external(make: Any, problem: Problem) -> External:
    """A proposal for a problem of a function, see `Proposals.from_distributions`.

    Raises:
        ValueError: it is no function, shapes do not fit, log_prob is NaN, draws contradict
            log_prob, or log_prob integrates to another number than one.
    """
    if not callable(make) or isinstance(make, type):
        raise ValueError(f"expected a function of y and theta, {SUCH_AS}, got {make!r:.60}")
    made = External(make, problem.x.dim)
    generator = torch.Generator().manual_seed(1)
    y, theta = problem.sample_cases(3, generator)
    y, theta = y.double(), None if theta is None else theta.double()
    case = {"y": y[0], "theta": None if theta is None else theta[0]}
    try:
        with torch.no_grad():
            _check(made(y, theta))
            q = made(y[0], case["theta"])
            _check(q)
            n = affordable(made.dim, lambda n: q.draw(n, generator), SECONDS)
            mistake = contradiction(q.draw(n, generator)[0], q.log_prob)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, TypeError):
            reason += f". Pass a function of y and theta, {SUCH_AS}"
        elif "dtype" in reason:
            reason += ". For float32 weights call .double()"
        raise ValueError(reason) from error
    if mistake is not None:
        raise ValueError(f"{mistake[0]}: {mistake[1]}; at {places(**case)}")
    return made


def _check(q: ExternalDensity) -> None:
    """Raises a ValueError if points or log densities have a wrong shape, or one is NaN."""
    shape = (1, *q.batch_shape, q.dim)
    if q.within.shape != shape and (q.dim > 1 or q.within.shape != shape[:-1]):
        raise ValueError(
            f"expected sample((1,)) of shape {shape}, draws first, then the batch of y and "
            f"theta, got {tuple(q.within.shape)}"
        )
    log_q = q.distribution.log_prob(q.within)
    if log_q.numel() != q.batch_shape.numel():
        raise ValueError(
            f"expected log_prob of shape {shape[:-1]}, got {tuple(log_q.shape)}. Join "
            "coordinates with torch.distributions.Independent"
        )
    if log_q.isnan().any():
        at = place(q.within.reshape(-1, q.dim)[0])
        raise ValueError(f"log_prob is NaN at x = {at}. Return -inf outside the support")


class AtContext:
    """The distribution of a conditional flow of normflows, or a posterior of sbi, at a context.

    What sbi calls theta is our x, and its x is our y.

    Arguments:
        flow: A `normflows.ConditionalNormalizingFlow`; a posterior of sbi's NPE, or its density
            estimator. Posteriors that sample by MCMC have no normalized density.
        context: What it reads, (*, C), such as y.

    Example:
        >>> import normflows as nf
        >>> base = nf.distributions.DiagGaussian(1, trainable=False)
        >>> flow = nf.ConditionalNormalizingFlow(base, [])
        >>> AtContext(flow, torch.zeros(3, 2)).sample(torch.Size((5,))).shape
        torch.Size([5, 3, 1])
    """

    def __init__(self, flow: Any, context: Tensor) -> None:
        # sbi's posterior rejects what lies outside of the prior, and then estimates how much it
        # has rejected. Its density estimator is normalized, and such points have weight zero.
        self.flow, self.batch = getattr(flow, "posterior_estimator", flow), context.shape[:-1]
        weights = next(self.flow.parameters(), context)
        self.context = context.reshape(-1, context.shape[-1]).to(weights.dtype)

    def sample(self, shape: torch.Size) -> Tensor:
        if isinstance(self.flow, nf.ConditionalNormalizingFlow):
            rows = self.context.repeat(*shape, 1)
            x = self.flow.sample(len(rows), context=rows)[0]
        else:
            x = self.flow.sample(shape, condition=self.context)
        points: Tensor = x.reshape(*shape, *self.batch, -1)
        return points

    def log_prob(self, x: Tensor) -> Tensor:
        points = x.reshape(len(x), -1, x.shape[-1]).to(self.context.dtype)
        if isinstance(self.flow, nf.ConditionalNormalizingFlow):
            rows = self.context.repeat(len(x), 1)
            log_q = self.flow.log_prob(points.flatten(0, 1), context=rows)
        else:
            log_q = self.flow.log_prob(points, condition=self.context)
        by_draw: Tensor = log_q.reshape(x.shape[:-1])
        return by_draw


@contextmanager
def _seeded(generator: torch.Generator | None) -> Iterator[None]:
    """Seeds the global generator from another one, and sets it back."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


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
