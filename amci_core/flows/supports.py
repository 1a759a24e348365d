r"""Maps between the unit interval and the support of a coordinate: one class a kind of coordinate.

Each kind has two steps. A chart without parameters takes x to the chart's line: the excess over a
bound, a logarithm, log-odds. A quantile function with parameters from a network takes the unit
interval to that line. Points and parameters broadcast; coordinates of the same kind can share one
call, coordinates first.
"""

from __future__ import annotations

__all__ = [
    "Cut",
    "HalfLine",
    "Inside",
    "Kind",
    "Line",
    "SoftHalfLine",
    "coordinates_of",
    "cut_coordinates",
    "half_line",
    "kind_of",
    "on_half_line",
]

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions.constraint_registry import biject_to
from torch.distributions.constraints import greater_than, less_than
from torch.distributions.transforms import ExpTransform, SigmoidTransform, Transform
from torch.nn.functional import logsigmoid, softplus

from amci_core.models.base import Problem


@dataclass(frozen=True)
class Kind(ABC):
    """A kind of coordinate: where it lives, and how the unit interval is carried there.

    Where a coordinate lives on one side of the `bound` of the support of f_plus, that is the bound
    and the first number inside, (2, *, cases, 1).

    Attributes:
        width: Number of parameters that the quantile function reads.
        bounded: Whether it lives on one side of that bound.

    Arguments:
        centre: About where x lies, on the chart's line.
        scale: About how far it spreads there.
    """

    width: ClassVar[int]
    bounded: ClassVar[bool] = False

    centre: float = 0.0
    scale: float = 1.0

    def prepare(self, parameters: Tensor) -> Any:
        """What the quantile function needs of the parameters (*, width)."""
        return parameters

    @abstractmethod
    def draw(self, u: Tensor, prepared: Any, bound: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """x out of u in (0, 1], the line's point, and log|dx / du|; None for zero."""

    @abstractmethod
    def chart(self, x: Tensor, bound: Any) -> tuple[Tensor, Tensor | None]:
        """x on the chart's line, and log|d line / dx|, -inf outside the support; None for zero."""

    @abstractmethod
    def cumulative(self, line: Tensor, prepared: Any) -> tuple[Tensor, Tensor | None]:
        """The inverse of the quantile function, and log|du / d line|; None for zero."""


class Inside(Kind):
    """The unit interval as it is; nothing lies outside."""

    width = 0

    def draw(self, u: Tensor, prepared: Any, bound: Any) -> tuple[Tensor, Tensor, None]:
        return u, u, None

    def chart(self, x: Tensor, bound: Any) -> tuple[Tensor, Tensor]:
        inside = x.clamp(0, 1)
        return inside, torch.zeros_like(x).masked_fill(inside != x, -math.inf)

    def cumulative(self, line: Tensor, prepared: Any) -> tuple[Tensor, None]:
        return line, None


@dataclass(frozen=True)
class Line(Kind):
    """Scaled and shifted logistic quantiles, on the line or carried on by a transform.

    The logistic's tails are heavier than a Gaussian's, so that weights stay bounded. Parameters:
    shift and logarithm of the scale, softly limited, in units of `scale` about `centre`.

    Arguments:
        transform: Carries the line onto the support; None where that is the line.
    """

    width = 2
    # The logarithm of the scale is limited to +- this.
    SPREAD: ClassVar[float] = 3.0

    transform: Transform | None = None

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, free = parameters.unbind(-1)
        log_scale = self.SPREAD * torch.tanh(free / self.SPREAD) + math.log(self.scale / 2)
        return self.centre + self.scale * shift, log_scale, log_scale.exp()

    def draw(self, u: Tensor, prepared: Any, bound: Any) -> tuple[Tensor, Tensor, Tensor]:
        shift, log_scale, scale = prepared
        # The end that rounding reaches would be an infinite x.
        u = u.clamp(torch.finfo(u.dtype).tiny, 1 - torch.finfo(u.dtype).eps / 2)
        log_u, log_rest = u.log(), torch.log1p(-u)
        line, log_det = torch.addcmul(shift, scale, log_u - log_rest), log_scale - log_u - log_rest
        if self.transform is None:
            return line, line, log_det
        x = self.transform(line)
        return x, line, log_det + self.transform.log_abs_det_jacobian(line, x)

    def chart(self, x: Tensor, bound: Any) -> tuple[Tensor, Tensor | None]:
        if self.transform is None:
            return x, None
        # The ends of the support, which transforms count as inside, are outside.
        ends = self.transform.codomain
        low, high = getattr(ends, "lower_bound", -math.inf), getattr(ends, "upper_bound", math.inf)
        inside = (x > low) & (x < high)
        safe = x.where(inside, (low + high) / 2 if high < math.inf else low + 1.0)
        line = self.transform.inv(safe)
        log_det = -self.transform.log_abs_det_jacobian(line, safe)
        return line, log_det.where(inside, -math.inf)

    def cumulative(self, line: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, scale = prepared
        standardized = (line - shift) / scale
        # log u (1 - u) = s - 2 log(1 + exp s), which cancels at neither end.
        log_both = torch.add(standardized, softplus(standardized, threshold=40), alpha=-2.0)
        return torch.sigmoid(standardized), log_both - log_scale


@dataclass(frozen=True)
class Cut(Line):
    """A logistic cut off at the ends of x: densities there are neither zero nor infinite."""

    low: float = 0.0
    high: float = 1.0

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        shift, log_scale, scale = super().prepare(parameters)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        shift = middle + half * torch.tanh((shift - middle) / half)
        below, above = (torch.sigmoid((end - shift) / scale) for end in (self.low, self.high))
        return shift, log_scale, scale, below, above - below

    def draw(self, u: Tensor, prepared: Any, bound: Any) -> tuple[Tensor, Tensor, Tensor]:
        *whole, below, left = prepared
        line, _, log_det = super().draw(below + left * u, whole, bound)
        x = line.clamp(self.low, self.high)
        return x, x, log_det + left.log()

    def chart(self, x: Tensor, bound: Any) -> tuple[Tensor, Tensor]:
        inside = x.clamp(self.low, self.high)
        return inside, torch.zeros_like(x).masked_fill(inside != x, -math.inf)

    def cumulative(self, line: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        *whole, below, left = prepared
        u, log_det = super().cumulative(line, whole)
        return ((u - below) / left).clamp(0, 1), log_det - left.log()


@dataclass(frozen=True)
class HalfLine(Kind):
    """x > bound, or x < bound: u is the survival function of an exponential excess.

    The chart's line is the excess, and 0 outside. The far tail lies at u = 0, where floats are
    densest, so that it keeps its digits. Parameter: the logarithm of the scale, softly limited.

    Arguments:
        sign: 1 for x > bound, -1 for x < bound.
    """

    width = 1
    bounded = True
    # The logarithm of the scale is limited to CENTRE +- SPREAD, which spans 0.07 to 2.2: without a
    # limit the spline can undo an ever larger scale with ever narrower bins.
    CENTRE: ClassVar[float] = -0.9
    SPREAD: ClassVar[float] = 1.7

    sign: int = 1

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        log_scale = self._log_scale(parameters[..., 0])
        return log_scale, -log_scale.exp()

    def draw(self, u: Tensor, prepared: Any, bound: Any) -> tuple[Tensor, Tensor, Tensor]:
        excess, log_det = self.quantile(u, prepared)
        end, nearest = bound
        # A point on the bound of an open support has density zero, so one of them in millions
        # makes a loss infinite or a weight NaN.
        if self.sign > 0:
            return torch.maximum(end + excess, nearest), excess, log_det
        return torch.minimum(end - excess, nearest), excess, log_det

    def _log_scale(self, free: Tensor) -> Tensor:
        return self.CENTRE + self.SPREAD * torch.tanh(free / self.SPREAD)

    def quantile(self, u: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        """The excess, and the logarithm of its derivative but for the sign."""
        log_scale, minus_scale = prepared
        log_u = u.log()
        return minus_scale * log_u, log_scale - log_u

    def chart(self, x: Tensor, bound: Any) -> tuple[Tensor, None]:
        end, _ = bound
        return (x - end if self.sign > 0 else end - x).clamp(min=0), None

    def cumulative(self, line: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        log_scale, minus_scale = prepared
        minus = line / minus_scale
        return minus.exp(), (minus - log_scale).where(line > 0, -math.inf)


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

    def quantile(self, u: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, scale = prepared
        # At u = 1 lies the bound itself, where the density is zero: half a rounding error beside.
        u = u.clamp(max=1 - torch.finfo(u.dtype).eps / 2)
        log_u, log_rest = u.log(), torch.log1p(-u)
        inner = shift + self.LOGISTIC_SCALE * (log_rest - log_u)
        log_det = log_scale + math.log(self.LOGISTIC_SCALE) + logsigmoid(inner)
        return scale * softplus(inner), log_det - log_u - log_rest

    def cumulative(self, line: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        shift, log_scale, scale = prepared
        inside = line > 0
        excess = line.where(inside, 1.0) / scale
        inner = excess + torch.log(-torch.expm1(-excess))
        standardized = (inner - shift) / self.LOGISTIC_SCALE
        log_both = torch.add(standardized, softplus(standardized, threshold=40), alpha=-2.0)
        log_det = log_both - math.log(self.LOGISTIC_SCALE) - log_scale - logsigmoid(inner)
        return torch.sigmoid(-standardized), log_det.where(inside, -math.inf)


HALF_LINES: dict[str, type[HalfLine]] = {"half-line": HalfLine, "soft-half-line": SoftHalfLine}
KINDS: dict[str, type[Kind]] = {**HALF_LINES, "unit": Inside, "line": Line}
# The line, carried onto the support of a coordinate.
TRANSFORMS: dict[str, Transform] = {"positive": ExpTransform(), "probability": SigmoidTransform()}
ABOVE, BELOW = type(greater_than(0.0)), type(less_than(0.0))


def kind_of(problem: Problem, kind: str, centre: float = 0.0, scale: float = 1.0) -> Kind:
    """A kind of coordinate by its name, in `KINDS`, in `TRANSFORMS` or of the problem itself.

    Raises:
        ValueError: the kind is not known, or it does not fit the problem.
    """
    transforms = {**TRANSFORMS, **problem.coordinate_transforms}
    if kind == "cut":
        low, high = problem.x.low, problem.x.high
        if not math.isfinite(high - low):
            raise ValueError(f"kind: cut expects x with two ends, got [{low:g}, {high:g}]")
        return Cut(centre, scale, None, low, high)
    if kind == "range":
        return Line(centre, scale, biject_to(problem.support))
    if kind in transforms:
        return Line(centre, scale, transforms[kind])
    if kind not in KINDS:
        names = ", ".join([*KINDS, "cut", "range", *transforms])
        raise ValueError(f"kind: expected one of {names}, got {kind!r}")
    if kind not in HALF_LINES:
        return KINDS[kind](centre, scale)
    assert problem.theta is not None
    return HALF_LINES[kind](
        centre, scale, half_line(problem, torch.zeros(1, problem.theta.dim))[1]
    )


def half_line(problem: Problem, theta: Tensor | None) -> tuple[Tensor, int]:
    """The bound (*, D) of a problem's f_plus, and 1 for x > bound or -1 for x < bound.

    Raises:
        ValueError: the support is of another kind.
    """
    support = problem.support_plus(theta)
    if isinstance(support, ABOVE):
        return torch.as_tensor(support.lower_bound), 1
    if isinstance(support, BELOW):
        return torch.as_tensor(support.upper_bound), -1
    raise ValueError(f"problem: the support of f_plus is no half-line, but {support}")


def on_half_line(problem: Problem) -> bool:
    """Whether x is one number, and f_plus is positive on one side of a bound that theta gives."""
    if problem.x.dim > 1 or problem.theta is None:
        return False
    support = problem.support_plus(torch.zeros(1, problem.theta.dim))
    return isinstance(support, ABOVE | BELOW)


def coordinates_of(problem: Problem) -> list[dict[str, Any]]:
    """For each coordinate of x its kind, centre and scale in unconstrained space, by prior draws.

    Raises:
        ValueError: the range of x is no interval.
    """
    x = problem.sample_prior(4096, torch.Generator().manual_seed(0)).double()
    kinds = {(-math.inf, math.inf): "line", (0, math.inf): "positive", (0, 1): "probability"}
    kind = kinds.get((problem.x.low, problem.x.high), "range")
    z = kind_of(problem, kind).chart(x, None)[0]
    return [
        {"kind": kind, "centre": round(centre, 3), "scale": _rounded(scale)}
        for centre, scale in zip(z.mean(0).tolist(), z.std(0).tolist(), strict=True)
    ]


def cut_coordinates(problem: Problem) -> list[dict[str, Any]]:
    """Coordinates that are cut off at both ends of x; none where x has not two ends."""
    low, high = problem.x.low, problem.x.high
    if not math.isfinite(high - low):
        return []
    scale = _rounded((high - low) / math.sqrt(12))
    return [{"kind": "cut", "centre": (low + high) / 2, "scale": scale}] * problem.x.dim


def _rounded(scale: float) -> float:
    """Three digits: a narrow prior must not be rounded to zero."""
    return float(f"{max(scale, 1e-30):.3g}")
