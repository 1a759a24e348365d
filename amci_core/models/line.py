r"""Problems of one's own with x on the line: from densities and samplers to everything else."""

from __future__ import annotations

__all__ = ["LineProblem"]

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.integrate import tanhsinh
from scipy.optimize import elementwise
from torch import Tensor

from amci_core.models.base import Array, Problem, strictly_above

PRIOR_DRAWS = 4096
# Cases integrated together: their nodes and values take some ten megabytes.
CHUNK = 256
# The search for the mode: distances from the prior's median, and from the ends of the domain, in
# units of the prior's spread; then nodes within the bracket, a number of times.
FAR = torch.sinh(torch.linspace(-14, 14, 561, dtype=torch.float64))
NEAR = 2.0 ** torch.arange(-44, 21, dtype=torch.float64)
ZOOMS, ZOOM_NODES = 3, 33
# Beyond this f overflows long after every density has vanished.
LARGEST = 1e150
# Relative error of a term beyond which it is refused, and those at which refinement ends.
LARGEST_ERROR, RELATIVE, ABSOLUTE = 1e-4, 1e-10, 1e-13
# The first level of refinement whose error estimate is believed: from a level or two before it
# came out a thousand times too small.
LEVEL = 4
# Kinks inside the range of x that are looked for.
CROSSINGS = 3
# Share of a term that may lie outside `reach`.
OUTSIDE = 1e-8


