r"""Sums over the draws of all proposals, from which every moment follows, along their number.

With r_j = q_j / q_m and the terms t = (f_plus, f_minus, 1), a draw adds r_j, r_j^2, r_j z and
r_j z z' to the sums of every proposal j; z = t p / q_j - E, with the estimate E of the terms from
all draws taken off so that no digits are lost where weights are nearly constant.
"""

from __future__ import annotations

__all__ = ["Pooled", "pool", "terms_of"]

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from amci_core.estimators.draws import Array, Draws, Points

# A draw with a larger share than this of a second moment stands apart from the others.
APART = 0.5
# Where p^2 / (q_j q_m) is below this, in nats, it adds nothing to a second moment.
NEGLIGIBLE = -600.0
# One effective draw says nothing about a variance.
LEAST_SPREAD = 1e-9

Indices = NDArray[np.int64]


class Pooled(NamedTuple):
    """Estimates from all draws, for a batch (*) and B numbers of draws.

    Arguments:
        log_scale: Unit of all of them, in nats, (*).
        mean: E1_plus, E1_minus, E2, (*, B, 3).
        covariance: For every proposal present Cov_{q_j}[t w], (*, B, 3, 3).
    """

    log_scale: Array
    mean: Array
    covariance: dict[int, Array]


def pool(draws: Draws, counts: Indices, *, apart: bool) -> Pooled:
    """Pools the first draws of every proposal; see `amci_core.estimators.running_moments`."""
    present = list(draws.present)
    counts = counts[:, present]
    parts = [draws.of(j).first(int(n)) for j, n in zip(present, counts[-1], strict=True)]
    shares = counts[-1] / counts[-1].sum()
    log_joint = np.concatenate([p.log_joint for p in parts], -1)
    log_q = {j: np.concatenate([p.log_q_of(j) for p in parts], -1) for j in present}
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares)
    log_mixture = np.logaddexp.reduce([log_q[j] + log_shares[k] for k, j in enumerate(present)])
    log_scale = (log_joint - log_mixture).max(axis=-1)
    terms = terms_of(parts)
    values = terms * np.exp(log_joint - log_mixture - log_scale[..., None])[..., None, :]

    along = _Along.of([p.n for p in parts], counts, shares)
    mean = along.totals(values)
    under = {}
    for j in present:
        r = np.exp(log_q[j] - log_mixture)
        with np.errstate(divide="ignore", invalid="ignore"):
            centre = mean[-1] / along.totals(r)[-1, ..., None]
        log_w = log_joint - log_q[j] - log_scale[..., None]
        log_second = log_w + log_joint - log_mixture - log_scale[..., None]
        under[j] = _Under.of(r, log_w, log_second, terms, centre=np.nan_to_num(centre))
    lone = _lone(under, along) if apart else []
    mean = mean - sum((draw.of(values) for draw in lone), start=np.zeros(()))
    covariance = {j: _covariance(seen, along, lone) for j, seen in under.items()}
    ndim = log_scale.ndim
    return Pooled(
        log_scale,
        np.moveaxis(mean, 0, ndim),
        {j: np.moveaxis(found, 0, ndim) for j, found in covariance.items()},
    )


def terms_of(parts: Sequence[Points]) -> Array:
    """(f_plus, f_minus, 1) at the points of all parts together, (*, 3, n)."""
    f_plus = np.concatenate([p.f_plus for p in parts], -1)
    terms = np.zeros((*f_plus.shape[:-1], 3, f_plus.shape[-1]))
    terms[..., 0, :] = f_plus
    minus = [p.f_minus for p in parts if p.f_minus is not None]
    if minus:
        terms[..., 1, :] = np.concatenate(minus, -1)
    terms[..., 2, :] = 1
    return terms


