r"""What a term is, where its estimate starts, and what an estimate of it says."""

from __future__ import annotations

__all__ = ["Density", "Integrand", "TermEstimate", "TermMethod", "log_mean", "where_finite"]

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint


class TermEstimate(NamedTuple):
    """An estimate of a term, on the log scale, where terms of any size keep their digits.

    Arguments:
        log_value: Logarithm of the estimate, in nats; -inf where it is zero.
        standard_error: Of log_value, in nats: to first order the relative standard error of the
            term. NaN where the draws say nothing of it.
        draws: How often the integrand was evaluated, pilot runs included.
    """

    log_value: float
    standard_error: float
    draws: int

    @property
    def value(self) -> float:
        """The term itself; zero where it underflows."""
        return math.exp(self.log_value)

    def check(self, name: str) -> TermEstimate:
        """Returns itself, or says why it is no estimate of the term of that name.

        Raises:
            ValueError: the logarithm is NaN or +inf, the error is negative or infinite, or the
                draws are no whole number.
        """
        log_value, error = float(self.log_value), float(self.standard_error)
        draws = int(self.draws)
        if math.isnan(log_value) or log_value == math.inf or error < 0 or math.isinf(error):
            raise ValueError(
                f"{name}: expected a log value below infinity and a standard error >= 0 (or NaN), "
                f"got {log_value:g} and {error:g}"
            )
        if draws < 0 or draws != self.draws:
            raise ValueError(f"{name}: expected a whole number of draws, got {self.draws!r}")
        return TermEstimate(log_value, error, draws)


class Density(Protocol):
    """What a method starts from: a proposal, or a reference density, normalised."""

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """n points x (n, D) and their log density (n), in nats."""

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density in nats at points x (n, D), (n); -inf outside the support."""


class TermMethod(Protocol):
    """Turns an integrand and a density to start from into an estimate, reproducible by a seed."""

    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate: ...


@dataclass
class Integrand:
    """What a term integrates, for a single y and theta: f_plus p(x, y), f_minus p(x, y), p(x, y).

    Arguments:
        dim: D, the dimension of x.
        log_value: Its logarithm in nats, (n, D) -> (n); -inf where it is zero.
        support: The set outside which it is zero.
        evaluations: How many points it has been evaluated at.
    """

    dim: int
    log_value: Callable[[Tensor], Tensor]
    support: Constraint
    evaluations: int = field(default=0, init=False)

    @torch.inference_mode()
    def __call__(self, x: Tensor) -> Tensor:
        """The logarithm of the integrand at x (n, D), (n); -inf where x is not finite.

        Raises:
            ValueError: it is NaN or +inf somewhere.
        """
        self.evaluations += len(x)
        value = where_finite(self.log_value, x)
        bad = value.isnan() | (value == torch.inf)
        if bad.any():
            raise ValueError(
                "integrand: expected a logarithm below infinity, "
                f"got {value[bad][0].item():g} at x = {x[bad][0].tolist()}"
            )
        return value


def log_mean(log_w: Tensor) -> tuple[float, float]:
    """The log of the mean of independent weights, in nats, and its standard error.

    The error is NaN for fewer than two weights, and where all of them are zero.

    Arguments:
        log_w: Logarithms of the weights, (n); -inf where one is zero.
    """
    largest = log_w.max()
    if len(log_w) == 0 or largest == -torch.inf:
        return -math.inf, math.nan
    relative = (log_w - largest).exp()
    mean = relative.mean()
    if len(log_w) < 2:
        return float(largest), math.nan
    error = relative.std() / mean / math.sqrt(len(log_w))
    return float(largest + mean.log()), float(error)


def where_finite(log_density: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The log density at x (n, D), (n); -inf where x has overflowed."""
    finite = x.isfinite().all(-1)
    if finite.all():
        return log_density(x)
    value = x.new_full(x.shape[:-1], -torch.inf)
    value[finite] = log_density(x[finite])
    return value
