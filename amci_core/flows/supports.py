r"""Maps between the unit interval and the support of a coordinate: one class a kind of coordinate.

Each kind has two steps. A chart without parameters takes x to the chart's line: the excess over a
bound, a logarithm, log-odds. A quantile function with parameters from a network takes the unit
interval to that line. Points and parameters broadcast; a number of coordinates of the same kind
can share one call, coordinates first.
"""

from __future__ import annotations

__all__ = [
    "KINDS",
    "TRANSFORMS",
    "Bound",
    "HalfLine",
    "Inside",
    "Kind",
    "Line",
    "SoftHalfLine",
    "half_line",
    "kind_of",
]

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions.constraints import greater_than, less_than
from torch.distributions.transforms import ExpTransform, SigmoidTransform, Transform
from torch.nn.functional import logsigmoid, softplus

from amci_core.models.base import Problem

Located = tuple[Tensor, Tensor]


class Bound(NamedTuple):
    """The end of a half-line, and the first number inside; coordinates first, (D, cases, 1)."""

    value: Tensor
    nearest: Tensor

    @classmethod
    def of(cls, value: Tensor, sign: int) -> Bound:
        """With the set above the value (sign 1) or below it (sign -1)."""
        # A point on the bound of an open support has density zero, so one of them in millions
        # makes a loss infinite or a weight NaN.
        return cls(value, torch.nextafter(value, torch.full_like(value, sign * math.inf)))

    def __call__(self, coordinates: Any) -> Bound:
        """The bounds of some coordinates."""
        return Bound(self.value[coordinates], self.nearest[coordinates])


class Kind(ABC):
    """A kind of coordinate: where it lives, and how the unit interval is carried there.

    Attributes:
        width: Number of parameters that the quantile function reads.
        bounded: Whether it lives on one side of the bound of the support of f_plus.

    Arguments:
        centre: About where x lies, on the chart's line.
        scale: About how far it spreads there.
    """

    width: int
    bounded = False

    def __init__(self, *, centre: float = 0.0, scale: float = 1.0, **_: Any) -> None:
        self.centre, self.scale = centre, scale

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def chart(self, x: Tensor, bound: Bound | None) -> Located:
        """x on the chart's line, and log|d line / dx|: -inf outside the support."""
        return x, torch.zeros((), dtype=x.dtype, device=x.device)

    def point(self, line: Tensor, bound: Bound | None) -> Located:
        """The inverse of `chart`, and log|dx / d line|."""
        return line, torch.zeros((), dtype=line.dtype, device=line.device)

    def prepare(self, parameters: Tensor) -> Any:
        """What the quantile function needs of the parameters (..., width)."""
        return parameters

    @abstractmethod
    def quantile(self, u: Tensor, prepared: Any) -> Located:
        """Points of the line out of u in (0, 1], and log|d line / du|."""

    @abstractmethod
    def cumulative(self, line: Tensor, prepared: Any) -> Located:
        """The inverse of `quantile`, and log|du / d line|."""


class Inside(Kind):
    """The unit interval as it is; nothing lies outside."""

    width = 0

    def chart(self, x: Tensor, bound: Bound | None) -> Located:
        inside = x.clamp(0, 1)
        return inside, torch.zeros_like(x).masked_fill(inside != x, -math.inf)

    def quantile(self, u: Tensor, prepared: Any) -> Located:
        return u, torch.zeros((), dtype=u.dtype, device=u.device)

    def cumulative(self, line: Tensor, prepared: Any) -> Located:
        return line, torch.zeros((), dtype=line.dtype, device=line.device)


