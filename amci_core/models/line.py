r"""Your own problem with x on the line: its truth follows from densities and samplers."""

from __future__ import annotations

__all__ = ["LineProblem"]

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.integrate import tanhsinh
from scipy.special import logsumexp
from torch import Tensor

from amci_core.models.base import Array, case_text, half_line, written
from amci_core.models.densities import DefensiveProblem, GammaExcess

# Cases integrated at a time.
CHUNK = 32
# First nodes: draws of the prior, and distances from their median in units of their spread.
DRAWS, FAR = 4096, torch.sinh(torch.linspace(-14, 14, 281, dtype=torch.float64))
# Further nodes, so many each, are quantiles of these powers of the integrand: the lower the power,
# the wider is a peak.
POWERS, NODES = [100.0**-k for k in range(7, -1, -1)], 128
# Pieces of equal mass, and places where the integrand begins, ends or changes most.
PIECES, JUMPS = 16, 32
# Pieces are divided into parts, so many times at most, while their doubts are above a share of the
# worst; of an integral with more pieces only the worst, as the others may be rounding.
PARTS, DIVISIONS, SLIGHT, MOST = 4, 25, 1e-8, 128
# Of tanhsinh: errors of a piece, and the least level at which its error estimates begin to hold.
PRECISION: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-13, "minlevel": 4, "maxlevel": 5}
# The relative error beyond which an integral is refused.
LARGEST_ERROR = 1e-6
# If the parts of mu differ by a smaller share than the quadrature can tell, mu is zero.
INDISTINCT = 4e-9
# With this log p(x, y), f p(x, y) is below exp(-290) for every f that a float can hold; beyond
# this x any f may overflow.
NOTHING, FARTHEST = -1000.0, 1e30
# No distances are shorter.
SMALLEST = 1e-300

# The logarithm of an integrand at points x (K, n) of the integrals (K,).
Integrand = Callable[[Tensor, Tensor], Tensor]


