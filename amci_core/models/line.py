r"""Problems of one's own with x on the line: from densities and samplers to everything else."""

from __future__ import annotations

__all__ = ["LineProblem"]

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint, greater_than, less_than

from amci_core.models.base import Problem, strictly_above
from amci_core.models.quadrature import gauss_legendre

PANELS = 24
NODES = 20
# A case's nodes and their values take some ten kilobytes.
CHUNK = 512
PRIOR_DRAWS = 4096


class LineProblem(Problem):
    r"""A problem with one-dimensional x that fills in what can be computed from its densities.

    A subclass declares `name`, `x`, `y`, `theta`, `nonnegative` and `reach`, and defines
    `log_prior`, `log_likelihood`, `f`, `sample_prior`, `sample_likelihood`, `sample_theta` and,
    where f_plus is zero on one side of a bound, `support_plus`. The truth, the constant of the
    SNIS bound and the mismatch come from a quadrature over `reach`, split at that bound: to ten
    digits or so where f is smooth on both sides of it; E|f - mu|, which has a kink, to three.

    Attributes:
        reach: Ends of an interval outside which no posterior and no f p(x, y) has mass to speak
            of.

    Example:
        The notebook `08_your_own_problem` has one in thirty lines.
    """

    reach: tuple[float, float]

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return constraints.real

    def sample_reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        shape = (*y.shape[:-1], n, 1)
        bound, sign = self._bound(theta)
        if bound is None:
            count = int(np.prod(shape))
            x = self.sample_prior(count, generator).to(y.dtype).view(shape)
        else:
            u = torch.rand(shape, dtype=y.dtype, generator=generator, device=y.device)
            excess = -self._spread * torch.log1p(-u)
            bound = sign * bound[..., None, :]
            x = sign * strictly_above(bound + excess, bound)
        return x, self.log_reference(x, y, theta)

    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        bound, sign = self._bound(theta)
        if bound is None:
            return self.log_prior(x)
        excess = (sign * (x - bound[..., None, :])).squeeze(-1) / self._spread
        found: Tensor = (-excess - np.log(self._spread)).masked_fill(excess <= 0, -torch.inf)
        return found

    @property
    def _spread(self) -> float:
        """The prior's standard deviation, about."""
        return float(self.sample_prior(PRIOR_DRAWS, torch.Generator().manual_seed(0)).std())

    def _bound(self, theta: Tensor | None) -> tuple[Tensor | None, int]:
        """Where the support of f_plus begins, (*, 1), and on which side it lies."""
        support = self.support_plus(theta)
        if isinstance(support, type(greater_than(0.0))):
            return support.lower_bound, 1
        if isinstance(support, type(less_than(0.0))):
            return support.upper_bound, -1
        return None, 1

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.log(np.abs(self._integrals(y, theta).mu))

    def _truth_sign(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        return np.sign(self._integrals(y, theta).mu)

    def _expected_deviation(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        return self._integrals(y, theta).deviation

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        return self._integrals(y, theta).mismatch

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        # Along theta where there is one, else along y.
        moved = self.theta if theta is not None else self.y
        assert moved is not None
        low, high = moved.usual_range
        there = torch.full_like(y if theta is None else theta, low + t * (high - low))
        return (there, None) if theta is None else (y, there)

    def _integrals(self, y: Tensor, theta: Tensor | None) -> _Integrals:
        batch = y.shape[:-1]
        y = y.detach().cpu().double().reshape(-1, y.shape[-1])
        cases = [y] if theta is None else [y, theta.detach().cpu().double().reshape(len(y), -1)]
        parts = [
            self._chunk(part[0], part[1] if len(part) > 1 else None)
            for part in zip(*(case.split(CHUNK) for case in cases), strict=True)
        ]
        found = np.concatenate(parts, -1).reshape(3, *batch)
        return _Integrals(*found)

    def _chunk(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        x, log_measure = self._nodes(len(y), theta)
        log_p = self.log_joint(x, y) + log_measure
        f = self.f(x, None if theta is None else theta[:, None, :])
        p = (log_p - torch.logsumexp(log_p, -1, keepdim=True)).exp()
        mu = (p * f).sum(-1)
        deviation = (p * (f - mu[:, None]).abs()).sum(-1)
        size = (p * f.abs()).sum(-1, keepdim=True)
        g = p * f.abs() / size
        mismatch = (g * (f.abs() / size).log()).where(g > 0, 0.0).sum(-1).clamp(min=0)
        return torch.stack([mu, deviation, mismatch]).numpy()

    def _nodes(self, cases: int, theta: Tensor | None) -> tuple[Tensor, Tensor]:
        """Nodes (cases, n, 1) on both sides of f's bound, and their log weights (cases, n)."""
        nodes, weights = (torch.as_tensor(part.copy()) for part in gauss_legendre(NODES))
        steps = torch.arange(PANELS, dtype=torch.float64)[:, None]
        unit = ((steps + (nodes + 1) / 2) / PANELS).reshape(-1)
        weight = (weights / (2 * PANELS)).repeat(PANELS)
        low, high = (torch.full((cases, 1), end, dtype=torch.float64) for end in self.reach)
        bound, _ = self._bound(theta)
        middle = (low + high) / 2 if bound is None else bound
        middle = middle.expand(cases, 1).clamp(*self.reach)
        x = torch.cat([low + (middle - low) * unit, middle + (high - middle) * unit], -1)
        widths = torch.cat([(middle - low) * weight, (high - middle) * weight], -1)
        return x[..., None], widths.log()


class _Integrals(NamedTuple):
    """mu, E|f - mu| and the mismatch, (*) each."""

    mu: NDArray[np.float64]
    deviation: NDArray[np.float64]
    mismatch: NDArray[np.float64]
