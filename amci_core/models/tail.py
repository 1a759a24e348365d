r"""Tail integrals of Gaussians (section 5.1 of the paper): how much posterior lies above theta?"""

from __future__ import annotations

__all__ = ["GaussianTail"]

import math

import numpy as np
import torch
from scipy.special import ndtri_exp
from torch import Tensor
from torch.distributions.constraints import Constraint, greater_than, less_than

from amci_core._arguments import check_count
from amci_core.models.base import Array, Complement, Density, OptimalProposals, Variable
from amci_core.models.gaussian import (
    GammaExcess,
    GaussianModel,
    Normal,
    NormalAbove,
    log_orthant,
    strictly_above,
)

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
        else:
            self.description = (
                f"How much of the posterior lies above a threshold in every one of {dim} "
                "coordinates at once? The coordinates of x are correlated, each is observed with "
                "noise, and f is 1 only where all of them exceed their own θ."
            )
            self.formula = (
                rf"\mu(y,\theta)=\Pr(x_1>\theta_1,\dots,x_{{{dim}}}>\theta_{{{dim}}}\mid y)"
            )
        # Four standard deviations of a coordinate of y, which is 1.5 at most in five dimensions.
        y_high, y_shown = (8.0, (-4.0, 8.0)) if dim == 1 else (12.0, (-6.0, 6.0))
        theta_high = 5.0 if dim == 1 else 3.0
        seen = "the observation, x plus standard normal noise"
        self.x = Variable("x", dim, -math.inf, math.inf, "the unknown quantity")
        self.y = Variable("y", dim, -y_high, y_high, seen, typical_range=y_shown)
        above = "the threshold above which f is 1"
        self.theta = Variable(
            "theta", dim, 0.0, theta_high, above, typical_range=(0.0, theta_high)
        )
        precision = np.linalg.inv(self.posterior_covariance)
        eigenvalues = np.linalg.eigvalsh(precision)
        step = 2 / (eigenvalues[0] + eigenvalues[-1])
        self._masters["mode_step"] = np.eye(dim) - step * precision
        self._masters["posterior_variance"] = np.diag(self.posterior_covariance).copy()

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None
        return (x > theta).all(-1).to(x.dtype)

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return greater_than(theta)

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        # q'(theta, x) = p(theta) HalfNormal(x; theta, 1); p(theta) cancels and f is 1.
        theta = self.theta.uniform(n, generator)
        excess, log_half_normal = self._half_normal(n, generator)
        x = strictly_above(theta + excess, theta)
        return x, theta, self.log_prior(x) - log_half_normal

    def excess(self, y: Tensor, theta: Tensor | None) -> GammaExcess:
        assert theta is not None
        # The mean excess over theta grows like the distance of g's mode above theta.
        excess = self._mode(self.posterior_mean(y), theta) - theta
        return GammaExcess(theta, self._constant("posterior_variance", y) + excess)

    def optimal_proposals(self) -> OptimalProposals:
        # In more dimensions the truncated posterior has no closed form.
        if self.dim > 1:
            return {"q2": self.posterior}
        below = self.complement().below
        return {"q1_plus": self._truncated_posterior, "q2": self.posterior, "q1_complement": below}

    def complement(self) -> TailComplement:
        return TailComplement(self)

    def _truncated_posterior(self, y: Tensor, theta: Tensor | None) -> Density:
        return NormalAbove(self.posterior_mean(y), float(self.posterior_cholesky[0, 0]), theta)

    def _mode(self, mean: Tensor, theta: Tensor) -> Tensor:
        # The point of x >= theta where the posterior is densest, by projected gradient steps. In
        # one dimension the first step is exact: the larger of mean and theta.
        contraction = self._constant("mode_step", mean).T
        mode = torch.maximum(mean, theta)
        for _ in range(MODE_STEPS if self.dim > 1 else 0):
            mode = torch.maximum(mean + (mode - mean) @ contraction, theta)
        return mode

    def _orthant(self, y: Tensor, theta: Tensor | None, sign: int = 1) -> tuple[Array, Array]:
        """log Pr(sign x > sign theta | y) and its relative error."""
        assert theta is not None
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
        log_rest = self._orthant(y, theta, sign=-1)[0] if self.dim == 1 else _log_rest(log_mu)
        return math.log(2) + log_mu + log_rest

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        return -self._orthant(y, theta)[0]

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        low, high = y.new_tensor(self.theta.ends)
        return y, torch.lerp(low, high, t).expand_as(y)


