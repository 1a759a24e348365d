r"""Tail integrals of Gaussians (section 5.1 of the paper): how much posterior lies above theta?"""

from __future__ import annotations

__all__ = ["GaussianTail"]

import math
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri_exp
from torch import Tensor
from torch.distributions.constraints import Constraint, less_than

from amci_core._arguments import check_count
from amci_core.models.base import Array, Complement, Density, OptimalProposals, Variable
from amci_core.models.densities import DefensiveProblem, GammaExcess, Normal, NormalAbove
from amci_core.models.gaussian import GaussianModel, log_orthant

# Each step shrinks the distance to the mode to a third or less where Sigma_1 >= I.
MODE_STEPS = 12
# For the complement: the largest distance of the threshold below the posterior mean at which half
# of its cases lie, in standard deviations.
MOST_DEPTH = 5.0


class GaussianTail(GaussianModel):
    r"""The posterior mass above a threshold, in D dimensions.

    p(x) = N(0, Sigma_1), p(y | x) = N(x, I), f(x; theta) = 1[x > theta in every coordinate],
    theta uniform on [0, u]^D. In one dimension Sigma_1 = 1 and u = 5; else Sigma_1 = A A^T + I
    with A^T the lower triangle of the D x D matrix whose entries, row by row, grow from 0.20 to
    0.25, and u = 3: the paper's problems where D is 1 or 5.

    The posterior is N(P y, P), so in one dimension mu is 1 - Phi(sqrt(2) (theta - y / 2)); the
    paper prints 1 - Phi(theta). Everything is computed from log survival functions, so that mu
    keeps its digits where 1 - Phi would round to zero. In more dimensions the truth comes from
    quasi-Monte Carlo, to the precision that `truth_error` tells.

    The mismatch control's path goes through the thresholds theta = t (1, ..., 1).

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (gaussian-model).

    See also:
        `amci_core.models.gaussian.log_orthant` for the truth in more than one dimension.

    Arguments:
        dim: D, from 1 to 100.

    Raises:
        ValueError: dim is not a whole number from 1 to 100.
    """

    nonnegative = True
    f_range = (0.0, 1.0)

    def __init__(self, dim: int) -> None:
        check_count("dim", dim, low=1, high=100)
        A = np.tril(np.linspace(0.20, 0.25, dim * dim).reshape(dim, dim)).T
        super().__init__(A @ A.T + np.eye(dim) if dim > 1 else np.eye(1))
        self.name = f"tail-{dim}d"
        words = {1: "one dimension", 5: "five dimensions"}
        self.title = f"Tail integral, {words.get(dim, f'{dim} dimensions')}"
        if dim == 1:
            self.description = (
                "How much of the posterior lies above a threshold? One observation y of a "
                "standard normal x; the further θ lies in the tail, the rarer the event."
            )
            self.formula = (
                r"\mu(y,\theta)=\Pr(x>\theta\mid y)\quad "
                r"=1-\Phi\!\left(\sqrt2\,(\theta-y/2)\right)"
            )
            y_high, y_typical, theta_high = 8.0, (-4.0, 8.0), 5.0
        else:
            self.description = (
                f"How much of the posterior lies above a threshold in every one of {dim} "
                "coordinates at once? The coordinates of x are correlated, each is observed with "
                "noise, and f is 1 only where all of them exceed their own θ."
            )
            self.formula = (
                rf"\mu(y,\theta)=\Pr(x_1>\theta_1,\dots,x_{{{dim}}}>\theta_{{{dim}}}\mid y)"
            )
            # Four standard deviations of a coordinate of y, 1.5 at most in five dimensions.
            y_high, y_typical, theta_high = 12.0, (-6.0, 6.0), 3.0
        observed = "the observation, x plus standard normal noise"
        above = "the threshold above which f is 1"
        ends = 0.0, theta_high
        self.x = Variable("x", dim, -math.inf, math.inf, "the unknown quantity")
        self.y = Variable("y", dim, -y_high, y_high, observed, typical_range=y_typical)
        self.theta = Variable("theta", dim, *ends, above, typical_range=ends)
        precision = np.linalg.inv(self.posterior_covariance)
        eigenvalues = np.linalg.eigvalsh(precision)
        self._mode_step = np.eye(dim) - 2 / (eigenvalues[0] + eigenvalues[-1]) * precision

    # theta is a tensor: `check` has refused a missing one.
    def f(self, x: Tensor, theta: Any) -> Tensor:
        return torch.gt(x, theta).all(-1).to(x.dtype)

    def defensive(self, y: Tensor, theta: Any) -> GammaExcess:
        # The mean excess over theta grows like the distance of g's mode above theta.
        excess = self._mode(self.posterior_mean(y), theta) - theta
        return GammaExcess(theta, excess + y.new_tensor(self.posterior_covariance).diag())

    def optimal_proposals(self) -> OptimalProposals:
        # In more dimensions the truncated posterior has no closed form.
        if self.dim > 1:
            return {"q2": self.posterior}
        return {
            "q1_plus": self._truncated_posterior,
            "q2": self.posterior,
            "q1_complement": self.complement().defensive,
        }

    def complement(self) -> TailComplement:
        return TailComplement(self)

    def _truncated_posterior(self, y: Tensor, theta: Tensor | None) -> Density:
        return NormalAbove(self.posterior_mean(y), float(self.posterior_cholesky[0, 0]), theta)

    def _mode(self, mean: Tensor, theta: Tensor) -> Tensor:
        # The point of x >= theta where the posterior is densest, by projected gradient steps. In
        # one dimension the first step is exact: the larger of mean and theta.
        step = mean.new_tensor(self._mode_step).T
        mode = torch.maximum(mean, theta)
        for _ in range(MODE_STEPS if self.dim > 1 else 0):
            mode = torch.maximum(mean + (mode - mean) @ step, theta)
        return mode

    def _orthant(self, y: Tensor, theta: Any, sign: int = 1) -> tuple[Array, Array]:
        """log Pr(sign x > sign theta | y) and its relative error."""
        mean, bound = (sign * v.cpu().numpy() for v in (self.posterior_mean(y), theta))
        return log_orthant(mean, self.posterior_covariance, bound)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        log_mu = self._orthant(y, theta)[0]
        return log_mu, np.ones_like(log_mu)

    def _truth_error(self, y: Tensor, theta: Tensor | None) -> Array:
        return self._orthant(y, theta)[1]

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        # E|f - mu| = 2 mu (1 - mu) for an indicator; in 1-D, 1 - mu keeps its digits near mu = 1.
        log_mu = self._orthant(y, theta)[0]
        if self.dim == 1:
            return math.log(2) + log_mu + self._orthant(y, theta, sign=-1)[0]
        with np.errstate(divide="ignore"):
            return math.log(2) + log_mu + np.log(-np.expm1(log_mu))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        return -self._orthant(y, theta)[0]

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        low, high = y.new_tensor(self.theta.ends)
        return y, torch.lerp(low, high, t).expand_as(y)


