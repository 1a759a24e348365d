r"""Proposals from elsewhere: of torch.distributions, scipy, zuko, sbi, normflows, or a function.

Every kind is made a function of (y, theta) that gives an object with `sample` and `log_prob`,
as `torch.distributions` has them. Such an object takes all points at a time, draws with the global
generator, and outside its support raises, gives NaN, or gives a finite number, depending on
`validate_args` (which importing zuko switches off for all of them). A `ConditionalDensity` draws
with the generator it is given, and is -inf there. `External` turns one into the other.
"""

from __future__ import annotations

__all__ = ["External", "maker_of"]

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import normflows as nf
import torch
from torch import Size, Tensor
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


class External(Proposal):
    """Makes a proposal of a function from elsewhere, see `Proposals.from_distributions`.

    Arguments:
        name: What messages call it, such as `q1_plus`.
        make: Called with y (*, D_y) and theta (*, D_theta), or None where there is no theta;
            see `maker_of`.
        dim: Number of dimensions D of x.
        dtype: The type that y, theta and x are passed in.

    Raises:
        ValueError: once it is called, what `make` gives has a wrong shape or NaN.
    """

    def __init__(
        self, name: str, make: Maker, dim: int, dtype: torch.dtype = torch.float64
    ) -> None:
        self.name, self.make, self.dim, self.dtype = name, make, dim, dtype

    def __call__(self, y: Tensor, theta: Tensor | None) -> ExternalDensity:
        with _named(self.name):
            made = self.make(y.to(self.dtype), None if theta is None else theta.to(self.dtype))
        made = _Frozen(made, y.shape[:-1]) if _is_frozen(made) else made
        if not (hasattr(made, "sample") and hasattr(made, "log_prob")):
            raise ValueError(
                f"{self.name}: expected a distribution with sample and log_prob, "
                f"got {type(made).__name__}"
            )
        return ExternalDensity(self, made, y.shape[:-1])

    def check(self, problem: Problem) -> None:
        """Compares draws at a case of a problem with log_prob, see `amci_core.checking`.

        Raises:
            ValueError: the draws contradict log_prob, or it integrates to another number than one.
        """
        generator = torch.Generator().manual_seed(1)
        y, theta = problem.sample_cases(1, generator)
        y, theta = y[0].double(), None if theta is None else theta[0].double()
        with torch.no_grad():
            q = self(y, theta)
            n = affordable(self.dim, lambda n: q.draw(n, generator), SECONDS)
            found = contradiction(q.draw(n, generator)[0], q.log_prob)
        if found is not None:
            method, said = found
            at = [f"y = {place(y)}"] * bool(len(y))
            at += [] if theta is None else [f"theta = {place(theta)}"]
            raise ValueError(f"{self.name}: {method}: {said}; at {', '.join(at)}")


