r"""Proposals from elsewhere: of torch.distributions, scipy, zuko, sbi, normflows, or a function.

Every kind is made a function of (y, theta) that gives an object with `sample` and `log_prob`,
as `torch.distributions` has them. Such an object takes all points at a time, draws with the global
generator, and outside its support raises, gives NaN, or gives a finite number, depending on
`validate_args` (which importing zuko switches off for all of them). A `ConditionalDensity` draws
with the generator it is given, and is -inf there. `External` turns one into the other.
"""

from __future__ import annotations

__all__ = ["external"]

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import normflows as nf
import torch
from torch import Tensor
from torch.distributions import Distribution

from amci_core.checking import affordable, contradiction, place
from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.models import Problem
from amci_core.models.distributions import inside

# For the draws that are compared with log_prob.
SECONDS = 1.0
# Gives a distribution of batch shape (*) for y (*, D_y) and theta (*, D_theta): its
# `sample(torch.Size((n,)))` points (n, *, D), its `log_prob` their log density in nats, (n, *).
Maker = Callable[[Tensor, Tensor | None], Any]


@dataclass(frozen=True)
class External(Proposal):
    """A proposal of a function from elsewhere, see `Proposals.from_distributions`.

    Arguments:
        make: Called with y (*, D_y) and theta (*, D_theta), or None if there is no theta.
        dim: Number of dimensions D of x.
        dtype: The type that y, theta and x are passed in.
    """

    make: Maker
    dim: int
    dtype: torch.dtype = torch.float64

    def __call__(self, y: Tensor, theta: Tensor | None) -> ExternalDensity:
        made = self.make(y.to(self.dtype), None if theta is None else theta.to(self.dtype))
        return ExternalDensity(self, made, y.shape[:-1])


class ExternalDensity(ConditionalDensity):
    """A distribution from elsewhere, at y and theta of batch shape (*), as estimators need it.

    Raises:
        ValueError: its points or log densities have a wrong shape, or its log density is NaN.
    """

    def __init__(self, proposal: External, distribution: Any, batch_shape: torch.Size) -> None:
        super().__init__(batch_shape)
        self.dim, self.dtype, self.distribution = proposal.dim, proposal.dtype, distribution
        if not (hasattr(distribution, "sample") and hasattr(distribution, "log_prob")):
            got = type(distribution).__name__
            raise ValueError(f"expected a distribution with sample and log_prob, got {got}")
        with _seeded(torch.Generator().manual_seed(0)):
            # A point of the support, which stands in for those outside.
            self._within = distribution.sample(torch.Size((1,)))
        shape = (1, *batch_shape, self.dim)
        if self._within.shape != shape and (self.dim > 1 or self._within.shape != shape[:-1]):
            raise ValueError(
                f"expected sample((1,)) of shape {shape}, draws first, then the batch of y and "
                f"theta, got {tuple(self._within.shape)}"
            )
        log_q = distribution.log_prob(self._within)
        if log_q.numel() != batch_shape.numel():
            raise ValueError(
                f"expected log_prob of shape {shape[:-1]}, got {tuple(log_q.shape)}"
                + ". Join the coordinates with torch.distributions.Independent"
                * (log_q.shape == shape)
            )
        if log_q.isnan().any():
            raise ValueError(
                f"log_prob is NaN at x = {place(self._within[0].reshape(-1, self.dim)[0])}. "
                "Return -inf outside the support"
            )

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        with _seeded(generator):
            points = self.distribution.sample(torch.Size((n,)))
        x = points.detach().double().reshape(n, *self.batch_shape, self.dim).movedim(0, -2)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        points = x.expand(*self.batch_shape, *x.shape[-2:]).movedim(-2, 0).to(self.dtype)
        points = points.reshape(len(points), *self._within.shape[1:])
        try:
            there = _inside(self.distribution, points)
        except (AttributeError, NotImplementedError):  # it declares no support
            log_q = self.distribution.log_prob(points)
        else:
            wide = there.reshape(*there.shape, *[1] * (points.ndim - there.ndim))
            log_q = self.distribution.log_prob(torch.where(wide, points, self._within))
            log_q = log_q.masked_fill(~there.reshape(log_q.shape), -torch.inf)
        log_q = log_q.detach().to(x.dtype)
        by_draw: Tensor = log_q.reshape(len(points), *self.batch_shape)
        return by_draw.movedim(0, -1)


def _inside(q: Any, points: Tensor) -> Tensor:
    if hasattr(q, "transform") and hasattr(q, "base"):  # a flow of zuko's
        return _inside(q.base, q.transform(points))
    there: Tensor = inside(q, points)
    return there


def external(given: Any, problem: Problem, dtype: torch.dtype) -> External:
    """A proposal for a problem of what was given, see `Proposals.from_distributions`.

    Raises:
        ValueError: it is nothing that a distribution can be made of, shapes do not fit, draws
            contradict log_prob, or log_prob integrates to another number than one.
    """
    generator = torch.Generator().manual_seed(1)
    y, theta = problem.sample_cases(3, generator)
    y, theta = y.double(), None if theta is None else theta.double()
    first = y[0], None if theta is None else theta[0]
    try:
        made = External(_maker(given, *first), problem.x.dim, dtype)
        with torch.no_grad():
            made(y, theta)
            q = made(*first)
            n = affordable(made.dim, lambda n: q.draw(n, generator), SECONDS)
            found = contradiction(q.draw(n, generator)[0], q.log_prob)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        if "dtype" in reason or "scalar type" in reason:
            reason += ". For float32 weights pass dtype=torch.float32, or call .double()"
        raise ValueError(reason) from error
    if found is not None:
        case = {"y": first[0], "theta": first[1]}
        at = [f"{name} = {place(v)}" for name, v in case.items() if v is not None and len(v)]
        raise ValueError(f"{found[0]}: {found[1]}; at {', '.join(at)}")
    return made