class LineProblem(DefensiveProblem):
    r"""A problem with one-dimensional x that fills in what can be computed from its densities.

    A subclass declares `name`, `x`, `y`, `theta` and `nonnegative`, and defines `log_prior`, `f`,
    `sample_prior`; with y, `log_likelihood` and `sample_likelihood`; with a theta that is not
    uniform, `sample_theta`; and where f_plus is zero outside an interval or on one side of a
    bound, `support_plus`. The truth, the constant of the SNIS bound and the mismatch come from
    double exponential quadrature between the ends of f_plus and quantiles of the integrand. Pieces
    that do not converge are halved. The truth has ten digits or so.

    Raises:
        ValueError: an integral is not known to a relative error of 1e-6; by the methods that need
            the integral.

    Warning:
        The first nodes are 4,096 draws of the prior. A far narrower part of f that no draw meets
        can be missed: declare it in `support_plus`, or compare with `amci.reference_value`.

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

    def check(self, y: Any = None, theta: Any = None) -> tuple[Tensor, Tensor | None]:
        if self.x.dim != 1:
            raise ValueError(
                f"x: expected one dimension for a LineProblem, got {self.x.dim}. Use Problem"
            )
        return super().check(y, theta)

    def defensive(self, y: Tensor, theta: Tensor | None) -> GammaExcess | None:
        """Exponential excesses if f_plus lies on one side of a bound, else None: the prior."""
        half = half_line(self.support_plus(theta))
        # The end of x's range says nothing of f.
        if half is None or (half[0] == float(self.x.ends[(1 - half[1]) // 2, 0])).all():
            return None
        bound = half[0].to(y).expand(*y.shape[:-1], 1)
        return GammaExcess(bound, torch.full_like(bound, float(self._prior_draws.std())), half[1])

    @cached_property
    def _prior_draws(self) -> Tensor:
        draws = self.sample_prior(DRAWS, torch.Generator().manual_seed(0))
        return draws.double()[:, 0].sort().values

    @cached_property
    def _first_nodes(self) -> Tensor:
        low, centre, high = self._prior_draws[[DRAWS // 4, DRAWS // 2, 3 * DRAWS // 4]]
        return torch.cat([self._prior_draws, centre + (high - low).clamp(min=1e-12) * FAR])

    def _log_evidence(self, y: Tensor) -> Array:
        return self._log_integral("E2", y, None)

    def _log_sides(self, y: Tensor, theta: Tensor | None) -> list[Array]:
        """log E1_plus and, if f takes both signs, log E1_minus, (*)."""
        sides = [self._log_integral("E1_plus", y, theta, lambda f, _: f.clamp(min=0))]
        if not self.nonnegative:
            sides.append(self._log_integral("E1_minus", y, theta, lambda f, _: (-f).clamp(min=0)))
        zero = np.logical_and.reduce(np.isneginf(sides))
        if zero.any() and all(end.isinf().all() for end in self._support_ends(theta)):
            i = np.unravel_index(zero.argmax(), zero.shape)
            case = case_text(y[i], None if theta is None else theta[i])
            raise ValueError(
                f"f: zero at all nodes at {case}. Declare in support_plus where f > 0"
            )
        return sides

    def _log_parts(self, y: Tensor, theta: Tensor | None) -> tuple[Array, ...]:
        log_E2 = self._log_evidence(y)
        return tuple(side - log_E2 for side in self._log_sides(y, theta))

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        sides = np.stack(self._log_parts(y, theta))
        signs = np.reshape([1.0, -1.0][: len(sides)], (-1, *[1] * (sides.ndim - 1)))
        log_mu, sign = logsumexp(sides, axis=0, b=signs, return_sign=True)
        zero = log_mu <= sides.max(0) + math.log(INDISTINCT)
        return np.where(zero, -np.inf, log_mu), np.where(zero, 0.0, sign)

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        log_mu, sign = self._log_truth(y, theta)
        mu = sign * np.exp(log_mu)
        log_sum = self._log_integral("E|f - mu|", y, theta, lambda f, mu: (f - mu).abs(), mu)
        # Half of it lies where f < mu, and is lost where mu is too small for a float.
        half = self.nonnegative and (mu == 0) & (sign > 0)
        return np.asarray(log_sum - self._log_evidence(y) + np.where(half, math.log(2), 0.0))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        # KL(g || p(x | y)) = E_g[log(|f| / c)] with c = E|f|: c times it is the mean of
        # |f| log(|f| / c) - |f| + c, which is nowhere negative.
        log_sum = np.logaddexp.reduce(self._log_sides(y, theta))

        def size(f: Tensor, log_c: Tensor) -> Tensor:
            f = f.abs()
            return (f.xlogy(f) - f * (log_c + 1) + log_c.exp()).clamp(min=0)

        log_c = np.maximum(log_sum - self._log_evidence(y), -1e300)
        log_total = self._log_integral("the mismatch", y, theta, size, log_c)
        # Where f is zero there is no g: NaN.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.exp(log_total - log_sum))

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

    def _support_ends(self, theta: Tensor | None) -> list[Tensor]:
        """Both ends of the support of f_plus, (*, 1) or one number each."""
        support = self.support_plus(theta)
        names = ("lower_bound", "upper_bound")
        ends = [getattr(support, n, e) for n, e in zip(names, self.x.ends[:, 0], strict=True)]
        return [torch.as_tensor(end, dtype=torch.float64).cpu() for end in ends]

    @torch.no_grad()
    def _log_integral(
        self,
        name: str,
        y: Tensor,
        theta: Tensor | None,
        size: Callable[[Tensor, Tensor], Tensor] | None = None,
        constant: Array | None = None,
    ) -> Array:
        """log of the integral of size(f, constant) p(x, y) over x in nats, (*).

        Arguments:
            name: The integral's name in messages; that of E1_plus is over the support of f_plus.
            y: (*, D_y).
            theta: (*, D_theta), or None.
            size: A function >= 0 of the values of f and of the constant; None for 1.
            constant: A number for each case, (*).
        """
        batch = y.shape[:-1]
        count = math.prod(batch)
        y = y.cpu().double().reshape(count, y.shape[-1])
        theta = None if theta is None else theta.cpu().double().reshape(count, theta.shape[-1])
        constants = torch.as_tensor(np.zeros(count) if constant is None else constant)
        constants = constants.reshape(count, 1)
        range_of_x = torch.from_numpy(self.x.ends).expand(2, count)
        support = range_of_x
        if size is not None:
            ends = self._support_ends(theta)
            support = torch.stack([end.expand(count, 1)[:, 0] for end in ends])

        def integrand(x: Tensor, cases: Tensor) -> Tensor:
            log_p = self.log_joint(x[..., None], y[cases])
            if size is not None:
                f = self.f(x[..., None], None if theta is None else theta[cases, None])
                log_size = size(f, constants[cases]).log()
                # Where f leaves the range of a float far out in the tail, p leaves nothing of it.
                nothing = (log_p == -torch.inf) | (~(log_size < torch.inf) & (log_p < NOTHING))
                log_p = (log_p + log_size).masked_fill(nothing, -torch.inf)
            bad = ~(log_p < torch.inf)
            if (bad & (x.abs() < FARTHEST)).any():
                at = float(x[bad & (x.abs() < FARTHEST)][0])
                raise ValueError(
                    f"truth: log_prior, log_likelihood or f is NaN or infinite at x = {at:g}. "
                    "Declare the range of x"
                )
            return log_p.masked_fill(bad, -torch.inf)

        low, high = support if name == "E1_plus" else range_of_x
        chunks = [
            _log_integrals(integrand, rows, low, high, support, self._first_nodes)
            for rows in torch.arange(count).split(CHUNK)
        ]
        log_value, error = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        wrong = ~(error <= LARGEST_ERROR)
        if wrong.any():
            i = int(wrong.argmax())
            raise ValueError(
                f"truth: the quadrature of {name} has a relative error of {error[i]:.1g} at "
                f"{case_text(y[i], None if theta is None else theta[i])}: "
                + ("" if name == "E2" else "declare in support_plus where f > 0, ")
                + "use amci.reference_value, or define _log_truth"
            )
        return log_value.reshape(batch)


def _log_integrals(
    log_integrand: Integrand, cases: Tensor, low: Tensor, high: Tensor, ends: Tensor, nodes: Tensor
) -> tuple[Array, Array]:
    """log of the integrals of K cases from low to high, and their relative errors, (K,) each.

    References:
        Takahasi, Mori, Double exponential formulas for numerical integration, Publications of the
        Research Institute for Mathematical Sciences 9, 1974.

    Arguments:
        log_integrand: A function of points (K, n) and cases (K,).
        cases: Indices of cases, (K,).
        low: Lower ends of all cases.
        high: Upper ends of all cases.
        ends: Further places where the integrand may jump, (places, all cases).
        nodes: The first nodes, (n,).
    """
    low, high, ends = low[cases, None], high[cases, None], ends[:, cases].T
    x, log_value = _refined(lambda x: log_integrand(x, cases), nodes.clamp(low, high))
    # A lower sum, which no infinite value enters: about the integral.
    log_cells = torch.minimum(log_value[:, 1:], log_value[:, :-1]) + x.diff().log()
    log_unit = log_cells.logsumexp(-1, keepdim=True).nan_to_num(neginf=0.0)
    breaks = [low, high, ends.clamp(low, high), *_breaks(x, log_value)]
    edges = torch.cat(breaks, -1).sort(-1).values

    def in_units(x: Tensor, row: Tensor) -> Tensor:
        return (log_integrand(x.clamp(low[row], high[row]), cases[row]) - log_unit[row]).exp()

    total, error = _sums(in_units, edges)
    # Beside an end other than zero floats do not tell points apart, where a density may be
    # infinite: the mass within a few of them counts as error.
    for end, inwards in ((low, high), (high, low)):
        end = end.clamp(-1 / SMALLEST, 1 / SMALLEST)
        step = (4 * (end.nextafter(inwards) - end).abs()).clamp(SMALLEST, 1 / SMALLEST)
        beside = in_units(end + step * (inwards - end).sign(), torch.arange(len(cases)))
        error += (step * beside)[:, 0]
    relative = (error / total).where(total > 0, 0.0)
    return (total.log() + log_unit[:, 0]).numpy(), relative.numpy()


def _refined(log_integrand: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes (K, n) with further ones where the integrand is, increasing, and its logarithm."""
    x = x.sort(-1).values
    log_value = log_integrand(x)
    for power in POWERS:
        new = _quantiles(x, power * log_value, NODES)
        log_value = torch.cat([log_value, log_integrand(new)], -1)
        x, order = torch.cat([x, new], -1).sort(-1)
        log_value = log_value.gather(-1, order)
    return x, log_value