class Line(Kind):
    """Scaled and shifted logistic quantiles, on the line or carried on by a transform.

    The logistic's tails are heavier than a Gaussian's, so that weights stay bounded. Parameters:
    shift and logarithm of the scale, softly limited, in units of `scale` about `centre`.

    Arguments:
        centre: About where x lies, on the line.
        scale: About how far it spreads there.
        transform: Carries the line onto the support; None where that is the line.
    """

    width = 2
    # The logarithm of the scale is limited to +- this.
    SPREAD = 3.0

    def __init__(
        self, *, centre: float = 0.0, scale: float = 1.0, transform: Transform | None = None
    ) -> None:
        super().__init__(centre=centre, scale=scale)
        self.transform = transform

    def chart(self, x: Tensor, bound: Bound | None) -> Located:
        if self.transform is None:
            return super().chart(x, bound)
        # The ends of the support, which transforms count as inside, are outside.
        ends = self.transform.codomain
        low, high = getattr(ends, "lower_bound", -math.inf), getattr(ends, "upper_bound", math.inf)
        inside = (x > low) & (x < high)
        safe = x.where(inside, (low + high) / 2 if high < math.inf else low + 1.0)
        line = self.transform.inv(safe)
        log_det = -self.transform.log_abs_det_jacobian(line, safe)
        return line, log_det.where(inside, -math.inf)

    def point(self, line: Tensor, bound: Bound | None) -> Located:
        if self.transform is None:
            return super().point(line, bound)
        x = self.transform(line)
        return x, self.transform.log_abs_det_jacobian(line, x)

    def prepare(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        shift, free = parameters.unbind(-1)
        log_scale = self.SPREAD * torch.tanh(free / self.SPREAD) + math.log(self.scale / 2)
        return self.centre + self.scale * shift, log_scale

    def quantile(self, u: Tensor, prepared: tuple[Tensor, Tensor]) -> Located:
        shift, log_scale = prepared
        # The end that rounding reaches would be an infinite x.
        u = u.clamp(torch.finfo(u.dtype).tiny, 1 - torch.finfo(u.dtype).eps / 2)
        log_u, log_rest = u.log(), torch.log1p(-u)
        return shift + log_scale.exp() * (log_u - log_rest), log_scale - log_u - log_rest

    def cumulative(self, line: Tensor, prepared: tuple[Tensor, Tensor]) -> Located:
        shift, log_scale = prepared
        standardized = (line - shift) * (-log_scale).exp()
        # log u (1 - u), from the end where nothing cancels.
        size = standardized.abs()
        log_both = -size - 2.0 * torch.log1p((-size).exp())
        return torch.sigmoid(standardized), log_both - log_scale


class HalfLine(Kind):
    """x > bound, or x < bound: u is the survival function of an exponential excess.

    The far tail lies at u = 0, where floating point numbers are densest, so that it keeps its
    digits. Parameter: the logarithm of the scale, softly limited.

    Arguments:
        sign: 1 for x > bound, -1 for x < bound.
        centre: As for `Kind`; the chart's line is the excess.
        scale: As for `Kind`.
    """

    width = 1
    bounded = True
    # The logarithm of the scale is limited to CENTRE +- SPREAD, which spans 0.07 to 2.2: without a
    # limit the spline can undo an ever larger scale with ever narrower bins.
    CENTRE, SPREAD = -0.9, 1.7

    def __init__(self, *, sign: int = 1, centre: float = 0.0, scale: float = 1.0) -> None:
        super().__init__(centre=centre, scale=scale)
        self.sign = sign

    def chart(self, x: Tensor, bound: Bound | None) -> Located:
        assert bound is not None
        excess = x - bound.value if self.sign > 0 else bound.value - x
        inside = excess > 0
        # Outside the support any excess will do: the log density is -inf.
        log_det = torch.zeros_like(excess).masked_fill(~inside, -math.inf)
        return excess.where(inside, 1.0), log_det

    def point(self, line: Tensor, bound: Bound | None) -> Located:
        assert bound is not None
        if self.sign > 0:
            x = torch.maximum(bound.value + line, bound.nearest)
        else:
            x = torch.minimum(bound.value - line, bound.nearest)
        return x, torch.zeros((), dtype=x.dtype, device=x.device)

    def prepare(self, parameters: Tensor) -> tuple[Tensor, ...]:
        log_scale = self.CENTRE + self.SPREAD * torch.tanh(parameters[..., -1] / self.SPREAD)
        return (*parameters[..., :-1].unbind(-1), log_scale, log_scale.exp())

    def quantile(self, u: Tensor, prepared: tuple[Tensor, ...]) -> Located:
        log_scale, scale = prepared
        log_u = u.log()
        return -scale * log_u, log_scale - log_u

    def cumulative(self, line: Tensor, prepared: tuple[Tensor, ...]) -> Located:
        log_scale, scale = prepared
        minus = -line / scale
        return minus.exp(), minus - log_scale


class SoftHalfLine(HalfLine):
    """x > bound, or x < bound, for a density that falls to zero at the bound.

    The excess is softplus of a shifted logistic of scale 1 / 2: its density is linear at the
    bound, that of a logistic where the shift lies far from it, and exponential in the tail.
    Parameters: the shift, the logarithm of the scale, softly limited.
    """

    width = 2
    LOGISTIC_SCALE = 0.5

    def quantile(self, u: Tensor, prepared: tuple[Tensor, ...]) -> Located:
        shift, log_scale, scale = prepared
        # At u = 1 lies the bound itself, where the density is zero: half a rounding error beside.
        u = u.clamp(max=1 - torch.finfo(u.dtype).eps / 2)
        log_u, log_rest = u.log(), torch.log1p(-u)
        inner = shift + self.LOGISTIC_SCALE * (log_rest - log_u)
        log_det = log_scale + math.log(self.LOGISTIC_SCALE) + logsigmoid(inner)
        return scale * softplus(inner), log_det - log_u - log_rest

    def cumulative(self, line: Tensor, prepared: tuple[Tensor, ...]) -> Located:
        shift, log_scale, scale = prepared
        excess = line / scale
        inner = excess + torch.log(-torch.expm1(-excess))
        standardized = (inner - shift) / self.LOGISTIC_SCALE
        size = standardized.abs()
        log_det = -size - 2.0 * torch.log1p((-size).exp()) - math.log(self.LOGISTIC_SCALE)
        return torch.sigmoid(-standardized), log_det - log_scale - logsigmoid(inner)


KINDS: dict[str, type[Kind]] = {
    "half-line": HalfLine,
    "soft-half-line": SoftHalfLine,
    "unit": Inside,
    "line": Line,
}
# The line, carried onto the support of a coordinate.
TRANSFORMS: dict[str, Transform] = {"positive": ExpTransform(), "probability": SigmoidTransform()}


def kind_of(problem: Problem, kind: str, centre: float = 0.0, scale: float = 1.0) -> Kind:
    """A kind of coordinate by its name, in `KINDS`, in `TRANSFORMS` or of the problem itself.

    Raises:
        ValueError: the kind is not known, or it does not fit the problem.
    """
    transforms = {**TRANSFORMS, **problem.coordinate_transforms}
    if kind in transforms:
        return Line(centre=centre, scale=scale, transform=transforms[kind])
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join([*KINDS, *transforms])}, got {kind!r}")
    if not KINDS[kind].bounded:
        return KINDS[kind](centre=centre, scale=scale)
    assert problem.theta is not None
    sign = half_line(problem, torch.zeros(1, problem.theta.dim))[1]
    return KINDS[kind](centre=centre, scale=scale, sign=sign)


def half_line(problem: Problem, theta: Tensor | None) -> tuple[Tensor, int]:
    """The bound (*, D) of a problem's f_plus, and 1 for x > bound or -1 for x < bound.

    Raises:
        ValueError: the support is of another kind.
    """
    support = problem.support_plus(theta)
    if isinstance(support, type(greater_than(0.0))):
        return support.lower_bound, 1
    if isinstance(support, type(less_than(0.0))):
        return support.upper_bound, -1
    raise ValueError(f"problem: the support of f_plus is no half-line, but {support}")
