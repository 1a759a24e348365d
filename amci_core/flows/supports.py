r"""Coordinate bijectors: from the unit interval to the support of a coordinate of x.

Each has two steps. A quantile function with parameters from a network takes the unit interval to
unconstrained space. A bijector without parameters takes that to the support: an excess over a
bound, an exponential, the logistic function. Points and parameters broadcast; coordinates with
equal bijectors can share one call, coordinates first.
"""

from __future__ import annotations

__all__ = ["CoordinateBijector", "Coordinates", "coordinate_bijectors"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions.constraint_registry import biject_to
from torch.distributions.transforms import Transform, identity_transform
from torch.nn.functional import logsigmoid, softplus

from amci_core._arguments import check_name
from amci_core.models import base
from amci_core.models.base import Problem, between
from amci_core.models.densities import strictly_beyond

# For each coordinate of x its kind and numbers, see `coordinate_bijectors`.
Coordinates = Sequence[Mapping[str, Any]]
# Values of a coordinate, and the logarithm of a derivative.
Mapped = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class CoordinateBijector:
    """From the unit interval to the support of a coordinate; each step is the identity at first.

    Attributes:
        width: Number of parameters that the quantile function reads.

    Arguments:
        centre: About the centre of x in unconstrained space.
        scale: About its standard deviation there.
    """

    width: ClassVar[int] = 0

    centre: float = 0.0
    scale: float = 1.0

    def prepare(self, parameters: Tensor) -> Any:
        """What the quantile function needs of the parameters (*, width)."""
        return parameters

    def quantile(self, u: Tensor, prepared: Any) -> Mapped:
        """z of u in (0, 1], and log|dz / du|."""
        return u, torch.zeros_like(u)

    def cumulative(self, z: Tensor, prepared: Any) -> Mapped:
        """u of z, and log|du / dz|."""
        return z, torch.zeros_like(z)

    def constrained(self, z: Tensor, bound: Any = None) -> Mapped:
        """x of z, and log|dx / dz|; half-lines need their bound, (*, cases, 1)."""
        return z, torch.zeros_like(z)

    def unconstrained(self, x: Tensor, bound: Any = None) -> Mapped:
        """z of x, and log|dz / dx|, -inf outside the support."""
        return x, torch.zeros_like(x)


class UnitInterval(CoordinateBijector):
    """The unit interval as it is."""

    def unconstrained(self, x: Tensor, bound: Any = None) -> Mapped:
        return _clamped(x, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Logistic(CoordinateBijector):
    """Scaled and shifted logistic quantiles, then a bijector to the support.

    The logistic's tails are heavier than a Gaussian's, so that weights stay bounded. Parameters:
    shift and logarithm of the scale, softly limited, in units of `scale` about `centre`.

    Arguments:
        low: The lower end of the support, which is open.
        high: The upper end.
        transform: From the real line to the support.
    """

    width = 2
    # The logarithm of the scale is limited to +- this.
    SPREAD: ClassVar[float] = 3.0

    low: float
    high: float
    transform: Transform

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, free = parameters.unbind(-1)
        log_scale = self.SPREAD * torch.tanh(free / self.SPREAD) + math.log(self.scale / 2)
        return self.centre + self.scale * shift, log_scale, log_scale.exp()

    def free_of(self, deviation: Tensor) -> Tensor:
        """The parameter of the scale for a standard deviation, in units of `scale`."""
        log_scale = (deviation * 2 * math.sqrt(3) / math.pi).log() / self.SPREAD
        return self.SPREAD * log_scale.clamp(-0.95, 0.95).atanh()

    def quantile(self, u: Tensor, prepared: Any) -> Mapped:
        shift, log_scale, scale = prepared
        # The end that rounding reaches would be an infinite x.
        u = u.clamp(torch.finfo(u.dtype).tiny, 1 - torch.finfo(u.dtype).eps / 2)
        log_u, log_rest = u.log(), torch.log1p(-u)
        return torch.addcmul(shift, scale, log_u - log_rest), log_scale - log_u - log_rest

    def cumulative(self, z: Tensor, prepared: Any) -> Mapped:
        shift, log_scale, scale = prepared
        standardized = (z - shift) / scale
        return torch.sigmoid(standardized), _log_logistic(standardized) - log_scale

    def constrained(self, z: Tensor, bound: Any = None) -> Mapped:
        x = self.transform(z)
        return x, self.transform.log_abs_det_jacobian(z, x)

    def unconstrained(self, x: Tensor, bound: Any = None) -> Mapped:
        inside = (x > self.low) & (x < self.high)
        safe = x.where(inside, self.transform(x.new_zeros(())))
        z = self.transform.inv(safe)
        log_det = -self.transform.log_abs_det_jacobian(z, safe)
        return z, log_det.where(inside, -math.inf)


class TruncatedLogistic(Logistic):
    """A logistic truncated at the ends of x: densities there are neither zero nor infinite."""

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, log_scale, scale = super().prepare(parameters)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        shift = middle + half * torch.tanh((shift - middle) / half)
        below, above = (torch.sigmoid((end - shift) / scale) for end in (self.low, self.high))
        return shift, log_scale, scale, below, above - below

    def quantile(self, u: Tensor, prepared: Any) -> Mapped:
        *whole, below, mass = prepared
        z, log_det = super().quantile(below + mass * u, whole)
        return z.clamp(self.low, self.high), log_det + mass.log()

    def cumulative(self, z: Tensor, prepared: Any) -> Mapped:
        *whole, below, mass = prepared
        u, log_det = super().cumulative(z, whole)
        return ((u - below) / mass).clamp(0, 1), log_det - mass.log()

    def unconstrained(self, x: Tensor, bound: Any = None) -> Mapped:
        return _clamped(x, self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class HalfLine(CoordinateBijector):
    """x > bound, or x < bound: u is the survival function of an exponential excess.

    z is the excess in `unit`, and 0 outside. The far tail lies at u = 0, where floats
    are densest, so that it keeps its digits. Parameter: the logarithm of the exponential's scale,
    softly limited.

    Arguments:
        sign: 1 for x > bound, -1 for x < bound.
        unit: About the size of the excess.
    """

    width = 1
    # The logarithm of the excess's scale is limited to CENTRE +- SPREAD, which spans 0.07 to 2.2
    # units: without a limit the spline can undo an ever larger one with ever narrower bins.
    CENTRE: ClassVar[float] = -0.9
    SPREAD: ClassVar[float] = 1.7

    sign: int
    unit: float = 1.0

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        log_scale = self._log_scale(parameters[..., 0])
        return log_scale, -log_scale.exp()

    def _log_scale(self, free: Tensor) -> Tensor:
        return self.CENTRE + self.SPREAD * torch.tanh(free / self.SPREAD)

    def quantile(self, u: Tensor, prepared: Any) -> Mapped:
        log_scale, minus_scale = prepared
        log_u = u.log()
        return minus_scale * log_u, log_scale - log_u

    def cumulative(self, z: Tensor, prepared: Any) -> Mapped:
        log_scale, minus_scale = prepared
        minus = z / minus_scale
        return minus.exp(), (minus - log_scale).where(z > 0, -math.inf)

    def constrained(self, z: Tensor, bound: Any = None) -> Mapped:
        x = strictly_beyond(bound + self.sign * self.unit * z, bound, self.sign)
        return x, torch.full_like(z, math.log(self.unit))

    def unconstrained(self, x: Tensor, bound: Any = None) -> Mapped:
        z = (self.sign * (x - bound)).clamp(min=0) / self.unit
        return z, torch.full_like(z, -math.log(self.unit))


class SoftHalfLine(HalfLine):
    """x > bound, or x < bound, for a density that falls to zero at the bound.

    The excess is softplus of a shifted logistic of scale 1 / 2: its density is linear at the
    bound, that of a logistic where the shift lies far from it, and exponential in the tail.
    Parameters: the shift, the logarithm of the scale, softly limited.
    """

    width = 2
    LOGISTIC_SCALE: ClassVar[float] = 0.5

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, free = parameters.unbind(-1)
        log_scale = self._log_scale(free)
        return shift, log_scale, log_scale.exp()

    def quantile(self, u: Tensor, prepared: Any) -> Mapped:
        shift, log_scale, scale = prepared
        # At u = 1 lies the bound itself, where the density is zero: half a rounding error beside.
        u = u.clamp(max=1 - torch.finfo(u.dtype).eps / 2)
        log_u, log_rest = u.log(), torch.log1p(-u)
        inner = shift + self.LOGISTIC_SCALE * (log_rest - log_u)
        log_det = log_scale + math.log(self.LOGISTIC_SCALE) + logsigmoid(inner)
        return scale * softplus(inner), log_det - log_u - log_rest

    def cumulative(self, z: Tensor, prepared: Any) -> Mapped:
        shift, log_scale, scale = prepared
        inside = z > 0
        excess = z.where(inside, 1.0) / scale
        inner = excess + torch.log(-torch.expm1(-excess))
        standardized = (inner - shift) / self.LOGISTIC_SCALE
        log_det = _log_logistic(standardized) - math.log(self.LOGISTIC_SCALE) - log_scale
        log_det = log_det - logsigmoid(inner)
        return torch.sigmoid(-standardized), log_det.where(inside, -math.inf)


class CutHalfLine(HalfLine):
    """x > bound, or x < bound, for a density that jumps at the bound, wherever its mode lies.

    The excess is a logistic cut to positive numbers: exponential where its shift lies far below
    zero, and a logistic where that lies far above. Parameters: the shift, the logarithm of the
    scale, softly limited.
    """

    width = 2

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, free = parameters.unbind(-1)
        log_scale = self._log_scale(free)
        scale = log_scale.exp()
        return shift, log_scale, scale, logsigmoid(shift / scale)

    def quantile(self, u: Tensor, prepared: Any) -> Mapped:
        shift, log_scale, scale, log_mass = prepared
        log_survival = u.log() + log_mass
        log_rest = torch.log(-torch.expm1(log_survival))
        # Rounding may leave a negative excess.
        excess = (shift + scale * (log_rest - log_survival)).clamp(min=0)
        return excess, log_scale - u.log() - log_rest

    def cumulative(self, z: Tensor, prepared: Any) -> Mapped:
        shift, log_scale, scale, log_mass = prepared
        standardized = (z - shift) / scale
        u = (logsigmoid(-standardized) - log_mass).exp().clamp(max=1)
        log_det = _log_logistic(standardized) - log_scale - log_mass
        return u, log_det.where(z > 0, -math.inf)


HALF_LINES = {
    "half-line": HalfLine,
    "soft-half-line": SoftHalfLine,
    "cut-half-line": CutHalfLine,
}
# Ends of kinds with a range of their own; that of other kinds is the coordinate's.
RANGES = {
    "line": (-math.inf, math.inf),
    "positive": (0.0, math.inf),
    "probability": (0.0, 1.0),
}


def _log_logistic(z: Tensor) -> Tensor:
    # log u (1 - u) = z - 2 log(1 + exp z), which cancels at neither end.
    return torch.add(z, softplus(z, threshold=40), alpha=-2.0)


def _clamped(x: Tensor, low: float, high: float) -> Mapped:
    inside = x.clamp(low, high)
    return inside, torch.zeros_like(x).masked_fill(inside != x, -math.inf)


def coordinate_bijectors(problem: Problem, coordinates: Coordinates) -> list[CoordinateBijector]:
    """The bijectors of all coordinates of x, first coordinate first.

    Arguments:
        problem: The problem.
        coordinates: For each coordinate its `kind`: `range` (the coordinate's range), `line`,
            `positive`, `probability`, `unit` (the unit interval as it is), `cut` (its range, with
            densities at both ends), `half-line`, `soft-half-line` or `cut-half-line` (the side of
            a bound where f_plus is positive; the soft one falls to zero there, the cut one has its
            mode anywhere), or one of the problem's `coordinate_transforms`.
            And about its `centre` and its standard deviation in unconstrained space, `scale`, by
            default 0 and 1; for half-lines also the `unit` of the excess over the bound.

    Raises:
        ValueError: a kind is not known, there are not as many coordinates as x has, or the support
            of f_plus is no half-line.
    """
    ends = problem.x.ends.T.tolist()
    return [_bijector(problem, *of, **c) for of, c in zip(ends, coordinates, strict=True)]


def _bijector(
    problem: Problem, low: float, high: float, kind: str, **numbers: float
) -> CoordinateBijector:
    transforms = problem.coordinate_transforms
    check_name("kind", kind, ["range", "cut", "unit", *RANGES, *HALF_LINES, *transforms])
    if kind == "unit":
        return UnitInterval(**numbers)
    if kind == "cut":
        return TruncatedLogistic(low=low, high=high, transform=identity_transform, **numbers)
    if kind in HALF_LINES:
        theta = torch.zeros(1, 0 if problem.theta is None else problem.theta.dim)
        return HALF_LINES[kind](sign=half_line(problem, theta)[1], **numbers)
    low, high = RANGES.get(kind, (low, high))
    transform = biject_to(between(low, high))
    if kind in transforms:
        transform = transforms[kind]
        support: Any = transform.codomain
        low, high = support.lower_bound, support.upper_bound
    return Logistic(low=low, high=high, transform=transform, **numbers)


def half_line(problem: Problem, theta: Tensor | None) -> tuple[Tensor, int]:
    """The bound (*, D) of a problem's f_plus, and 1 for x > bound or -1 for x < bound.

    Raises:
        ValueError: the support is of another kind.
    """
    support = problem.support_plus(theta)
    side = base.half_line(support)
    if side is None:
        raise ValueError(
            f"problem: this family needs an f_plus on one side of a bound, got {support}. "
            "Choose another family"
        )
    return side


def bounds(
    problem: Problem, bijectors: Sequence[CoordinateBijector], theta: Tensor | None, like: Tensor
) -> Tensor | None:
    """The bounds that half-lines among the bijectors need, (D, cases, 1); None if there are none.

    Arguments:
        problem: The problem, whose support of f_plus it is.
        bijectors: Those of the coordinates.
        theta: (cases, D_theta), or None.
        like: A tensor of as many rows, of the type and on the device of the points.
    """
    if not any(isinstance(bijector, HalfLine) for bijector in bijectors):
        return None
    bound, _ = half_line(problem, theta)
    return bound.to(like).expand(len(like), len(bijectors)).T[..., None]


def on_half_line(problem: Problem) -> bool:
    """Whether f_plus is positive on one side of bounds that theta gives, in some coordinates."""
    if problem.theta is None:
        return False
    zero = torch.zeros(1, problem.theta.dim)
    sides = [base.half_line(problem.support_plus(theta)) for theta in (zero, zero + 1)]
    if sides[0] is None or sides[1] is None:
        return False
    # In more dimensions the range of x has coordinates of other forms, in units of their own.
    return problem.x.dim == 1 or not torch.equal(sides[0][0], sides[1][0])


def coordinates_of(problem: Problem, *, cut: bool = False) -> list[dict[str, Any]]:
    """For each coordinate of x its kind, centre and scale in unconstrained space, by prior draws.

    Arguments:
        problem: The problem.
        cut: Whether coordinates whose range has two ends are cut off there, instead of mapped.
    """
    coordinates = []
    for (low, high), x in zip(problem.x.ends.T.tolist(), _prior_draws(problem).T, strict=True):
        if cut and math.isfinite(high - low):
            kind, centre, scale = "cut", (low + high) / 2, _rounded((high - low) / math.sqrt(12))
        else:
            kind = "range"
            z, _ = _bijector(problem, low, high, kind).unconstrained(x)
            scale = _rounded(float(z.std()))
            # To a tenth of the scale or better.
            centre = round(float(z.mean()), max(3, 1 - math.floor(math.log10(scale))))
        coordinates.append({"kind": kind, "centre": centre, "scale": scale})
    return coordinates


def half_lines(problem: Problem, kind: str) -> list[dict[str, Any]]:
    """Coordinates of x, on one side of the bounds of f_plus where there are any.

    Their units are powers of ten near their deviations.
    """
    assert problem.theta is not None
    bounds = half_line(problem, torch.zeros(1, problem.theta.dim))[0][0]
    coordinates = coordinates_of(problem)
    for i, std in enumerate(_prior_draws(problem).std(0).tolist()):
        if bounds[i].isfinite():
            unit = 10.0 ** round(math.log10(_rounded(std)))
            # An excess has about half of the standard deviation of x.
            coordinates[i] = {"kind": kind, "unit": unit, "scale": 0.5}
    return coordinates


def on_half_lines(arguments: Mapping[str, Any]) -> list[bool]:
    """Which coordinates of a flow with these arguments live on one side of a bound of f_plus."""
    return [c["kind"] in HALF_LINES for c in arguments.get("coordinates", ())]


def _prior_draws(problem: Problem) -> Tensor:
    return problem.sample_prior(4096, torch.Generator().manual_seed(0)).double()


def _rounded(scale: float) -> float:
    """Three digits: a narrow prior must not be rounded to zero."""
    return float(f"{max(scale, 1e-30):.3g}")