def _breaks(x: Tensor, log_value: Tensor) -> list[Tensor]:
    """Places between which the integrand, known at nodes (K, n), is about smooth, (K, m) each."""
    # Quantiles of a low power: modes with little mass are in pieces of their own.
    quantiles = [_quantiles(x, power * log_value, PIECES) for power in POWERS[-2:]]
    # Where it begins, ends or changes most between nodes: modes that few nodes have met, too.
    value = (log_value - log_value.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    ends = (log_value == -torch.inf).int().diff() != 0
    at = (value.diff().abs() * x.diff()).masked_fill(ends, torch.inf).topk(JUMPS).indices
    return [*quantiles, x.gather(-1, at), x.gather(-1, at + 1)]


def _quantiles(x: Tensor, log_value: Tensor, n: int) -> Tensor:
    """n quantiles of a density at increasing points x (K, m): (K, n)."""
    value = (log_value - log_value.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    mass = (value[:, 1:] + value[:, :-1]) * x.diff()
    until = mass.cumsum(-1)
    goal = until[:, -1:] * (torch.arange(n, dtype=x.dtype) + 0.5) / n
    at = torch.searchsorted(until, goal).clamp(max=mass.shape[-1] - 1)
    before = (until.gather(-1, at) - goal) / mass.gather(-1, at)
    left, right = x.gather(-1, at), x.gather(-1, at + 1)
    return right.lerp(left, before.nan_to_num(0.0).clamp(0, 1))


def _sums(function: Integrand, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Integrals of a function between increasing edges (K, n), and their errors, (K,) each.

    Pieces on which tanhsinh does not converge are divided.
    """
    row, at = (edges.diff() > 0).nonzero(as_tuple=True)
    left, right = edges[row, at], edges[row, at + 1]
    infinite = (right - left).isinf()
    n = edges.shape[-1]
    width = (edges[:, 3 * n // 4] - edges[:, n // 4]).clamp(min=SMALLEST)
    unit = width[row].where(infinite, right - left)
    # Pieces begin at the end that is nearer to zero, where floats are denser.
    backwards = right.abs() < left.abs()
    start, unit = right.where(backwards, left), (-unit).where(backwards, unit)

    total, error = torch.zeros(2, len(edges), dtype=edges.dtype)
    whole, division, part = unit, 0, torch.arange(PARTS)
    while len(row):
        integral, doubt = _of_pieces(function, row, start, unit, infinite)
        rough = torch.ones_like(infinite)
        if division > 0:
            # Estimates of errors are too low where the parts disagree with the whole.
            difference = (integral.view(-1, PARTS).sum(-1) - whole).abs()
            doubt = doubt.maximum(difference.repeat_interleave(PARTS))
            worst = torch.zeros_like(total).scatter_reduce(0, row, doubt, "amax")[row]
            rough = doubt > (SLIGHT * worst).clamp(min=PRECISION["atol"])
            rough &= (start + unit / PARTS != start) & (division < DIVISIONS)
            crowded = torch.bincount(row[rough], minlength=len(edges))[row] > MOST
            rough &= ~crowded | (doubt > worst / 1000)
            rough &= len(row) <= len(edges) * MOST * PARTS
        total.index_add_(0, row[~rough], integral[~rough])
        error.index_add_(0, row[~rough], doubt[~rough])
        whole, division = integral[rough], division + 1
        # The last part of an infinite piece is infinite, the others are a unit long.
        row, start = row[rough].repeat_interleave(PARTS), start[rough, None]
        unit, infinite = unit[rough, None], infinite[rough, None]
        step = unit.where(infinite, unit / PARTS)
        infinite = infinite & (part == PARTS - 1)
        start, unit = start + step * part, (PARTS * step).where(infinite, step)
        start, unit, infinite = start.flatten(), unit.flatten(), infinite.flatten()
    return total, error


def _of_pieces(
    function: Integrand, row: Tensor, start: Tensor, unit: Tensor, infinite: Tensor
) -> tuple[Tensor, Tensor]:
    """Integrals over x = start + unit u with u from 0 to 1 or to infinity, and their errors."""

    def integrand(u: Array, row: Array, start: Array, unit: Array) -> Array:
        # Nodes u (m, n) of pieces (m, 1), or one node each, (m,).
        rows = torch.from_numpy(row.astype(np.int64).ravel())
        value = function(torch.from_numpy(start + unit * u).view(len(rows), -1), rows)
        return value.numpy().reshape(u.shape) * np.abs(unit)

    pieces = row.numpy(), start.numpy(), unit.numpy()
    end = np.where(infinite, np.inf, 1.0)
    result = tanhsinh(integrand, 0.0, end, args=pieces, **PRECISION)
    return torch.from_numpy(result.integral), torch.from_numpy(result.error)
