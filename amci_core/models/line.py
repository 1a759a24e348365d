r"""Your own problem with x on the line: its truth follows from densities and samplers."""

from __future__ import annotations

__all__ = ["LineProblem"]

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core.models.base import Array, Problem, written
from amci_core.models.gaussian import strictly_above
from amci_core.models.quadrature import Quadrature

# Cases integrated at a time: with the finest nodes their values take some ten megabytes.
CHUNK = 32
# If the parts of mu differ by a smaller share than the quadrature can tell, mu is zero.
INDISTINCT = 4e-9
# With this log p(x, y), f p(x, y) is below exp(-290) for every f that a float can hold.
NOTHING = -1000.0
# Beyond this any f may overflow.
FARTHEST = 1e30
# Relative error beyond which an integral is refused, and its share that may lie outside `bounds`.
LARGEST_ERROR, OUTSIDE = 1e-5, 1e-8

# What is integrated, under p(x, y): 1, f_plus, f_minus, |f - mu|, and |f| log(|f| / E|f|).
E2, E1_PLUS, E1_MINUS = "E2", "E1_plus", "E1_minus"
DEVIATION, DIVERGENCE = "E|f - mu|", "the mismatch"


class LineProblem(Problem):
    r"""A problem with one-dimensional x that fills in what can be computed from its densities.

    A subclass declares `name`, `x`, `y`, `theta` and `nonnegative`, and defines `log_prior`, `f`,
    `sample_prior`; with y, `log_likelihood` and `sample_likelihood`; with a theta that is not
    uniform, `sample_theta`; and where f_plus is zero outside an interval or on one side of a
    bound, `support_plus`. The truth, the constant of the SNIS bound and the mismatch come from
    double exponential quadrature over the range of x, split at that bound, at the integrand's
    eight highest modes, at the first three places where f changes its sign or jumps from zero, and
    at kinks and jumps elsewhere, of which a piece between these may have a few: to ten digits or
    so where f is smooth between them. Mass beside an infinite end, where floats do not tell points
    apart, counts as an error.

    Attributes:
        bounds: Ends of an interval outside which no posterior and no f p(x, y) has mass, or the
            whole line. It is checked: mass that lies outside is refused.

    Raises:
        ValueError: an integral is not known to a relative error of 1e-5, or more than 1e-8 of a
            term lies outside `bounds`; by the methods that need the integral.

    Warning:
        Modes are looked for on a grid around the prior, and the range is split at 17 quantiles of
        the prior; where f begins or ends is looked for at 4,096 draws of the prior. A mode of
        the likelihood far from the others or far narrower, or a part of f that no such draw meets,
        can be missed in silence beside others: declare it in `support_plus`, or compare with
        `amci.reference_value`.

    Example:
        >>> import math, torch
        >>> from amci_core.models import LineProblem, Variable
        >>> class Square(LineProblem):
        ...     name, nonnegative = "square", True
        ...     x, y, theta = Variable("x", 1, -math.inf, math.inf, "a number"), None, None
        ...     def log_prior(self, x):
        ...         return torch.distributions.Normal(0.0, 1.0).log_prob(x).squeeze(-1)
        ...     def sample_prior(self, n, generator):
        ...         return torch.randn(n, 1, generator=generator)
        ...     def f(self, x, theta):
        ...         return x.square().squeeze(-1)
        >>> round(float(Square().truth()), 9)
        1.0

    See also:
        The notebook `08_your_own_problem`.
    """

    bounds: tuple[float, float] = (-math.inf, math.inf)

    def check(self, y: Any = None, theta: Any = None) -> tuple[Tensor, Tensor | None]:
        if self.x.dim != 1:
            raise ValueError(
                f"x: expected one dimension for a LineProblem, got {self.x.dim}. Use Problem"
            )
        return super().check(y, theta)

    def sample_defensive(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        bound, sign = self._one_sided(y, theta)
        if bound is None:
            return super().sample_defensive(y, theta, n, generator)
        shape = (*y.shape[:-1], n, 1)
        u = torch.rand(shape, dtype=y.dtype, generator=generator, device=y.device)
        excess = -self._spread * torch.log1p(-u)
        bound = sign * bound[..., None, :]
        x = sign * strictly_above(bound + excess, bound)
        return x, self.log_defensive(x, y, theta)

    def defensive_from_uniform(self, y: Tensor, theta: Tensor | None, u: Tensor) -> Tensor | None:
        bound, sign = self._one_sided(y, theta)
        if bound is None:
            return self.prior_from_uniform(u)
        bound = sign * bound[..., None, :]
        return sign * strictly_above(bound - self._spread * u.log(), bound)

    def log_defensive(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        bound, sign = self._one_sided(y, theta)
        if bound is None:
            return self.log_prior(x)
        excess = (sign * (x - bound[..., None, :])).squeeze(-1) / self._spread
        return (-excess - math.log(self._spread)).masked_fill(excess <= 0, -torch.inf)

    @cached_property
    def _prior_draws(self) -> Tensor:
        return self.sample_prior(4096, torch.Generator().manual_seed(0)).double()

    @cached_property
    def _quantiles(self) -> Tensor:
        """17 quantiles of the prior, from its least to its largest draw, evenly spaced, about."""
        return self._prior_draws.quantile(torch.linspace(0, 1, 17, dtype=torch.float64))

    @cached_property
    def _spread(self) -> float:
        """The prior's standard deviation, about."""
        return float(self._prior_draws.std())

    @cached_property
    def _centre_and_scale(self) -> tuple[Tensor, Tensor]:
        """The prior's median and interquartile range, about."""
        low, centre, high = self._quantiles[[4, 8, 12]]
        return centre, (high - low).clamp(min=1e-12)

    def _one_sided(self, y: Tensor, theta: Tensor | None) -> tuple[Tensor | None, int]:
        """Where the support of f_plus begins, (*, 1), and on which side it lies."""
        low, high = self._ends(theta)
        end, own = (high, self.x.ends[1]) if low is None else (low, self.x.ends[0])
        # The end of x's range says nothing of f.
        if end is None or (low is None) == (high is None) or bool((end == float(own[0])).all()):
            return None, 1
        return end.to(y.dtype).expand(*y.shape[:-1], 1), 1 if high is None else -1

    def _ends(self, theta: Tensor | None) -> list[Tensor | None]:
        """Lower and upper end of the support of f_plus, each (*, 1), one number, or None."""
        support = self.support_plus(theta)
        ends = (getattr(support, name, None) for name in ("lower_bound", "upper_bound"))
        return [
            e if e is None or isinstance(e, Tensor) else torch.tensor(e, dtype=torch.float64)
            for e in ends
        ]

    def _log_evidence(self, y: Tensor) -> Array:
        return np.asarray(self._log_integrals([E2], y, None)[0])

    def _log_terms(self, y: Tensor, theta: Tensor | None) -> Array:
        """log E2, log E1_plus and, where f takes both signs, log E1_minus: (terms, *)."""
        terms = [E2, E1_PLUS] if self.nonnegative else [E2, E1_PLUS, E1_MINUS]
        return self._log_integrals(terms, y, theta)

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        log_E2, *sides = self._log_terms(y, theta)
        return tuple(side - log_E2 for side in sides)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        return _log_difference(*self._log_parts(y, theta))

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        log_E2, *sides = self._log_terms(y, theta)
        log_mu, sign = _log_difference(*(side - log_E2 for side in sides))
        mu = sign * np.exp(log_mu)
        (log_sum,) = self._log_integrals([DEVIATION], y, theta, mu)
        # Half of it lies where f < mu, and is lost where mu is too small for a float.
        half = self.nonnegative and (mu == 0) & (sign > 0)
        return np.asarray(log_sum - log_E2 + np.where(half, math.log(2), 0.0))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        # KL(g || p(x | y)) = E_g[log|f| - log E|f|]
        log_E2, *sides = self._log_terms(y, theta)
        log_sum = np.logaddexp.reduce(sides)
        (log_unit,), (value,) = self._integrals([DIVERGENCE], y, theta, log_sum - log_E2)
        # Where f is zero there is no g: NaN.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.maximum(value * np.exp(log_unit - log_sum), 0.0))

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        # Along theta where there is one, else along y.
        moved = self.theta or self.y
        if moved is None:
            raise ValueError(f"mismatch: {self.name} has neither y nor theta to vary")
        low, high = moved.typical
        if not np.isfinite(moved.typical).all():
            raise ValueError(
                f"mismatch: {moved.name} has an infinite range, {written(moved.typical)}. Declare "
                "its typical_range, or define _path"
            )
        there = y if theta is None else theta
        there = moved.nearest(there.new_tensor(low + t * (high - low)).expand_as(there))
        return (there, None) if theta is None else (y, there)

    def _log_integrals(
        self, terms: list[str], y: Tensor, theta: Tensor | None, constant: Array | None = None
    ) -> Array:
        log_units, values = self._integrals(terms, y, theta, constant)
        with np.errstate(divide="ignore"):
            return np.asarray(log_units + np.log(values))

    def _integrals(
        self, terms: list[str], y: Tensor, theta: Tensor | None, constant: Array | None = None
    ) -> Array:
        """Integrals of terms times p(x, y): logarithmic units and values, (2, terms, *)."""
        batch = y.shape[:-1]
        cases = math.prod(batch)
        y = y.detach().cpu().double().reshape(cases, y.shape[-1])
        if theta is not None:
            theta = theta.detach().cpu().double().reshape(cases, theta.shape[-1])
        constants = torch.zeros(cases, 1, dtype=torch.float64)
        if constant is not None:
            constants = torch.as_tensor(np.reshape(constant, (cases, 1)))
        parts = []
        for rows in torch.arange(cases).split(CHUNK):
            chosen = None if theta is None else theta[rows]
            parts.append(self._chunk(terms, y[rows], chosen, constants[rows]))
        return np.concatenate(parts, -1).reshape(2, len(terms), *batch)

    @torch.no_grad()
    def _chunk(self, terms: list[str], y: Tensor, theta: Tensor | None, constant: Tensor) -> Array:
        """Integrals of T terms at C cases: logarithmic units and values, (2, T, C).

        Arguments:
            terms: Their names; the mismatch and E|f - mu| have passes of their own.
            y: (C, D_y).
            theta: (C, D_theta), or None.
            constant: mu for E|f - mu|, log E|f| for the mismatch, (C, 1).
        """

        def case(i: int) -> str:
            values = {"y": y, "theta": theta}
            at = {n: v[i].tolist() for n, v in values.items() if v is not None and v.numel()}
            return ", ".join(f"{n} = {v}" for n, v in at.items()) or "the only case"

        def f(x: Tensor, cases: Tensor) -> Tensor:
            return self.f(x[..., None], None if theta is None else theta[cases, None])

        count, alone = len(y), terms == [E2]
        low, high = torch.from_numpy(self.x.ends)[..., None].expand(2, count, 1)
        first, last = (None, None) if alone else self._ends(theta)
        ends = [end.expand_as(low) for end in (first, last) if end is not None]
        split = Quadrature(*self._centre_and_scale, low, high, ends)
        if not alone:
            level = constant if terms == [DEVIATION] else torch.zeros_like(constant)
            drawn = self._prior_draws[:, 0].expand(count, -1).clamp(low, high)
            x = torch.cat([split.nodes(), drawn], -1).sort(-1).values
            nowhere = (f(x, split.rows) == level).all(-1)
            if nowhere.any() and not ends and terms != [DEVIATION]:
                raise ValueError(
                    f"f: zero at all {x.shape[-1]:,} points at "
                    f"{case(int(nowhere.int().argmax()))}. Declare in support_plus where f > 0"
                )
            split.add_crossings(x, lambda x: (f(x, split.rows) - level).sign())
        # One integral a row: all cases of the first term, then of the others.
        term = torch.arange(len(terms)).repeat_interleave(count)
        low, high = low.repeat(len(terms), 1), high.repeat(len(terms), 1)
        if E1_PLUS in terms:
            own = term[:, None] == terms.index(E1_PLUS)
            bounds = [None if e is None else e.expand(count, 1).repeat(len(terms), 1)
                      for e in (first, last)]  # fmt: skip
            low = low if bounds[0] is None else low.maximum(bounds[0]).where(own, low)
            high = high if bounds[1] is None else high.minimum(bounds[1]).where(own, high)
        kinks = [kink.repeat(len(terms), 1) for kink in split.kinks]
        lines = Quadrature(*self._centre_and_scale, low, high, kinks)

        def integrand(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | float]:
            cases = rows % count
            factor: Tensor | float = 1.0
            log_p = self.log_joint(x[..., None], y[cases])
            if not alone:
                value = f(x, cases)
                log_size = _size(terms, term[rows], value, constant[cases]).log()
                # Where f leaves the range of a float far out in the tail, p leaves nothing of it.
                lost = (log_p == -torch.inf) | (~(log_size < torch.inf) & (log_p < NOTHING))
                log_p = (log_p + log_size).masked_fill(lost, -torch.inf)
                if terms == [DIVERGENCE]:
                    factor = (log_size - constant[cases]).where(value != 0, 0.0)
            bad = ~(log_p < torch.inf)
            within = x[bad & (x >= self.bounds[0]) & (x <= self.bounds[1]) & (x.abs() < FARTHEST)]
            if len(within):
                raise ValueError(
                    f"truth: log_prior, log_likelihood or f is NaN or infinite at x = "
                    f"{float(within[0]):g}. Declare the range of x, or bounds"
                )
            # What is NaN or infinite beyond the bounds, where f may overflow, is zero.
            return log_p.masked_fill(bad, -torch.inf), factor

        log_unit, total, error, outside = lines.integrate(integrand, self.bounds, self._quantiles)
        relative = error / total.abs().clamp(min=1.0 if terms == [DIVERGENCE] else 0.0)
        wrong = ~(relative <= LARGEST_ERROR) & (total != 0)
        if wrong.any():
            i = int(wrong.int().argmax())
            name = terms[term[i]]
            raise ValueError(
                f"truth: the quadrature of {name} has a relative error of {relative[i]:.1g} at "
                f"{case(i % count)}: "
                + ("" if name == E2 else "declare in support_plus where f > 0, ")
                + "use amci.reference_value, or define _log_truth"
            )
        share = outside / total
        if (share > OUTSIDE).any() and terms[0] not in (DIVERGENCE, DEVIATION):
            i = int((share > OUTSIDE).int().argmax())
            raise ValueError(
                f"bounds: {share[i]:.2g} of {terms[term[i]]} lies outside [{self.bounds[0]:g}, "
                f"{self.bounds[1]:g}] at {case(i % count)}. Widen bounds, or leave them out"
            )
        return np.stack([log_unit.numpy(), total.numpy()]).reshape(2, len(terms), count)


def _size(terms: list[str], term: Tensor, f: Tensor, constant: Tensor) -> Tensor:
    """What multiplies p(x, y) in terms (K,) at values of f (K, n)."""
    if terms == [DEVIATION]:
        return (f - constant).abs()
    if terms == [DIVERGENCE]:
        return f.abs()
    sizes = {E2: torch.ones_like(f), E1_PLUS: f.clamp(min=0), E1_MINUS: (-f).clamp(min=0)}
    chosen = torch.stack([sizes[name] for name in terms])
    return chosen[term, torch.arange(len(f))]


def _log_difference(log_plus: Array, log_minus: Array | None = None) -> tuple[Array, Array]:
    """log|E1_plus - E1_minus| and the sign of the difference, which is 0 where it is 0."""
    if log_minus is None:
        return log_plus, np.where(log_plus > -np.inf, 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_size = np.log(-np.expm1(-np.abs(log_plus - log_minus)))
        apart = np.abs(log_plus - log_minus) > INDISTINCT
        sign = np.where(apart, np.nan_to_num(np.sign(log_plus - log_minus)), 0.0)
    return np.where(sign == 0, -np.inf, np.maximum(log_plus, log_minus) + log_size), sign
