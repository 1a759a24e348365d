r"""Densities of one coordinate of many, and of a pair: exact where known, else from draws."""

from __future__ import annotations

__all__ = ["MarginalDensities", "marginal_densities"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from scipy.special import entr, log_ndtr, logsumexp, ndtri_exp
from torch import Tensor

from amci_core.estimators.draws import PROPOSALS, Array
from amci_core.flows import Proposals
from amci_core.flows.density import TransformedDensity
from amci_core.flows.layers import ComposedFlow, Triangular
from amci_core.models import Problem
from amci_core.models.gaussian import GaussianModel
from amci_core.models.tail import GaussianTail
from amci_explorer.numbers import Look
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.plane import PlaneDensities
from amci_explorer.numbers.weighted import EDGE, WANTED, ends_of_f, outward, sobol_points, weighted

# Points for a normal cut to an orthant; draws of a proposal whose target is known, and of each
# proposal where it is not.
POINTS, DRAWS, MANY = 256, 512, 512
# Points along an axis, and those more where a density is, for one coordinate and for a pair.
AXIS = {1: (91, 31), 2: (25, 13)}
# The share of a density that an axis may leave out at either end.
TAIL = 2e-3
# Width of a kernel in units of the draws' spread, times n^(-1/9), which suits its order.
WIDTH = 1.1

Along = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class MarginalDensities(LineDensities):
    """Densities of one coordinate, and of a pair of them.

    Arguments:
        plane: The densities of the pair.
    """

    plane: PlaneDensities


@dataclass(frozen=True)
class Normals:
    """A mixture of n normals of one shape in k = 1 or 2 dimensions, cut to an interval each.

    Arguments:
        centres: Their means, (n, k).
        cholesky: The Cholesky factor of their covariance, (k, k).
        weights: Their weights before the cut, (n,).
        low: Lower ends of the cut, (k,).
        high: Upper ends of the cut, (k,).
    """

    centres: Array
    cholesky: Array
    weights: Array
    low: Array
    high: Array

    def on(self, axes: Sequence[Array]) -> Array:
        """The density at points of an axis, (m,), or on a grid of two, (m_2, m_1)."""
        middle = self.centres.mean(0)
        c, x = (self.centres - middle).T, [a - m for a, m in zip(axes, middle, strict=True)]
        precision = np.linalg.inv(self.cholesky @ self.cholesky.T)
        near = [
            np.exp(-0.5 * precision[i, i] * np.square(x[i][:, None] - c[i])) for i in range(len(x))
        ]
        inside = [
            (a > low) & (a < high) for a, low, high in zip(axes, self.low, self.high, strict=True)
        ]
        scale = np.prod(np.diag(self.cholesky)) * (2 * math.pi) ** (len(x) / 2)
        if len(x) == 1:
            return np.asarray(near[0] @ (self.weights / scale) * inside[0])
        # exp(-p (x_1 - c_1)(x_2 - c_2)) is a product of a matrix for each axis.
        p = precision[0, 1]
        first = near[0] * np.exp(p * np.outer(x[0], c[1]))
        second = near[1] * np.exp(p * np.outer(x[1], c[0]))
        density = second * (self.weights * np.exp(-p * c[0] * c[1]) / scale) @ first.T
        return density * np.exp(-p * np.outer(x[1], x[0])) * np.outer(inside[1], inside[0])

    @property
    def ends(self) -> tuple[float, float]:
        """Where one coordinate, of mass one, lies but for `TAIL` at either end."""
        centre, scale = self.centres[:, 0], self.cholesky[0, 0]
        log_mass = log_ndtr((centre - self.low[0]) / scale)
        share, found = self.weights * np.exp(log_mass), []
        for rank in (TAIL, 1 - TAIL):
            at = centre - scale * ndtri_exp(log_mass + math.log1p(-rank))
            order = at.argsort()
            found.append(float(np.interp(rank, share[order].cumsum(), at[order])))
        return found[0], found[1]


class Normal:
    """A normal in many dimensions, cut to x > low in every coordinate.

    Arguments:
        mean: Its mean, (D,).
        covariance: Its covariance before the cut, (D, D).
        low: The cut, (D,); minus infinity for none.
    """

    def __init__(self, mean: Array, covariance: Array, low: Array | None = None) -> None:
        self._mean, self._covariance = mean, covariance
        self._low = np.full(len(mean), -math.inf) if low is None else low

    def along(self, chosen: Along) -> Normals:
        """Its density along one coordinate or two.

        After a cut by the Geweke-Hajivassiliou-Keane estimator with the chosen coordinates last:
        given points of the others they are normal, and cut.
        """
        chosen, mean, covariance = list(chosen), self._mean, self._covariance
        ends = self._low[chosen], np.full(len(chosen), math.inf)
        if np.isneginf(self._low).all():
            cholesky: Any = np.linalg.cholesky(covariance[np.ix_(chosen, chosen)])
            return Normals(mean[None, chosen], cholesky, np.ones(1), *ends)
        # The tightest cuts come first: weights vary less.
        far = (mean - self._low) / np.sqrt(np.diag(covariance))
        others = [i for i in far.argsort().tolist() if i not in chosen]
        order, rest = [*others, *chosen], len(others)
        L: Any = np.linalg.cholesky(covariance[np.ix_(order, order)])
        above, log_u = (mean - self._low)[order], sobol_points(len(order), POINTS).log().numpy().T
        z, logs = np.zeros_like(log_u), []
        for i in range(len(order)):
            logs.append(log_ndtr((above[i] + L[i, :i] @ z[:i]) / L[i, i]))
            z[i] = -ndtri_exp(log_u[i] + logs[-1])
        log_w = np.sum(logs[:rest], 0) - logsumexp(np.sum(logs, 0))
        centres = mean[chosen] + (L[rest:, :rest] @ z[:rest]).T
        return Normals(centres, L[rest:, rest:], np.exp(log_w), *ends)

    def on(self, chosen: Along, axes: Sequence[Array]) -> Array:
        """The density along one coordinate, (m,), or two, (m_2, m_1)."""
        return self.along(chosen).on(axes)

    def span(self, i: int) -> tuple[float, float]:
        """Where a coordinate lies but for `TAIL` at either end."""
        return self.along([i]).ends


@dataclass(frozen=True)
class Drawn:
    """A density that weighted draws show, and what they say of another one, which is known.

    Arguments:
        x: The draws, (n, D).
        weights: Of the density, of sum one, (n,).
        ends: Where it ends: lower and upper ends, (D,) each.
        known: The density that is known.
        others: Weights of that one, of sum one, (n,).
    """

    x: Array
    weights: Array
    ends: tuple[Array, Array]
    known: Normal | None = None
    others: Array | None = None

    def on(self, chosen: Along, axes: Sequence[Array]) -> Array:
        """The same, smoothed but for what the known density explains."""
        chosen = list(chosen)
        x, weights, density = self.x[:, chosen], self.weights, np.zeros(1)
        # Half of the draws say how wide they lie: a few far ones do not.
        spread = np.array([np.ptp(self._quantiles(i, [0.25, 0.75])) for i in chosen]) / 1.35
        width = np.maximum(WIDTH * spread * np.square(weights).sum() ** (1 / 9), 1e-12)
        if self.known is not None and self.others is not None:
            # The regression of one's weights on the other's.
            share = weights @ self.others / np.square(self.others).sum()
            weights = weights - share * self.others
            density = share * self.known.on(chosen, axes)
        low, high = (end[chosen] for end in self.ends)
        for i, end in [*enumerate(low), *enumerate(high)]:
            near = np.abs(x[:, i] - end) < 6 * width[i]
            mirrored = x[near]
            mirrored[:, i] = 2 * end - mirrored[:, i]
            x, weights = np.concatenate([x, mirrored]), np.concatenate([weights, weights[near]])
        # A kernel of the fourth order: a normal one twice, less one with twice its variance.
        for times, wide in ((2, 1.0), (-1, math.sqrt(2))):
            kernel = Normals(x, np.diag(wide * width), times * weights, low, high)
            density = density + kernel.on(axes)
        return np.maximum(density, 0.0)

    def span(self, i: int) -> tuple[float, float]:
        """Where a coordinate lies but for `TAIL` at either end."""
        low, high = self._quantiles(i, [TAIL, 1 - TAIL])
        return float(low), float(high)

    def _quantiles(self, i: int, ranks: list[float]) -> Array:
        order = self.x[:, i].argsort()
        return np.interp(ranks, self.weights[order].cumsum(), self.x[order, i])


def marginal_densities(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None, settings: Look
) -> MarginalDensities:
    """What proposals in many dimensions look like, one coordinate and a pair of them.

    Normals, and normals cut to an orthant, are exact. Of a proposal whose target is known draws
    show what differs. All else comes from draws of all proposals and the defensive density.

    Arguments:
        problem: Any problem.
        proposals: Proposals for it.
        y: Checked, (D_y,).
        theta: Checked, (D_theta,), or None.
        settings: The coordinate and the pair to look at.
    """
    found, doubt, divergence = _found(problem, proposals, y, theta)
    wanted = [found[name] for name in WANTED.values() if name in found] or [*found.values()]

    def seen(chosen: Along) -> tuple[list[Array], list[tuple[float, float]], dict[str, Any]]:
        """The points of each axis and its ends, and the densities there by name."""
        axes, extents = [], []
        for i in chosen:
            spans = [each.span(i) for each in wanted]
            low, high = outward(min(a for a, _ in spans), max(b for _, b in spans), problem, i)
            even, own = AXIS[len(chosen)]
            edges = [end + side * EDGE for end in ends_of_f(problem, theta, i) for side in (-1, 1)]
            parts: list[Any] = [
                np.linspace(low, high, even),
                *(np.linspace(*span, own) for span in spans),
                edges,
            ]
            points: Array = np.unique(np.concatenate(parts))
            axes.append(points[(points >= low) & (points <= high)])
            extents.append((low, high))
        shown = {name: each.on(chosen, axes) for name, each in found.items()}
        for name in doubt:
            shown[name] = np.full([len(axis) for axis in axes[::-1]], math.nan)
        return axes, extents, shown

    one, pair = settings.coordinate, settings.pair
    (x,), (extent,), line = seen([one])
    (first, second), extents, plane = seen(pair)
    bounds = ends_of_f(problem, theta, one)
    common: dict[str, Any] = {
        "variant": proposals.variant,
        "doubt": " ".join(doubt.values()),
        "divergence": divergence,
    }
    return MarginalDensities(
        label=settings.labels[one],
        coordinate=one,
        x=x,
        **line,
        extent=extent,
        threshold=bounds[0] if len(bounds) == 1 else None,
        plane=PlaneDensities(
            x=first,
            y=second,
            labels=tuple(settings.labels[i] for i in pair),
            **plane,
            extent=tuple(extents),
            pair=pair,
            **common,
        ),
        **common,
    )


@singledispatch
def _normals(_: Problem, y: Tensor, theta: Tensor | None) -> dict[str, Normal]:
    """The posterior and g, for the problems where they are normal, or a cut one."""
    return {}


@_normals.register
def _(problem: GaussianModel, y: Tensor, theta: Tensor | None) -> dict[str, Normal]:
    return {"posterior": Normal(problem.posterior_mean(y).numpy(), problem.posterior_covariance)}


@_normals.register
def _(problem: GaussianTail, y: Tensor, theta: Tensor) -> dict[str, Normal]:
    mean, covariance = problem.posterior_mean(y).numpy(), problem.posterior_covariance
    target = Normal(mean, covariance, theta.numpy())
    return {"posterior": Normal(mean, covariance), "target": target}


def _found(
    problem: Problem, proposals: Proposals, y: Tensor, theta: Tensor | None
) -> tuple[dict[str, Normal | Drawn], dict[str, str], float]:
    """All densities by name; why some are not judged, in words; and KL(g || q1), or NaN."""
    model, divergence = getattr(problem, "original", problem), math.nan
    # With another f only the posterior is the original's.
    found: dict[str, Normal | Drawn] = {
        name: normal
        for name, normal in _normals(model, y, theta).items()
        if model is problem or name == "posterior"
    }
    made: Any = proposals.at(y, theta)
    for j, name in enumerate(WANTED):
        proposal, known = proposals.by_name.get(PROPOSALS[j]), found.get(WANTED[name])
        if proposal is None:
            continue
        if _is_normal(proposal):
            corners = torch.cat([torch.zeros(1, problem.x.dim), torch.eye(problem.x.dim)]).to(y)
            mean, *tips = made[j].forward(corners)[0].numpy()
            columns = np.array(tips) - mean
            found[name] = Normal(mean, columns.T @ columns)
        elif isinstance(known, Normal):
            if isinstance(made[j], TransformedDensity):
                x, log_q = made[j].draw_from_uniform(sobol_points(problem.x.dim, DRAWS))
            else:
                x, log_q = made[j].draw(DRAWS, torch.Generator().manual_seed(0))
            log_p = problem.log_joint(x, y)
            if name != "q2":
                log_p = log_p + problem.f(x, theta).log()
            others, even = (log_p - log_q).softmax(-1).numpy(), np.full(DRAWS, 1 / DRAWS)
            if name == "q1":
                divergence = float(math.log(DRAWS) - entr(others).sum())
            ends = _ends(problem, theta, x.numpy())
            found[name] = Drawn(x.numpy(), even, ends, known, others)
    doubt: dict[str, str] = {}
    if not found.keys() >= {"q1", "target", "posterior"}:
        drawn = weighted(problem, proposals, y, theta, draws=MANY, sobol=True)
        for name in drawn.log_weights.keys() - found.keys():
            weights = drawn.weights(name)
            there = weights > 0
            if why := drawn.doubt(name):
                doubt[name] = why
            else:
                ends = _ends(problem, theta, drawn.x[there])
                found[name] = Drawn(drawn.x[there], weights[there], ends)
        if "target" not in doubt:
            divergence = drawn.divergence
    return found, doubt, divergence


def _is_normal(proposal: Any) -> bool:
    """Whether it is an affine map of a standard normal."""
    return (
        isinstance(proposal, ComposedFlow)
        and proposal.base is None
        and all(isinstance(layer, Triangular) for layer in proposal.layers)
    )


def _ends(problem: Problem, theta: Tensor | None, x: Array) -> tuple[Array, Array]:
    """Ends of f's support, and of x's range, that no draw is beyond, (D,) each."""
    found = []
    for i, column in enumerate(x.T):
        ends = np.array([*ends_of_f(problem, theta, i), *problem.x.ends[:, i]])
        low, high = ends[ends <= column.min()], ends[ends >= column.max()]
        found.append((low.max(initial=-math.inf), high.min(initial=math.inf)))
    low, high = np.transpose(found)
    return low, high