def _maker(given: Any, y: Tensor, theta: Tensor | None) -> Maker:
    """A function of y and theta; flows that read one context are tried at a case."""
    # sbi's posterior rejects what lies outside of the prior, and then estimates how much it has
    # rejected. Its density estimator is normalized, and such points have weight zero.
    estimator = getattr(given, "posterior_estimator", given)
    if hasattr(estimator, "condition_shape") and hasattr(estimator, "log_prob"):
        return partial(_at_context, estimator, partial(_Sbi, estimator), False)
    if isinstance(given, Distribution):
        return partial(_constant, given)
    if hasattr(given, "rvs") and hasattr(given, "logpdf"):
        return partial(_Frozen, given)
    if isinstance(given, nf.NormalizingFlow):
        return _reading(given, partial(_Normflows, given), y, theta)
    if callable(given) and not isinstance(given, type):
        try:
            body = given.forward if isinstance(given, torch.nn.Module) else given
            inspect.signature(body).bind(y, theta)
            return cast(Maker, given)
        except TypeError:
            if isinstance(given, torch.nn.Module):  # a flow of zuko's
                return _reading(given, given, y, theta)
    got = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise ValueError(
        "expected a distribution, or a function of y and theta that returns one, such as "
        f"lambda y, theta: flow(y), got {got}"
    )


def _reading(flow: Any, at: Callable[[Tensor], Any], y: Tensor, theta: Tensor | None) -> Maker:
    """A flow that reads y and theta side by side, or y alone: the first that it takes."""
    for reads_theta in (True, False):
        make = partial(_at_context, flow, at, reads_theta)
        failures = suppress(RuntimeError, TypeError, ValueError)
        with failures, torch.random.fork_rng(devices=[]), torch.no_grad():
            make(y, theta).sample(torch.Size((1,)))
            return make
    raise ValueError(
        "expected a flow with context (y, theta) or y. For another context pass a function, such "
        "as lambda y, theta: flow(y)"
    )


def _at_context(
    flow: Any, at: Callable[[Tensor], Any], reads_theta: bool, y: Tensor, theta: Tensor | None
) -> Any:
    """A flow at its context (*, C), in the type of its weights."""
    context = y if theta is None or not reads_theta else torch.cat([y, theta], -1)
    weights = next(flow.parameters(), context)
    return at(context.to(weights.dtype))


def _constant(distribution: Any, y: Tensor, theta: Tensor | None) -> Any:
    return distribution.expand((*y.shape[:-1], *distribution.batch_shape))


@dataclass
class _Frozen:
    """A frozen distribution of scipy.stats, the same at all y and theta."""

    frozen: Any
    y: Tensor
    theta: Tensor | None

    def sample(self, shape: torch.Size) -> Tensor:
        size = (*shape, *self.y.shape[:-1])
        x = self.frozen.rvs(size=size, random_state=int(torch.randint(2**32, ())))
        return torch.as_tensor(x, dtype=torch.float64).reshape(*size, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.frozen.logpdf(x.double().numpy())).reshape(x.shape[:-1])


@dataclass
class _Normflows:
    """A model of normflows at a context (*, C), or without one."""

    model: nf.NormalizingFlow
    context: Tensor

    def _rows(self, n: int) -> dict[str, Tensor]:
        reads = isinstance(self.model, nf.ConditionalNormalizingFlow)
        rows = self.context.expand(n, *self.context.shape).flatten(0, -2)
        return {"context": rows} if reads else {}

    def sample(self, shape: torch.Size) -> Tensor:
        size = torch.Size((*shape, *self.context.shape[:-1]))
        x: Tensor = self.model.sample(size.numel(), **self._rows(*shape))[0]
        return x.reshape(*size, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        points = x.flatten(0, -2).to(self.context.dtype)
        log_q: Tensor = self.model.log_prob(points, **self._rows(len(x)))
        return log_q.reshape(x.shape[:-1])


class _Sbi:
    """sbi's density estimator at y (*, D_y); what sbi calls theta is our x, and its x our y."""

    def __init__(self, estimator: Any, y: Tensor) -> None:
        self.estimator, self.batch = estimator, y.shape[:-1]
        self.condition = y.reshape(-1, *estimator.condition_shape)

    def sample(self, shape: torch.Size) -> Tensor:
        x: Tensor = self.estimator.sample(shape, condition=self.condition)
        return x.reshape(*shape, *self.batch, -1)

    def log_prob(self, x: Tensor) -> Tensor:
        points = x.reshape(len(x), -1, x.shape[-1]).to(self.condition.dtype)
        log_q: Tensor = self.estimator.log_prob(points, condition=self.condition)
        return log_q.reshape(x.shape[:-1])


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