class TailComplement(Complement):
    """The posterior mass that is not above the threshold in every coordinate.

    Its defensive density is the equal mixture over i, with weights Phi_i / S, of the posteriors
    cut to x_i <= theta_i, Phi_i being their masses and S the sum of these. At a point with k
    coordinates below their thresholds it is k p(x | y) / S, so that weights lie between 1 / D and
    1; in one dimension it is the optimal proposal.
    """

    original: GaussianTail

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return less_than(theta) if self.original.dim == 1 else self.support

    def sample_cases(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Half from p(y) p(theta), half with most of the posterior above the threshold."""
        y, theta = self.original.sample_cases(n, generator)
        assert theta is not None
        u = torch.rand(2, n // 2, y.shape[-1], generator=generator, device=generator.device).to(y)
        y[: n // 2] = y.new_tensor(self.original.y.typical[1]) * u[0]
        scale = self.original._constant("posterior_variance", y).sqrt()
        depth = MOST_DEPTH * u[1]
        above = self.original.posterior_mean(y[: n // 2]) - depth * scale
        theta[: n // 2] = self.original.theta.nearest(above)
        return y, theta

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        density = self.below(y, theta)
        x, log_q = density.draw(n, generator)
        return x, log_q

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        return self.below(y, theta).log_prob(x)

    def below(self, y: Tensor, theta: Tensor | None) -> Density:
        """The defensive density at y (*, D) and theta (*, D)."""
        return _SomeBelow(self.original, y, theta)


class _SomeBelow:
    """The mixture of posteriors, each cut to one coordinate's x_i <= theta_i."""

    def __init__(self, problem: GaussianTail, y: Tensor, theta: Tensor | None) -> None:
        assert theta is not None
        self.batch_shape = y.shape[:-1]
        self._theta, self._mean = theta, problem.posterior_mean(y)
        self._posterior = Normal(self._mean, problem._constant("posterior_cholesky", y))
        self._covariance = problem._constant("posterior_covariance", y)
        self._scale = problem._constant("posterior_variance", y).sqrt()
        ends = ((theta - self._mean) / self._scale).double()
        self._log_below = torch.special.log_ndtr(ends)  # (*, D)
        self._log_total = self._log_below.logsumexp(-1, keepdim=True)

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x = self._posterior.draw(n, generator)[0]
        dim = x.shape[-1]
        weights = (self._log_below - self._log_total).exp().reshape(-1, dim)
        cut = torch.multinomial(weights, n, replacement=True, generator=generator)
        cut = cut.reshape(*self.batch_shape, n, 1)
        uniform = 1 - torch.rand(cut.shape, dtype=torch.float64, generator=generator).to(x.device)
        log_below = self._log_below[..., None, :].expand(*x.shape).gather(-1, cut)
        z = torch.as_tensor(ndtri_exp((uniform.log() + log_below).cpu().numpy())).to(x)
        mean, end = (
            v[..., None, :].expand_as(x).gather(-1, cut) for v in (self._mean, self._theta)
        )
        own = torch.minimum(mean + self._scale[cut[..., 0]][..., None] * z, end)
        # The other coordinates follow the one that is cut by their regression on it.
        slope = self._covariance[cut[..., 0]] / self._covariance.diag()[cut[..., 0]][..., None]
        x = x + slope * (own - x.gather(-1, cut))
        x = x.scatter(-1, cut, own)
        return x, self.log_prob(x)

    def log_prob(self, x: Tensor) -> Tensor:
        below = (x <= self._theta[..., None, :]).sum(-1)
        log_share: Tensor = below.to(x).log() - self._log_total.to(x)
        return self._posterior.log_prob(x) + log_share


def _log_rest(log_mu: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(log_mu))
