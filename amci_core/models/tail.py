r"""Tail integrals of Gaussians (section 5.1 of the paper): how much posterior lies above theta?"""

from __future__ import annotations

__all__ = ["GaussianTail", "tail", "tail_1d", "tail_5d"]

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions.constraints import Constraint, greater_than

from amci_core.checks import check_count
from amci_core.models.base import Array, Density, OptimalProposals, Variable
from amci_core.models.gaussian import GaussianModel, NormalAbove, strictly_above
from amci_core.models.orthant import log_orthant

HALF_NORMAL_LOG_CONSTANT = 0.5 * math.log(2 / math.pi)
# Each step shrinks the distance to the mode to a third or less where Sigma_1 >= I.
MODE_STEPS = 12


class GaussianTail(GaussianModel):
    r"""The posterior mass above a threshold, in D dimensions.

    p(x) = N(0, Sigma_1), p(y | x) = N(x, I), f(x; theta) = 1[x > theta in every coordinate],
    theta uniform on [0, u]^D. The posterior is N(P y, P), so in one dimension with Sigma_1 = 1 mu
    is 1 - Phi(sqrt(2) (theta - y / 2)); the paper prints 1 - Phi(theta). Everything is computed
    from log survival functions, so that mu keeps its digits where 1 - Phi would round to zero.
    In more dimensions the truth comes from quasi-Monte Carlo, to the precision that `truth_error`
    tells.

    The mismatch control's path goes through the thresholds theta = t (1, ..., 1).

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (gaussian-model).

    See also:
        `amci_core.models.orthant` for the truth in more than one dimension.

    Arguments:
        covariance: Sigma_1, shape (D, D).
        name: The problem's registered name.
        title: Its name for people.
        description: What it asks, in a sentence or two.
        formula: mu(y, theta) in TeX.
        theta_high: u, the largest threshold.
        y_high: Coordinates of y lie in [-y_high, y_high].
        y_shown: The usual range of a coordinate of y.
    """

    nonnegative = True

    def __init__(
        self,
        covariance: Array,
        *,
        name: str,
        title: str,
        description: str,
        formula: str,
        theta_high: float,
        y_high: float,
        y_shown: tuple[float, float],
    ) -> None:
        super().__init__(covariance)
        self.name = name
        self.title = title
        self.description = description
        self.formula = formula
        self.x = Variable("x", self.dim, -math.inf, math.inf, "the unknown quantity")
        self.y = Variable(
            "y",
            self.dim,
            -y_high,
            y_high,
            "the observation, x plus standard normal noise",
            shown=y_shown,
        )
        self.theta = Variable(
            "theta",
            self.dim,
            0.0,
            theta_high,
            "the threshold above which f is 1",
            shown=(0.0, theta_high),
        )
        precision = np.linalg.inv(self.posterior_covariance)
        eigenvalues = np.linalg.eigvalsh(precision)
        step = 2 / (eigenvalues[0] + eigenvalues[-1])
        self._masters["mode_step"] = np.eye(self.dim) - step * precision
        self._masters["posterior_variance"] = np.diag(self.posterior_covariance).copy()

    def truth_error(self, y: Any, theta: Any) -> Array:
        """Relative standard error of `truth`, in the batch shape; 0 in one dimension.

        Raises:
            ValueError: see `check`.
        """
        checked_y, checked_theta = self.check(y, theta)
        assert checked_theta is not None  # `check` has refused a missing theta
        return self._orthant(checked_y, checked_theta)[1]

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x > theta).all(-1).to(x.dtype)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor:
        assert self.theta is not None
        return self.theta.high * torch.rand(
            n, self.dim, dtype=torch.float32, generator=generator, device=generator.device
        )

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return greater_than(theta)

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        # q'(theta, x) = p(theta) HalfNormal(x; theta, 1); p(theta) cancels and f is 1.
        theta = self.sample_theta(n, generator)
        excess = self._standard_normal(n, generator).abs()
        x = strictly_above(theta + excess, theta)
        log_half_normal = (HALF_NORMAL_LOG_CONSTANT - 0.5 * excess.square()).sum(-1)
        return x, theta, self.log_prior(x) - log_half_normal

    def sample_reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        assert theta is not None
        exponential = torch.empty(
            *y.shape[:-1], n, self.dim, dtype=y.dtype, device=generator.device
        ).exponential_(generator=generator)
        bound = theta[..., None, :]
        x = strictly_above(bound + exponential * self._reference_scale(y, theta), bound)
        return x, self.log_reference(x, y, theta)

    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        scale = self._reference_scale(y, theta)
        excess = (x - theta[..., None, :]) / scale
        log_density = (-excess - scale.log()).sum(-1)
        return torch.where((excess > 0).all(-1), log_density, -torch.inf)

    def optimal_proposals(self) -> OptimalProposals:
        # In more dimensions the truncated posterior has no closed form.
        q1 = {"q1_plus": self._truncated_posterior} if self.dim == 1 else {}
        return {**q1, "q2": self.posterior}

    def _truncated_posterior(self, y: Tensor, theta: Tensor | None) -> Density:
        return NormalAbove(self.posterior_mean(y), float(self.posterior_cholesky[0, 0]), theta)

    def _reference_scale(self, y: Tensor, theta: Tensor) -> Tensor:
        # The mean excess over theta grows like the distance of g's mode above theta.
        excess = self._mode(self.posterior_mean(y), theta) - theta
        return (self._constant("posterior_variance", y) + excess)[..., None, :]

    def _mode(self, mean: Tensor, theta: Tensor) -> Tensor:
        # The point of x >= theta where the posterior is densest, by projected gradient steps. In
        # one dimension the first step is exact: the larger of mean and theta.
        contraction = self._constant("mode_step", mean).T
        mode = torch.maximum(mean, theta)
        for _ in range(MODE_STEPS if self.dim > 1 else 0):
            mode = torch.maximum(mean + (mode - mean) @ contraction, theta)
        return mode

    def _orthant(self, y: Tensor, theta: Tensor) -> tuple[Array, Array]:
        mean = self.posterior_mean(y).cpu().numpy()
        return log_orthant(mean, self.posterior_covariance, theta.cpu().numpy())

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        assert theta is not None
        log_mu = self._orthant(y, theta)[0]
        return log_mu, np.ones_like(log_mu)

    def _expected_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        # E|f - mu| = 2 mu (1 - mu) for an indicator; in 1-D, 1 - mu keeps its digits near mu = 1.
        assert theta is not None
        log_mu, _ = self._log_truth(y, theta)
        if self.dim > 1:
            return -2 * np.exp(log_mu) * np.expm1(log_mu)
        log_below = log_orthant(
            -self.posterior_mean(y).cpu().numpy(),
            self.posterior_covariance,
            -theta.cpu().numpy(),
        )[0]
        return 2 * np.exp(log_mu + log_below)

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        return -self._log_truth(y, theta)[0]

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        assert self.theta is not None
        return y, torch.full_like(y, self.theta.low + t * (self.theta.high - self.theta.low))