class ExternalDensity(ConditionalDensity):
    """A distribution from elsewhere, as estimators need it.

    Arguments:
        proposal: What it came from.
        distribution: The distribution.
        batch_shape: The broadcast batch shape of y and theta.

    Raises:
        ValueError: its points or log densities have a wrong shape or NaN.
    """

    def __init__(self, proposal: External, distribution: Any, batch_shape: torch.Size) -> None:
        super().__init__(batch_shape)
        self.proposal, self.distribution = proposal, distribution
        # A point of the support, which stands in for those outside; drawing it shows the layout.
        self._inside, self._has_axis = self._drawn(1, torch.Generator().manual_seed(0))
        self.log_prob(self._inside)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x = self._drawn(n, generator)[0]
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        name, q = self.proposal.name, self.distribution
        points = self._laid_out(x)
        with _named(name):
            there = _in_support(q, points)
            if there is not None and not there.all():
                within = there[..., None] if there.ndim < points.ndim else there
                points = torch.where(within, points, self._laid_out(self._inside))
            log_q: Tensor = q.log_prob(points)
        expected = points.shape[: 1 + len(self.batch_shape)]
        if self.proposal.dim == 1 and log_q.shape == (*expected, 1):
            log_q = log_q.squeeze(-1)
        if log_q.shape != expected:
            apart = log_q.shape == (*expected, self.proposal.dim)
            raise ValueError(
                f"{name}: expected log_prob of shape {tuple(expected)}, got {tuple(log_q.shape)}"
                + (". Join the coordinates with torch.distributions.Independent" if apart else "")
            )
        log_q = log_q.detach().to(x.dtype)
        if there is not None:
            log_q = log_q.masked_fill(~there.reshape(log_q.shape), -torch.inf)
        if log_q.isnan().any():
            at = points.reshape(*expected, -1)[log_q.isnan()][0].tolist()
            raise ValueError(
                f"{name}: log_prob is NaN at x = {at}. Return -inf outside the support"
            )
        return log_q.movedim(0, -1)

    def _laid_out(self, x: Tensor) -> Tensor:
        """Points (*, n, D) as the distribution takes them, (n, *, D) or (n, *)."""
        points = x.movedim(-2, 0).to(self.proposal.dtype)
        return points if self._has_axis else points.squeeze(-1)

    def _drawn(self, n: int, generator: torch.Generator | None) -> tuple[Tensor, bool]:
        """n points x (*, n, D) in float64, and whether the distribution has the axis D."""
        proposal = self.proposal
        with _named(proposal.name), _seeded(generator):
            points = self.distribution.sample(torch.Size((n,)))
        expected = (n, *self.batch_shape, proposal.dim)
        has_axis = points.shape == expected
        if not has_axis and (proposal.dim > 1 or points.shape != expected[:-1]):
            raise ValueError(
                f"{proposal.name}: expected sample(({n},)) of shape {expected}, draws first, then "
                f"the batch of y and theta, got {tuple(points.shape)}"
            )
        points = points if has_axis else points[..., None]
        return points.detach().double().movedim(0, -2), has_axis


def maker_of(name: str, given: Any, y: Tensor, theta: Tensor | None) -> Maker:
    """A function of y and theta, from what was given for a proposal.

    Arguments:
        name: What messages call it.
        given: See `Proposals.from_distributions`.
        y: y of a case, (D_y,), at which a flow is tried that reads a context of its own.
        theta: theta of it, (D_theta,), or None.

    Raises:
        ValueError: it is nothing that a distribution can be made of.
    """
    # sbi's posterior rejects what lies outside of the prior, and then estimates how much it has
    # rejected. Its density estimator is normalized, and such points have weight zero.
    estimator = getattr(given, "posterior_estimator", given)
    if hasattr(estimator, "condition_shape") and hasattr(estimator, "log_prob"):
        return partial(_SbiAtObservation, estimator)
    if isinstance(given, Distribution) or _is_frozen(given):
        return partial(_the_same, given)
    if isinstance(given, nf.NormalizingFlow):
        return _reading(name, partial(_NormflowsAtContext, given), given, y, theta)
    if callable(given) and not isinstance(given, type):
        body = given.forward if isinstance(given, torch.nn.Module) else given
        try:
            inspect.signature(body).bind(y, theta)
            return cast(Maker, given)
        except TypeError:
            if isinstance(given, torch.nn.Module):  # a flow of zuko's
                return _reading(name, given, given, y, theta)
    got = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise ValueError(
        f"{name}: expected a distribution, or a function of y and theta that returns one, such as "
        f"lambda y, theta: flow(y), got {got}"
    )


def _reading(
    name: str, at: Callable[[Tensor], Any], module: Any, y: Tensor, theta: Tensor | None
) -> Maker:
    """A flow that reads one context: y and theta side by side, or y alone."""
    like = next(module.parameters(), y)
    tried = []
    for reads_theta in (True, False):
        make = _AtContext(at, reads_theta and theta is not None, like.dtype)
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                make(y, theta).sample(Size((1,)))
            return make
        except (RuntimeError, TypeError, ValueError) as error:
            tried.append(str(error).partition("\n")[0])
    numbers = len(y) + (0 if theta is None else len(theta))
    raise ValueError(
        f"{name}: expected a flow with context (y, theta), {numbers} numbers, or y, {len(y)}; it "
        f"raised {tried[0]!r}. For another context pass a function, such as "
        "lambda y, theta: flow(y)"
    )