class _Along(NamedTuple):
    """Stretches of draws, between one number of draws and the next, of every proposal.

    Arguments:
        stretches: For every proposal its stretches, B of them, in the row of all draws.
        weights: What a draw of a proposal counts for at every number of draws, (B, K): each
            proposal has its share, also where a total is odd.
    """

    stretches: list[list[slice]]
    weights: Array

    @classmethod
    def of(cls, sizes: Sequence[int], counts: Indices, shares: Array) -> _Along:
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        ends = starts + np.vstack([np.zeros_like(starts), counts])
        stretches = [[slice(int(low), int(high)) for low, high in pairwise(row)] for row in ends.T]
        return cls(stretches, shares / np.maximum(counts, 1))

    def totals(self, values: Array, other: Array | None = None, *, power: int = 1) -> Array:
        """Weighted sums over the first draws of values (*, ..., n): (B, *, ...).

        Arguments:
            values: What is summed.
            other: Where given, what is summed are the products values[.., t] other[.., s].
            power: Power of the weights.
        """
        found = []
        for stretches, weights in zip(self.stretches, self.weights.T, strict=True):
            running = np.cumsum(
                [
                    values[..., part].sum(axis=-1)
                    if other is None
                    else values[..., part] @ other[..., part].swapaxes(-1, -2)
                    for part in stretches
                ],
                axis=0,
            )
            found.append(running * weights.reshape(-1, *[1] * (running.ndim - 1)) ** power)
        return np.sum(found, axis=0)

    def any(self, values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether any of the first draws has values (*, ..., n): (B, *, ...)."""
        each = [
            np.logical_or.accumulate([values[..., part].any(axis=-1) for part in stretches])
            for stretches in self.stretches
        ]
        return np.logical_or.reduce(each)


class _Under(NamedTuple):
    """All draws as they look under one proposal.

    Arguments:
        r: q_j / q_m, (*, n).
        z: t w_j - E, (*, 3, n); where r is zero, -E.
        tw: t w_j, (*, 3, n).
        missed: Where a term is not zero and q_j all but is, so that the second moment is infinite,
            (*, 3, n); a point whose p is as small does not count.
    """

    r: Array
    z: Array
    tw: Array
    missed: NDArray[np.bool_]

    @classmethod
    def of(
        cls, r: Array, log_w: Array, log_second: Array, terms: Array, *, centre: Array
    ) -> _Under:
        reached = r > 0
        # Weights of a proposal that all but misses the mass overflow; its covariance is then NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.where(reached, np.exp(np.where(reached, log_w, -np.inf)), 0.0)
            tw = terms * w[..., None, :]
        missed = ~reached & (log_second > NEGLIGIBLE)
        return cls(r, tw - centre[..., None], tw, (terms > 0) & missed[..., None, :])

    def sums(self, along: _Along) -> tuple[Array, Array, Array, Array]:
        """Of r, r^2, r z and r z z', each (B, *, ...)."""
        with np.errstate(over="ignore", invalid="ignore"):
            rz = self.r[..., None, :] * self.z
            return (
                along.totals(self.r),
                along.totals(np.square(self.r), power=2),
                along.totals(rz),
                along.totals(rz, self.z),
            )


class _Lone(NamedTuple):
    """A draw that stands apart, at every number of draws: its place and what it counts for.

    Arguments:
        place: Place in the row of all draws, (B, *).
        weight: Its weight, zero where no draw stands apart, (B, *).
    """

    place: Indices
    weight: Array

    def pick(self, values: Array) -> Array:
        """Values (*, ..., n) at the draw: (B, *, ...)."""
        index = np.moveaxis(self.place, 0, -1)
        more = values.ndim - index.ndim
        index = index.reshape(*index.shape[:-1], *[1] * more, index.shape[-1])
        return np.moveaxis(np.take_along_axis(values, index, axis=-1), -1, 0)

    def of(self, values: Array) -> Array:
        """What the draw adds to the sums of values (*, ..., n): (B, *, ...)."""
        picked = self.pick(values)
        return self.weight.reshape(*self.weight.shape, *[1] * (picked.ndim - self.weight.ndim)) * (
            picked
        )


def _lone(under: dict[int, _Under], along: _Along) -> list[_Lone]:
    """The draws that make up most of a second moment of f_plus w or f_minus w, each once."""
    found: list[_Lone] = []
    for seen in under.values():
        for t in (0, 1):
            with np.errstate(over="ignore", invalid="ignore"):
                h = np.nan_to_num(seen.r * np.square(seen.tw[..., t, :]))
            if not h.any():
                continue
            top, place, weight = _largest(h, along)
            with np.errstate(over="ignore"):
                total = along.totals(h)
            alone = top > APART * total
            for other in found:
                alone &= (place != other.place) | (other.weight == 0)
            found.append(_Lone(place, np.where(alone, weight, 0.0)))
    return found


def _largest(h: Array, along: _Along) -> tuple[Array, Indices, Array]:
    """The largest weighted h of the first draws, its place and its weight, each (B, *)."""
    batch = h.shape[:-1]
    best = [(np.zeros(batch), np.zeros(batch, dtype=np.int64)) for _ in along.stretches]
    tops = []
    for b, weights in enumerate(along.weights):
        for k, stretches in enumerate(along.stretches):
            part = stretches[b]
            if part.stop > part.start:
                place = part.start + h[..., part].argmax(axis=-1)
                value = np.take_along_axis(h, place[..., None], axis=-1)[..., 0]
                old, where = best[k]
                best[k] = (np.maximum(value, old), np.where(value > old, place, where))
        weighted = np.stack([weights[k] * value for k, (value, _) in enumerate(best)])
        k = weighted.argmax(axis=0)
        places = np.stack([place for _, place in best])
        tops.append(
            (
                weighted.max(axis=0),
                np.take_along_axis(places, k[None], axis=0)[0],
                np.asarray(weights)[k],
            )
        )
    top, place, weight = (np.stack(each) for each in zip(*tops, strict=True))
    return top, place, weight


def _covariance(seen: _Under, along: _Along, lone: Sequence[_Lone]) -> Array:
    """Covariance (B, *, 3, 3) of one draw, unbiased, without those that stand apart.

    Infinite for a term that is missed.
    """
    zeroth, zeroth_squared, first, second = seen.sums(along)
    for draw in lone:
        r, z = draw.pick(seen.r), draw.pick(seen.z)
        weighted = draw.weight * r
        zeroth = zeroth - weighted
        zeroth_squared = zeroth_squared - weighted**2
        first = first - weighted[..., None] * z
        second = second - weighted[..., None, None] * z[..., :, None] * z[..., None, :]
    missed = along.any(seen.missed)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = first / zeroth[..., None]
        raw = second / zeroth[..., None, None] - mean[..., :, None] * mean[..., None, :]
        spread = 1 - zeroth_squared / np.square(zeroth)
        found = raw / np.where(spread > LEAST_SPREAD, spread, np.nan)[..., None, None]
    return np.where(missed[..., None] & np.eye(3, dtype=bool), np.inf, found)