def tail_1d() -> GaussianTail:
    """The paper's one-dimensional tail integral: Sigma_1 = 1, theta uniform on [0, 5]."""
    return GaussianTail(
        np.eye(1),
        name="tail-1d",
        title="Tail integral, one dimension",
        description="How much of the posterior lies above a threshold? One observation y of a "
        "standard normal x; the further θ lies in the tail, the rarer the event.",
        formula=r"\mu(y,\theta)=\Pr(x>\theta\mid y)=1-\Phi\!\left(\sqrt2\,(\theta-y/2)\right)",
        theta_high=5.0,
        y_high=8.0,
        y_shown=(-4.0, 8.0),
    )


def tail_5d() -> GaussianTail:
    """The paper's five-dimensional tail integral: theta uniform on [0, 3]^5."""
    return _correlated(5, title="Tail integral, five dimensions")


def tail(dim: int) -> GaussianTail:
    """The tail integral in D dimensions, for comparisons over D: the paper's where D is 1 or 5.

    Sigma_1 = A A^T + I with A^T the lower triangle of the D x D matrix whose entries, row by
    row, grow from 0.20 to 0.25: the paper's Sigma_1 where D = 5.

    Raises:
        ValueError: dim is not a whole number from 1 to 100.
    """
    check_count("dim", dim, low=1, high=100)
    if dim == 1:
        return tail_1d()
    return tail_5d() if dim == 5 else _correlated(dim, title=f"Tail integral, {dim} dimensions")


def _correlated(dim: int, *, title: str) -> GaussianTail:
    A = np.tril(np.linspace(0.20, 0.25, dim * dim).reshape(dim, dim)).T
    return GaussianTail(
        A @ A.T + np.eye(dim),
        name=f"tail-{dim}d",
        title=title,
        description=f"How much of the posterior lies above a threshold in every one of {dim} "
        "coordinates at once? The coordinates of x are correlated, each is observed with noise, "
        "and f is 1 only where all of them exceed their own θ.",
        formula=rf"\mu(y,\theta)=\Pr(x_1>\theta_1,\dots,x_{{{dim}}}>\theta_{{{dim}}}\mid y)",
        theta_high=3.0,
        y_high=12.0,
        # Four standard deviations of a coordinate of y, which is 1.5 at most in five dimensions.
        y_shown=(-6.0, 6.0),
    )