class LineProblem(Problem):
    r"""A problem with one-dimensional x that fills in what can be computed from its densities.

    A subclass declares `name`, `x`, `y`, `theta` and `nonnegative`, and defines `log_prior`, `f`,
    `sample_prior`; with y, `log_likelihood` and `sample_likelihood`; with theta, `sample_theta`;
    and where f_plus is zero outside an interval or on one side of a bound, `support_plus`. The
    truth, the constant of the SNIS bound and the mismatch come from tanh-sinh quadrature over the
    range of x, split at that bound and at the integrand's mode: to ten digits or so where f is
    smooth between that bound and its first three zeros.

    Attributes:
        reach: Ends of an interval outside which no posterior and no f p(x, y) has mass, or the
            whole line. It is checked: mass that lies outside is refused.

    Raises:
        ValueError: an integral does not converge, or more than 1e-8 of a term lies outside
            `reach`; by the methods that need the integral.

    Warning:
        The mode is looked for on a grid around the prior. A second mode far from the first, and
        much narrower than its distance, can be missed.

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

    reach: tuple[float, float] = (-math.inf, math.inf)

    def check(self, y: Any = None, theta: Any = None) -> tuple[Tensor, Tensor | None]:
        if self.x.dim != 1:
            raise ValueError(f"x: expected one dimension for a LineProblem, got {self.x.dim}")
        return super().check(y, theta)

    def sample_reference(
        self, y: Tensor, theta: Tensor | None, n: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        bound, sign = self._one_sided(y, theta)
        if bound is None:
            return super().sample_reference(y, theta, n, generator)
        shape = (*y.shape[:-1], n, 1)
        u = torch.rand(shape, dtype=y.dtype, generator=generator, device=y.device)
        excess = -self._spread * torch.log1p(-u)
        bound = sign * bound[..., None, :]
        x = sign * strictly_above(bound + excess, bound)
        return x, self.log_reference(x, y, theta)

    def log_reference(self, x: Tensor, y: Tensor, theta: Tensor | None) -> Tensor:
        bound, sign = self._one_sided(y, theta)
        if bound is None:
            return self.log_prior(x)
        excess = (sign * (x - bound[..., None, :])).squeeze(-1) / self._spread
        return (-excess - math.log(self._spread)).masked_fill(excess <= 0, -torch.inf)

    @cached_property
    def _prior_draws(self) -> Tensor:
        return self.sample_prior(PRIOR_DRAWS, torch.Generator().manual_seed(0)).double()

    @cached_property
    def _spread(self) -> float:
        """The prior's standard deviation, about."""
        return float(self._prior_draws.std())

    def _one_sided(self, y: Tensor, theta: Tensor | None) -> tuple[Tensor | None, int]:
        """Where the support of f_plus begins, (*, 1), and on which side it lies."""
        low, high = self._ends(theta)
        end = high if low is None else low
        if (
            type(self).support_plus is Problem.support_plus
            or end is None
            or None not in (low, high)
        ):
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
        return self._log_integral(_E2, y, None)

    def _log_terms(self, y: Tensor, theta: Tensor | None) -> list[Array]:
        """log E2, log E1_plus and, where f takes both signs, log E1_minus."""
        terms = (_E2, _PLUS) if self.nonnegative else (_E2, _PLUS, _MINUS)
        return [self._log_integral(term, y, theta) for term in terms]

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        log_E2, *sides = self._log_terms(y, theta)
        return tuple(side - log_E2 for side in sides)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        plus, *minus = self._log_parts(y, theta)
        if not minus:
            return plus, np.where(plus > -np.inf, 1.0, 0.0)
        log_mu = np.maximum(plus, minus[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_mu = log_mu + np.log(-np.expm1(-np.abs(plus - minus[0])))
            sign = np.nan_to_num(np.sign(plus - minus[0]))
        return np.where(sign == 0, -np.inf, log_mu), sign

    def _expected_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        log_mu, sign = self._log_truth(y, theta)
        log_sum = self._log_integral(_DEVIATION, y, theta, sign * np.exp(log_mu))
        return np.exp(log_sum - self._log_evidence(y))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        # KL(g || p(x | y)) = E_g[log|f| - log E|f|]
        log_E2, *sides = self._log_terms(y, theta)
        log_sum = np.logaddexp.reduce(sides)
        log_unit, value = self._integral(_DIVERGENCE, y, theta, log_sum - log_E2)
        return np.maximum(value * np.exp(log_unit - log_sum), 0.0)

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        # Along theta where there is one, else along y.
        moved = self.theta or self.y
        if moved is None:
            raise ValueError(f"mismatch: {self.name} has neither y nor theta to move")
        low, high = moved.usual_range
        if not math.isfinite(high - low):
            raise ValueError(
                f"mismatch: the range of {moved.name} has no end, [{low:g}, {high:g}]; give its "
                "usual range as shown, or define _path"
            )
        there = torch.full_like(y if theta is None else theta, low + t * (high - low))
        return (there, None) if theta is None else (y, there)

    def _log_integral(
        self, term: _Term, y: Tensor, theta: Tensor | None, constant: Array | None = None
    ) -> Array:
        log_unit, value = self._integral(term, y, theta, constant)
        with np.errstate(divide="ignore"):
            return log_unit + np.log(value)

    def _integral(
        self, term: _Term, y: Tensor, theta: Tensor | None, constant: Array | None = None
    ) -> tuple[Array, Array]:
        """The integral of a term times p(x, y): its logarithmic unit and its value, (*) each."""
        batch = y.shape[:-1]
        cases = math.prod(batch)
        y = y.detach().cpu().double().reshape(cases, y.shape[-1])
        if theta is not None:
            theta = theta.detach().cpu().double().reshape(cases, theta.shape[-1])
        constants = torch.zeros(cases, 1, dtype=torch.float64)
        if constant is not None:
            constants = torch.as_tensor(np.reshape(constant, (cases, 1)))
        parts = []
        for start in range(0, cases, CHUNK):
            rows = slice(start, start + CHUNK)
            chosen = None if theta is None else theta[rows]
            parts.append(_Integrand(self, term, y[rows], chosen, constants[rows]).integral())
        log_unit, value = np.concatenate(parts, -1).reshape(2, *batch)
        return log_unit, value


class _Term(NamedTuple):
    """What is integrated, as a name and as an envelope and a factor; see `_Integrand.values`."""

    name: str


_E2, _PLUS, _MINUS = _Term("E2"), _Term("E1_plus"), _Term("E1_minus")
_DEVIATION, _DIVERGENCE = _Term("E|f - mu|"), _Term("the mismatch")


class _Integrand:
    """A term times p(x, y) over the range of x, for cases y (C, D_y), theta (C, D_theta).

    Arguments:
        problem: The problem.
        term: What is integrated.
        y: As above.
        theta: As above, or None.
        constant: mu for E|f - mu|, log E|f| for the mismatch, (C, 1).
    """

    def __init__(
        self, problem: LineProblem, term: _Term, y: Tensor, theta: Tensor | None, constant: Tensor
    ) -> None:
        self.problem, self.term = problem, term
        self.y, self.theta, self.constant = y, theta, constant
        self.cases = len(y)
        low, high = (torch.full_like(constant, e) for e in (problem.x.low, problem.x.high))
        ends = [] if term is _E2 else [e for e in problem._ends(theta) if e is not None]
        self.kinks = [e.expand(self.cases, 1).clamp(low, high) for e in ends]
        if term is _PLUS:
            first, last = problem._ends(theta)
            low = low if first is None else low.maximum(first)
            high = high if last is None else high.minimum(last)
        self.low, self.high = low, high

    def values(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The log envelope, in nats, and the factor at points x (A, n) of the cases rows (A,)."""
        points = x.clamp(-LARGEST, LARGEST)[..., None]
        log_p = self.problem.log_joint(points, self.y[rows])
        factor = torch.ones_like(log_p)
        if self.term is _E2:
            return log_p, factor
        f = self.f(points, rows)
        constant = self.constant[rows]
        if self.term is _DEVIATION:
            size = (f - constant).abs()
        else:
            size = f.clamp(min=0) if self.term is _PLUS else (-f).clamp(min=0)
            size = f.abs() if self.term is _DIVERGENCE else size
        log_size = size.log()
        if self.term is _DIVERGENCE:
            factor = (log_size - constant).where(size > 0, 0.0)
        # Where p vanishes f may overflow.
        return (log_p + log_size).where(log_p > -torch.inf, -torch.inf), factor

    def f(self, points: Tensor, rows: Tensor) -> Tensor:
        """f at points (A, n, 1) of the cases rows (A,): (A, n)."""
        return self.problem.f(points, None if self.theta is None else self.theta[rows][:, None])

    def crossings(self, x: Tensor) -> list[Tensor]:
        """Where f crosses zero, or mu for E|f - mu|: the first kinks among nodes (C, n)."""
        if self.term is _E2:
            return []
        level = self.constant if self.term is _DEVIATION else torch.zeros_like(self.constant)

        def above(u: Array, case: Array) -> Array:
            rows = torch.as_tensor(case.astype(int)).reshape(-1)
            points = torch.as_tensor(u).reshape(len(rows), -1, 1)
            return (self.f(points, rows) - level[rows]).numpy().reshape(u.shape)

        signs = (self.f(x[..., None], torch.arange(self.cases)) - level).sign()
        changes = signs[:, 1:] * signs[:, :-1] < 0
        found = []
        for _ in range(CROSSINGS):
            rows = changes.any(-1).nonzero().squeeze(-1)
            if not len(rows):
                break
            at = changes[rows].int().argmax(-1, keepdim=True)
            changes[rows[:, None], at] = False
            ends = (x[rows].gather(-1, at + k).squeeze(-1).numpy() for k in (0, 1))
            root = elementwise.find_root(above, tuple(ends), args=(rows.double().numpy(),)).x
            kink = self.low.clone()
            kink[rows, 0] = torch.as_tensor(root)
            found.append(kink)
        return found

    def envelope(self, x: Tensor) -> Tensor:
        """The log envelope at points (C, n) within the domain.

        Raises:
            ValueError: it is NaN or infinite within reach.
        """
        value, _ = self.values(x, torch.arange(self.cases))
        low, high = self.problem.reach
        bad = value.isnan() | (value == torch.inf)
        within = bad & (x >= low) & (x <= high)
        if within.any():
            raise ValueError(
                f"truth: log_prior, log_likelihood or f is not a number or infinite at x = "
                f"{float(x[within][0]):g}; declare the range of x or reach"
            )
        return value.masked_fill(bad, -torch.inf)

    def mode(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the envelope is largest, how far it extends, and its logarithm, (C, 1) each."""
        draws = self.problem._prior_draws
        centre = draws.median()
        quartiles = draws.quantile(torch.tensor([0.25, 0.75], dtype=torch.float64))
        spread = (quartiles[1] - quartiles[0]).clamp(min=1e-12)
        nodes = [(centre + spread * FAR).expand(self.cases, -1)]
        nodes += [end + spread * NEAR for end in (self.low, *self.kinks) if end.isfinite().all()]
        nodes += [end - spread * NEAR for end in (self.high, *self.kinks) if end.isfinite().all()]
        x = torch.cat(nodes, -1).clamp(self.low, self.high).sort(-1).values
        self.kinks += self.crossings(x)
        for zoom in range(ZOOMS + 1):
            best, at = self.envelope(x).max(-1, keepdim=True)
            mode = x.gather(-1, at)
            left, right = (x.gather(-1, (at + k).clamp(0, x.shape[-1] - 1)) for k in (-1, 1))
            if zoom < ZOOMS:
                x = torch.lerp(left, right, torch.linspace(0, 1, ZOOM_NODES, dtype=x.dtype))
        # The first distance, on either side, at which the envelope has fallen by a nat.
        extent = torch.zeros_like(mode)
        for side in (-1, 1):
            x = (mode + side * spread * NEAR).clamp(self.low, self.high)
            fallen = self.envelope(x) < best - 1
            first = torch.where(fallen.any(-1), fallen.int().argmax(-1), len(NEAR) - 1)
            extent = extent.maximum((x.gather(-1, first[:, None]) - mode).abs())
        return mode, extent.clamp(min=1e-300), best

    def integral(self) -> Array:
        """The logarithmic unit of the integral and its value, (2, C).

        Raises:
            ValueError: it does not converge, or lies partly outside `reach`.
        """
        mode, extent, best = self.mode()
        empty = (best == -torch.inf).squeeze(-1)
        best = best.where(best > -torch.inf, 0.0)
        reach = [mode.new_tensor(e) for e in self.problem.reach if math.isfinite(e)]
        breaks = [self.low, self.high, mode, *self.kinks, *reach]
        edges = torch.cat([e.expand_as(mode).clamp(self.low, self.high) for e in breaks], -1)
        edges = edges.sort(-1).values
        steps = ((edges - mode) / extent).numpy()
        pieces = steps.shape[-1] - 1

        def density(u: Array, case: Array) -> Array:
            rows = torch.as_tensor(case.astype(int)).reshape(-1)
            at = torch.as_tensor(u).reshape(len(rows), -1)
            log_value, factor = self.values(mode[rows] + extent[rows] * at, rows)
            value = (log_value - best[rows]).exp() * factor
            return value.where(log_value > -torch.inf, 0.0).numpy().reshape(u.shape)

        found = tanhsinh(
            density,
            steps[:, :-1].ravel(),
            steps[:, 1:].ravel(),
            args=(np.repeat(np.arange(self.cases, dtype=np.float64), pieces),),
            rtol=RELATIVE,
            atol=ABSOLUTE,
            minlevel=LEVEL,
        )
        by_piece = found.integral.reshape(-1, pieces)
        value, error = by_piece.sum(-1), found.error.reshape(-1, pieces).sum(-1)
        value[empty.numpy()] = 0.0
        self._check(value, error, by_piece, edges.numpy())
        return np.stack([(best + extent.log()).squeeze(-1).numpy(), value])

    def _check(self, value: Array, error: Array, by_piece: Array, edges: Array) -> None:
        size = np.maximum(np.abs(value), 1.0 if self.term is _DIVERGENCE else 0.0)
        wrong = ~(error <= LARGEST_ERROR * size) & (value != 0)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"truth: the quadrature of {self.term.name} has a relative error of "
                f"{error[i] / size[i]:.1g} at {self._case(i)}; say in support_plus where f "
                "begins, or define _log_truth"
            )
        low, high = self.problem.reach
        outside = (edges[:, 1:] <= low) | (edges[:, :-1] >= high)
        with np.errstate(invalid="ignore"):
            share = np.abs(np.where(outside, by_piece, 0.0)).sum(-1) / value
        if self.term in (_E2, _PLUS, _MINUS) and (share > OUTSIDE).any():
            i = int(np.nanargmax(share))
            raise ValueError(
                f"reach: {share[i]:.2g} of {self.term.name} lies outside [{low:g}, {high:g}] at "
                f"{self._case(i)}; widen reach or leave it out"
            )

    def _case(self, i: int) -> str:
        values = {"y": self.y, "theta": self.theta}
        given = {n: v[i].tolist() for n, v in values.items() if v is not None and v.numel()}
        return ", ".join(f"{n} = {v}" for n, v in given.items()) or "the only case"