class TailComplement(DefensiveProblem, Complement):
    """The posterior mass that is not above the threshold in every coordinate."""

    original: GaussianTail

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return less_than(theta) if self.original.dim == 1 else self.support

    def sample_cases(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Half from p(y) p(theta), half with most of the posterior above the threshold."""
        y, theta = self.original.sample_cases(n, generator)
        half = n // 2
        u = torch.rand(2, half, y.shape[-1], generator=generator, device=generator.device).to(y)
        y[:half] = y.new_tensor(self.original.y.typical[1]) * u[0]
        scale = y.new_tensor(self.original.posterior_covariance).diag().sqrt()
        above = self.original.posterior_mean(y[:half]) - MOST_DEPTH * u[1] * scale
        theta[:half] = self.original.theta.nearest(above)  # type: ignore[index]
        return y, theta

    def defensive(self, y: Tensor, theta: Any) -> SomeBelow:
        mean = self.original.posterior_mean(y)
        return SomeBelow(mean, y.new_tensor(self.original.posterior_cholesky), theta)


class SomeBelow:
    """The mixture over i of a normal cut to x_i <= theta_i, with weights Phi_i / S.

    Phi_i is the normal's mass there and S the sum of these. At a point with k coordinates below
    their thresholds the density is k / S times the normal's: with the posterior, weights of
    (1 - f) p(x | y) lie between S / D and S. In one dimension it is the optimal proposal.

    Arguments:
        mean: The normal's mean, (*, D).
        cholesky: The Cholesky factor of its covariance P, (D, D).
        theta: The thresholds, (*, D).
    """

    def __init__(self, mean: Tensor, cholesky: Tensor, theta: Tensor) -> None:
        self.batch_shape = mean.shape[:-1]
        self._normal, self._covariance = Normal(mean, cholesky), cholesky @ cholesky.T
        self._mean, self._theta = mean, theta
        self._scale = self._covariance.diag().sqrt()
        self._log_below = torch.special.log_ndtr(((theta - mean) / self._scale).double())  # (*, D)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x = self._normal.draw(n, generator)[0]
        weights = self._log_below.softmax(-1).reshape(-1, x.shape[-1])
        i = torch.multinomial(weights, n, replacement=True, generator=generator)
        i = i.reshape(*self.batch_shape, n, 1)

        def of_i(values: Tensor) -> Tensor:
            return values[..., None, :].expand_as(x).gather(-1, i)

        uniform = 1 - torch.rand(i.shape, dtype=torch.float64, generator=generator).to(x.device)
        log_below = (uniform.log() + of_i(self._log_below)).cpu().numpy()
        z = torch.as_tensor(ndtri_exp(log_below)).to(x)
        x_i = torch.minimum(of_i(self._mean) + of_i(self._scale) * z, of_i(self._theta))
        # The other coordinates follow x_i by their regression on it.
        slope = (self._covariance / self._covariance.diag()[:, None])[i[..., 0]]
        x = (x + slope * (x_i - x.gather(-1, i))).scatter(-1, i, x_i)
        return x, self.log_prob(x)

    def from_uniform(self, u: Tensor) -> None:
        """It takes more than D uniform numbers a point."""

    def log_prob(self, x: Tensor) -> Tensor:
        below = (x <= self._theta[..., None, :]).sum(-1)
        log_weight: Tensor = below.to(x).log() - self._log_below.logsumexp(-1, keepdim=True).to(x)
        return self._normal.log_prob(x) + log_weight