@dataclass
class _AtContext:
    """Calls a flow with its context, in the type of its weights."""

    at: Callable[[Tensor], Any]
    reads_theta: bool
    dtype: torch.dtype

    def __call__(self, y: Tensor, theta: Tensor | None) -> Any:
        context = y
        if self.reads_theta and theta is not None:
            shape = torch.broadcast_shapes(y.shape[:-1], theta.shape[:-1])
            context = torch.cat([y.expand(*shape, -1), theta.expand(*shape, -1)], -1)
        return self.at(context.to(self.dtype))


class _OfContext:
    """What draws and evaluates rows of points, each with its context of shape (*, C)."""

    def __init__(self, model: Any, context: Tensor) -> None:
        self.model, self.batch = model, context.shape[:-1]
        self.context = context.reshape(-1, context.shape[-1])

    def _rows(self, n: int) -> Tensor:
        return self.context.expand(n, *self.context.shape).flatten(0, 1)


class _NormflowsAtContext(_OfContext):
    """A model of normflows, with context or without."""

    def _given(self, n: int) -> dict[str, Tensor]:
        reads = isinstance(self.model, nf.ConditionalNormalizingFlow)
        return {"context": self._rows(n)} if reads else {}

    def sample(self, sample_shape: Size) -> Tensor:
        (n,) = sample_shape
        x, _ = self.model.sample(n * len(self.context), **self._given(n))
        return cast(Tensor, x).reshape(n, *self.batch, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        rows = value.reshape(-1, value.shape[-1]).to(self.context.dtype)
        found: Tensor = self.model.log_prob(rows, **self._given(len(value)))
        return found.reshape(value.shape[:-1])


class _SbiAtObservation:
    """sbi's density estimator at y (*, D_y); what sbi calls theta is our x, and its x our y."""

    def __init__(self, estimator: Any, y: Tensor, theta: Tensor | None) -> None:
        weights = next(iter(estimator.parameters()), None)
        dtype = torch.float32 if weights is None else weights.dtype
        self._estimator, self._batch = estimator, y.shape[:-1]
        self._y = y.reshape(-1, *estimator.condition_shape).to(dtype)

    def sample(self, sample_shape: Size) -> Tensor:
        found: Tensor = self._estimator.sample(sample_shape, condition=self._y)
        return found.reshape(*sample_shape, *self._batch, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        points = value.reshape(len(value), -1, value.shape[-1]).to(self._y.dtype)
        found: Tensor = self._estimator.log_prob(points, condition=self._y)
        return found.reshape(value.shape[:-1])


def _is_frozen(given: Any) -> bool:
    """Whether it is a frozen distribution of scipy.stats."""
    return hasattr(given, "rvs") and hasattr(given, "logpdf")


def _the_same(given: Any, y: Tensor, theta: Tensor | None) -> Any:
    """A distribution that depends neither on y nor on theta."""
    batch = y.shape[:-1]
    return given if _is_frozen(given) else given.expand((*batch, *given.batch_shape))


@dataclass
class _Frozen:
    """A frozen distribution of scipy.stats, the same for a batch of cases."""

    frozen: Any
    batch: Size

    def sample(self, sample_shape: Size) -> Tensor:
        seed = int(torch.randint(2**32, ()))
        size = (*sample_shape, *self.batch)
        drawn = self.frozen.rvs(size=size, random_state=seed)
        return torch.as_tensor(drawn, dtype=torch.float64).reshape(*size, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        found = torch.as_tensor(self.frozen.logpdf(value.double().numpy()))
        return found.reshape(value.shape[:-1])


@contextmanager
def _seeded(generator: torch.Generator | None) -> Iterator[None]:
    """Has the global generator go on from another one, and then as if nothing had been drawn."""
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Says which proposal failed, and what to do where it computes in another type."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        if "dtype" in reason or "scalar type" in reason:
            reason += ". For float32 weights pass dtype=torch.float32, or call .double()"
        raise ValueError(f"{name}: {reason}") from error


def _in_support(q: Any, x: Tensor) -> Tensor | None:
    """Whether points lie in the support of a distribution, (n, *); None if that is not known."""
    if hasattr(q, "transform") and hasattr(q, "base"):  # a flow of zuko's
        return _in_support(q.base, q.transform(x))
    try:
        return inside(q, x)
    except (AttributeError, NotImplementedError):
        return None
