r"""Tail integrals of Gaussians (section 5.1 of the paper): how much posterior lies above theta?"""

from __future__ import annotations

__all__ = ["GaussianTail", "tail_1d"]

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp
from torch import Tensor
from torch.distributions.constraints import Constraint, greater_than

from amci_core.models.base import (
    Preset,
    Problem,
    Variable,
    standard_normal_log_prob,
    strictly_above,
)

HALF_NORMAL_LOG_CONSTANT = 0.5 * math.log(2 / math.pi)


class GaussianTail(Problem):
    r"""The posterior mass above a threshold.

    p(x) = N(0, 1), p(y | x) = N(x, 1), f(x; theta) = 1[x > theta], theta uniform on [0, u]. The
    posterior is N(y / 2, 1 / 2), so mu = 1 - Phi(sqrt(2) (theta - y / 2)); the paper prints
    1 - Phi(theta). Everything is computed from log survival functions, so that mu keeps its digits
    where 1 - Phi would round to zero.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (gaussian-model).

    Arguments:
        name: The problem's registered name.
        title: Its name for people.
        theta_high: u, the largest threshold.
        presets: Points (y, theta) worth looking at.
    """

    nonnegative = True
    posterior_scale = math.sqrt(0.5)

    def __init__(
        self, *, name: str, title: str, theta_high: float, presets: tuple[Preset, ...] = ()
    ) -> None:
        self.name = name
        self.title = title
        self.description = (
            "How much of the posterior lies above a threshold? One observation y of a standard "
            "normal x; the further θ lies in the tail, the rarer the event."
        )
        self.formula = (
            r"\mu(y,\theta)=\Pr(x>\theta\mid y)=1-\Phi\!\left(\sqrt2\,(\theta-y/2)\right)"
        )
        self.x = Variable("x", 1, -math.inf, math.inf, "the unknown quantity")
        self.y = Variable(
            "y", 1, -8.0, 8.0, "the observation, x plus standard normal noise", shown=(-4.0, 8.0)
        )
        self.theta = Variable(
            "theta",
            1,
            0.0,
            theta_high,
            "the threshold above which f is 1",
            shown=(0.0, theta_high),
        )
        self.presets = presets

    def log_prior(self, x: Tensor) -> Tensor:
        return standard_normal_log_prob(x)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return standard_normal_log_prob(y - x)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        assert theta is not None  # narrows the type; `check` has refused a missing theta
        return (x > theta).all(-1).to(x.dtype)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(n, 1, dtype=torch.float32, generator=generator, device=generator.device)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=generator.device, dtype=x.dtype)
        return x + noise

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor:
        assert self.theta is not None
        return self.theta.high * torch.rand(
            n, 1, dtype=torch.float32, generator=generator, device=generator.device
        )

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return greater_than(theta)

    def sample_training(
        self, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        # q'(theta, x) = p(theta) HalfNormal(x; theta, 1); p(theta) cancels and f is 1.
        theta = self.sample_theta(n, generator)
        excess = self.sample_prior(n, generator).abs()
        x = strictly_above(theta + excess, theta)
        log_half_normal = HALF_NORMAL_LOG_CONSTANT - 0.5 * excess.square().sum(-1)
        return x, theta, self.log_prior(x) - log_half_normal

    def sample_reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        assert theta is not None
        exponential = torch.empty(
            *y.shape[:-1], n, 1, dtype=y.dtype, device=generator.device
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

    def _reference_scale(self, y: Tensor, theta: Tensor) -> Tensor:
        # The mean excess over theta grows like the posterior mean's distance above theta.
        return (0.5 + (y / 2 - theta).clamp(min=0))[..., None, :]

    def _standardized(self, y: Tensor, theta: Tensor) -> NDArray[np.float64]:
        return ((theta - y / 2) / self.posterior_scale).squeeze(-1).cpu().numpy()

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        assert theta is not None
        return np.asarray(log_ndtr(-self._standardized(y, theta)))

    def _expected_deviation(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        # E|f - mu| = 2 mu (1 - mu) for an indicator.
        assert theta is not None
        a = self._standardized(y, theta)
        return 2 * np.exp(log_ndtr(-a) + log_ndtr(a))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> NDArray[np.float64]:
        return -self._log_truth(y, theta)

    def _at_mismatch(self, y: Tensor, level: float) -> float:
        # mu = exp(-level), so theta = y / 2 + s * (upper quantile of exp(-level)).
        assert self.theta is not None
        theta = y.item() / 2 - self.posterior_scale * float(ndtri_exp(-level))
        return float(np.clip(theta, self.theta.low, self.theta.high))


def tail_1d() -> GaussianTail:
    """The paper's one-dimensional tail integral: theta uniform on [0, 5]."""
    return GaussianTail(
        name="tail-1d",
        title="Tail integral, one dimension",
        theta_high=5.0,
        presets=(
            Preset(
                name="Large mismatch",
                y=(1.0,),
                theta=(3.0,),
                watch="One posterior draw in 4,900 lands above θ: SNIS with q₂ stays near "
                "error 1 for thousands of draws, while AMCI draws where f is.",
            ),
            Preset(
                name="Small mismatch",
                y=(3.0,),
                theta=(0.1,),
                watch="Nearly all of the posterior lies above θ, so q₁ and q₂ look alike: plain "
                "SNIS is good here, and AMCI's lead shrinks to about a factor of ten.",
            ),
            Preset(
                name="Failure: q₂ never arrives",
                y=(-2.0,),
                theta=(3.0,),
                watch="Above θ lies one part in 130 million of the posterior: SNIS with q₂ "
                "answers exactly 0, run after run, with nothing in its draws to warn you.",
            ),
            Preset(
                name="Failure: far from training",
                y=(-4.0,),
                theta=(5.0,),
                variant="paper",
                watch="The paper's proposals were not trained on a y so far below θ: q₁ misses "
                "most of g. AMCI stays far too low however many draws it gets, while its "
                "effective draws and its standard error look fine.",
            ),
            Preset(
                name="Failure: careless sharing",
                y=(1.0,),
                theta=(3.0,),
                alpha=1.0,
                beta=0.5,
                watch="Half of E₂ now comes from q₁, which never sees the bulk of the "
                "posterior: E₂ comes out at half its size and the estimate at twice the truth.",
            ),
        ),
    )
