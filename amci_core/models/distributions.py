r"""A problem made of torch's distributions: ranges, samplers and truth follow."""

from __future__ import annotations

__all__ = ["inside", "model", "nonnegative_at_draws", "several"]

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import cloudpickle
import numpy as np
import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    MixtureSameFamily,
    TransformedDistribution,
    VonMises,
)
from torch.distributions.constraints import (
    Constraint,
    boolean,
    greater_than,
    interval,
    less_than,
    real,
)
from torch.distributions.transforms import Transform, _InverseTransform

from amci_core.models.base import GLOBAL, Array, Density, Problem, Variable
from amci_core.models.contract import raised
from amci_core.models.defensive import DefensiveDensity
from amci_core.models.expression import Expression
from amci_core.models.line import LineProblem

# One distribution, or independent ones side by side.
Given = Distribution | Sequence[Distribution]
Target = Callable[[Tensor, Tensor | None], Tensor]
# Draws that ranges are taken from and f is tried at, and the share that a typical range leaves out
# at either end.
DRAWS, BEYOND = 10_000, 0.001
# An end of the support that is as near as this share of its width ends the typical range.
NEAR = 0.02
# Coordinates whose typical ranges differ by less than this share of their width have one.
ALIKE = 0.2
# Cases, and draws of each, at which the sign of f is tried in the tails.
CASES, OF_EACH = 64, 128
LINE = (-math.inf, math.inf)
ON_CIRCLE = interval(-math.pi, math.pi)
# Points of cases, the shape in which f is tried.
TRIED = (7, 3)


def model(
    *,
    prior: Given,
    f: Callable[..., Tensor] | str,
    likelihood: Callable[[Tensor], Given] | None = None,
    theta: Given | None = None,
    name: str = "model",
    description: str = "",
    support_plus: Callable[[Tensor | None], Constraint] | None = None,
) -> Problem:
    """A problem like any other, made of torch's distributions.

    Everything else follows: dimensions, ranges, supports and samplers, whether y are counts, and
    whether f takes both signs. With one number x the truth comes from quadrature, see
    `LineProblem`.

    Functions get float64 tensors, x of shape (*, D) and theta of shape (*, D_theta), which
    broadcast. If a distribution is that of one number, such as `Normal(0.0, 1.0)`, they get it
    without the last axis, as (*).

    Arguments:
        prior: The distribution of x: of a number, of a vector, or a list of independent ones,
            whose supports may differ.
        f: A function of x and theta, or of x alone if there is no theta, with values (*); Boolean
            for a probability. Or an expression such as "x > theta", see `amci_core.with_target`.
        likelihood: A function of x that gives the distribution of y, or a list of independent
            ones, for every x; None if nothing is observed. Counts and other discrete y are fine.
        theta: The distribution of the parameters of f, as for the prior; None if there are none.
        name: What the problem is called by, in files of proposals too.
        description: What it asks, in a few sentences.
        support_plus: A function of theta (*, D_theta) that gives the set outside which f_plus is
            zero, such as `lambda theta: constraints.greater_than(theta.log())` of torch;
            proposals then live on it. A half-line that begins or ends at theta shows by itself.

    Returns:
        A `Problem`: `amci_core.check`, `learn`, `estimate` and the page take it.

    Raises:
        ValueError: an argument is of the wrong kind or shape, x is discrete, or a function raises.

    Warning:
        f counts as nonnegative if it is so at 10,000 draws of the prior and at draws of broader
        densities, and as zero on one side of theta if it is so at 40,000 points.

    Example:
        >>> from torch.distributions import Normal, Uniform
        >>> exceeds = model(
        ...     prior=Normal(0.0, 1.0),
        ...     likelihood=lambda x: Normal(x, 0.5),
        ...     f=lambda x, theta: x > theta,
        ...     theta=Uniform(0.0, 4.0),
        ... )
        >>> round(float(exceeds.truth(y=1.0, theta=2.0)), 6)
        0.003645
        >>> exceeds.theta.typical_range, exceeds.f_range
        ((0.0, 4.0), (0.0, 1.0))
    """
    given = {
        **{"prior": prior, "f": f, "likelihood": likelihood, "theta": theta},
        **{"name": name, "description": description, "support_plus": support_plus},
    }
    return (_LineModel if _Law("prior", prior).dim == 1 else _Model)(given)


def several(*, f: Sequence[Callable[..., Tensor] | str], **given: Any) -> list[Problem]:
    """Problems that differ in f alone, for `amci_core.estimate_several`.

    Arguments:
        f: Functions or expressions, as for `model`.
        given: The other arguments of `model`. The problems are called by the name and a number.

    Returns:
        The problems, in the order of the f.

    Raises:
        ValueError: as `model`.

    Example:
        >>> from torch.distributions import Normal
        >>> made = several(
        ...     prior=Normal(0.0, 1.0), likelihood=lambda x: Normal(x, 1.0), f=["x", "x**2"]
        ... )
        >>> tuple(round(float(p.truth(y=3.0)), 6) for p in made)
        (1.5, 2.75)
    """
    name = given.pop("name", "model")
    return [model(f=target, name=f"{name}-{k}", **given) for k, target in enumerate(f, 1)]


class _Model(Problem):
    """A problem of distributions, see `model`."""

    nonnegative = False
    # Where f_plus and f_minus lie, where theta ends them.
    _beyond_theta: tuple[Any, Any] = (None, None)

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        generator = torch.Generator().manual_seed(0)
        self._laws: dict[tuple[str, torch.device], _Law] = {}
        self.name, self.description = given["name"], given["description"]
        self.formula = _formula(given)
        with _named("prior"):
            prior = self._law("prior", torch.device("cpu"))
            if any(prior.whole):
                raise ValueError(
                    f"prior: expected a density over x, got {given['prior']}, whose x is "
                    "discrete. Sum over x instead"
                )
            self.x = prior.variable("x", "what is unknown")
            x = self.sample_prior(DRAWS, generator)
            _check_own_draws("prior", self.log_prior(x))
            self.x = _with_typical_range(self.x, x)
        if given["theta"] is not None:
            with _named("theta"):
                law = self._law("theta", torch.device("cpu"))
                self.theta = law.variable("theta", "the parameters of f")
                theta: Any = self.sample_theta(DRAWS, generator)
                self.theta = _with_typical_range(self.theta, theta)
        if given["likelihood"] is not None:
            if not callable(given["likelihood"]):
                raise ValueError(
                    "likelihood: expected a function of x that returns the distribution of y, got "
                    f"{type(given['likelihood']).__name__}"
                )
            with _named("likelihood"):
                # Far out, where nothing is checked, a parameter may overflow or underflow.
                law = _Law("likelihood", given["likelihood"](self._user("prior", x)), x.shape[:-1])
                self.y = law.variable("y", "what is observed")
                y = self.sample_likelihood(x, generator)
                _check_own_draws("likelihood", self.log_likelihood(x, y))
                self.y = _with_typical_range(self.y, y)
        self._target: Callable[..., Tensor] = given["f"]
        if isinstance(given["f"], str):
            dim = 0 if self.theta is None else self.theta.dim
            self._target = Expression(given["f"], dim=self.x.dim, theta_dim=dim)
        self._try_f(x)
        self.nonnegative = self.f_range == (0.0, 1.0) or nonnegative_at_draws(self, self.f)
        self._beyond_theta = _side_of_theta(self, 1), _side_of_theta(self, -1)

    def _try_f(self, x: Tensor) -> None:
        """Tries f at points that broadcast, and takes its range from the type of its values."""
        x, theta = x[: math.prod(TRIED)].unflatten(0, TRIED), None
        shape = tuple(self._user("prior", x).shape)
        place = f"x of shape {shape} alone; pass theta= if f needs it"
        if self.theta is not None:
            drawn: Any = self.sample_theta(TRIED[0], torch.Generator().manual_seed(1))
            theta = drawn[:, None]
            of_theta = tuple(self._user("theta", theta).shape)
            place = f"x of shape {shape} and theta of shape {of_theta}"
        with _named("f", f". It was called with {place}"):
            value = self._values(x, theta)
        if value.shape not in (TRIED, (TRIED[0], 1)):
            raise ValueError(
                f"f: expected a tensor of shape {TRIED} at x of shape {shape}, one number per "
                f"point, got {tuple(value.shape)}"
            )
        if isinstance(self._target, Expression):
            self.f_range = self._target.f_range
        elif value.dtype == torch.bool:
            self.f_range = (0.0, 1.0)

    def _law(self, name: str, device: torch.device) -> _Law:
        """The distribution of x or theta, in float64 on a device."""
        key = name, device
        if key not in self._laws:
            with torch.inference_mode(False):
                law = _Law(name, self._given[name])
                self._laws[key] = law.to(torch.float64, device)
        return self._laws[key]

    def _user(self, name: str, value: Tensor) -> Tensor:
        """x or theta as a user's functions get it."""
        alone = self._law(name, value.device).alone
        return value.double()[..., 0] if alone else value.double()

    def _law_of_y(self, x: Tensor) -> _Law:
        """The distribution of y at x (*, D)."""
        with _unchecked():
            given = self._given["likelihood"](self._user("prior", x))
            return _Law("likelihood", given, x.shape[:-1])

    def _values(self, x: Tensor, theta: Tensor | None) -> Tensor:
        if isinstance(self._target, Expression):
            return self._target(x.double(), None if theta is None else theta.double())
        given = [] if theta is None else [self._user("theta", theta)]
        # Values of NumPy are taken, too.
        return torch.as_tensor(self._target(self._user("prior", x), *given), device=x.device)

    def log_prior(self, x: Tensor) -> Tensor:
        return self._law("prior", x.device).log_prob(x.double()).to(x.dtype)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        if self.y is None:
            return torch.zeros_like(x[..., 0])
        return self._law_of_y(x).log_prob(y.double()).to(x.dtype)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        shapes = [x.shape[:-1], *([] if theta is None else [theta.shape[:-1]])]
        return self._values(x, theta).to(x.dtype).expand(torch.broadcast_shapes(*shapes))

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self._law("prior", generator.device).sample((n,))

    def prior_from_uniform(self, u: Tensor) -> Tensor | None:
        return self._law("prior", u.device).quantiles(u)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        return None if self.theta is None else self._law("theta", generator.device).sample((n,))

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x[..., :0] if self.y is None else self._law_of_y(x).sample().to(x.dtype)

    def support_plus(self, theta: Tensor | None) -> Constraint:
        known = self._given["support_plus"] or self._beyond_theta[0]
        return self.support if known is None else known(theta)

    def support_minus(self, theta: Tensor | None) -> Constraint:
        known = self._beyond_theta[1]
        return self.support if known is None else known(theta)

    def __reduce__(self) -> Any:
        # Functions of a user may be lambdas, which pickle itself does not take.
        return _unpacked, (cloudpickle.dumps(self._given),)

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nothing of it changes


class _LineModel(_Model, LineProblem):
    """One with x on the line."""


def _unpacked(given: bytes) -> Problem:
    return model(**cloudpickle.loads(given))


class _Law:
    """Independent distributions side by side, as one of vectors (*, D).

    Log densities are -inf outside the support, where nothing is refused, and where they are no
    numbers, as far out, where something overflows.

    Arguments:
        name: The argument that they are.
        given: One distribution, or a list of them.
        batch: The batch shape (*) that they have to have.

    Attributes:
        parts: The distributions, each of a number or a vector.
        sizes: Their numbers of coordinates.
        alone: Whether there is one, of a number.
    """

    def __init__(self, name: str, given: Given, batch: tuple[int, ...] = ()) -> None:
        parts = given if isinstance(given, list | tuple) else [given]
        self.name, self.parts = name, list[Distribution]()
        for part in parts or [parts]:
            if not isinstance(part, Distribution):
                kind = "a distribution of torch, such as Uniform(0.0, 4.0), or a list of them"
                raise ValueError(f"{name}: expected {kind}, got {_written(given)}")
            extra = len(part.batch_shape) - len(batch)
            axes = extra + len(part.event_shape)
            if part.batch_shape[: len(batch)] != batch or not 0 <= axes <= 1:
                shape = f"batch shape {tuple(batch)}, " if batch else ""
                raise ValueError(
                    f"{name}: expected {shape}numbers or vectors, got {type(part).__name__} with "
                    f"batch shape {tuple(part.batch_shape)} and event shape "
                    f"{tuple(part.event_shape)}"
                )
            self.parts.append(_copied(Independent(part, extra) if extra else part))
        self.sizes = [part.event_shape[0] if part.event_shape else 1 for part in self.parts]
        self.dim = sum(self.sizes)
        self.alone = parts is not given and not self.parts[0].event_shape

    def to(self, dtype: torch.dtype, device: torch.device) -> Self:
        self.parts = [_copied(part, dtype=dtype, device=device) for part in self.parts]
        return self

    def _split(self, value: Tensor) -> Iterator[tuple[Distribution, Tensor]]:
        """Each part with its coordinates of values (*, D), (*) or (*, size)."""
        for part, values in zip(self.parts, value.split(self.sizes, -1), strict=True):
            yield part, values if part.event_shape else values[..., 0]

    def _joined(self, values: Iterable[Tensor]) -> Tensor:
        """Values of the parts, (*) or (*, size), side by side: (*, D)."""
        pairs = zip(self.parts, values, strict=True)
        return torch.cat([x if part.event_shape else x[..., None] for part, x in pairs], -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density at values (*, D) in nats, (*)."""
        log_p = torch.zeros_like(value[..., 0])
        for part, values in self._split(value):
            log_part = part.log_prob(values)
            there = inside(part, values) & ~log_part.isnan()
            log_p = log_p + log_part.where(there, -math.inf)
        return log_p

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Draws of torch's global generator, (*, D) in float64."""
        return self._joined(part.sample(torch.Size(shape)).double() for part in self.parts)

    def quantiles(self, u: Tensor) -> Tensor | None:
        """Values (*, D) whose coordinates are quantiles at u (*, D); None if not all are known."""
        bases = [part.base_dist if isinstance(part, Independent) else part for part in self.parts]
        pairs = zip(bases, self._split(u), strict=True)
        try:
            return self._joined(base.icdf(of_part) for base, (_, of_part) in pairs)
        except NotImplementedError:
            return None

    @property
    def whole(self) -> tuple[bool, ...]:
        """Which coordinates take whole numbers only."""
        pairs = zip(self.parts, self.sizes, strict=True)
        return tuple(_support(part).is_discrete for part, size in pairs for _ in range(size))

    def variable(self, name: str, meaning: str) -> Variable:
        """A variable that takes its values, its typical range being the whole one."""
        low, high = np.concatenate([self._ends(part) for part in self.parts], -1).tolist()
        whole = self.whole if any(self.whole) else False
        return Variable(name, self.dim, tuple(low), tuple(high), meaning, whole=whole)

    def _ends(self, part: Distribution) -> Array:
        """The smallest and the largest value of a part's coordinates, (2, size).

        Infinite if they depend on where in the batch.
        """
        ends = _ends(part)
        if ends is None:
            if not _support(part).is_discrete:
                raise ValueError(
                    f"{self.name}: expected coordinates with an interval each, got {part}. For a "
                    "simplex use all coordinates but the last"
                )
            ends = torch.tensor(LINE)
        shape = part.batch_shape + part.event_shape
        size = part.event_shape[0] if part.event_shape else 1
        rows = torch.stack([end.expand(shape).reshape(-1, size) for end in ends])
        same = (rows == rows[:, :1]).all(1)
        return rows[:, 0].where(same, rows.new_tensor(LINE)[:, None]).cpu().numpy()


def _written(given: Any) -> str:
    """What was given in the place of a distribution, and what to write instead of scipy's."""
    if not hasattr(given, "rvs"):
        return f"{given!r:.60}"
    name = f"scipy.stats.{given.dist.name}"
    return f"{name}. Write the one of torch.distributions, such as Normal(0.0, 1.0)"


def _copied(value: Any, **to: Any) -> Any:
    """A copy of a distribution, all the way down, that checks no arguments; its tensors moved."""
    if isinstance(value, Tensor) and to:
        dtype = to["dtype"] if value.is_floating_point() else value.dtype
        return value.to(to["device"], dtype)
    if type(value) in (list, tuple):
        return type(value)(_copied(part, **to) for part in value)
    # The inverse of a transform knows nothing but it.
    if isinstance(value, _InverseTransform):
        return _copied(value.inv, **to).inv
    if not isinstance(value, Distribution | Transform):
        return value
    made = copy.copy(value)
    vars(made).update({name: _copied(part, **to) for name, part in vars(made).items()})
    if isinstance(made, Distribution):
        made._validate_args = False
    return made


def _declared(law: Distribution) -> Any:
    """The support that a distribution has, not where torch has its density repeat itself."""
    return ON_CIRCLE if isinstance(law, VonMises) else law.support


def _support(law: Distribution) -> Any:
    """The support of the coordinates of a distribution."""
    support = _declared(law)
    # Of independent ones, and of mixtures.
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support


def inside(law: Distribution, value: Tensor) -> Tensor:
    """Whether values (*) or (*, D) lie in the support, (*).

    A transformed distribution counts what its transforms reach as its support, wherever they start
    from: an exponential above theta would have the whole line. Values are followed to the base.
    """
    axes = value.ndim - len(law.event_shape)

    def every(there: Tensor) -> Tensor:
        return there.flatten(axes).all(-1) if there.ndim > axes else there

    if isinstance(law, Independent):
        return every(inside(law.base_dist, value))
    if isinstance(law, MixtureSameFamily):
        apart = value.unsqueeze(-1 - len(law.event_shape))
        return inside(law.component_distribution, apart).any(-1)
    if type(law) is not TransformedDistribution:
        return every(_declared(law).check(value))
    there = torch.ones(value.shape[:axes], dtype=torch.bool, device=value.device)
    for transform in reversed(law.transforms):
        codomain: Any = transform.codomain
        there = there & every(codomain.check(value))
        value = transform.inv(value)
    return there & every(inside(law.base_dist, value))


def _ends(law: Distribution) -> Any:
    """Where the support of each coordinate begins and ends, two tensors; None if not known."""
    if isinstance(law, Independent):
        return _ends(law.base_dist)
    if isinstance(law, MixtureSameFamily):
        components = law.component_distribution
        ends = _ends(components)
        if ends is None:
            return None
        axis = -1 - len(law.event_shape)
        low, high = (e.expand(components.batch_shape + components.event_shape) for e in ends)
        return low.amin(axis), high.amax(axis)
    if type(law) is TransformedDistribution:
        ends = _ends(law.base_dist)
        for transform in law.transforms:
            if ends is None or not transform.bijective or transform.codomain.event_dim:
                return None
            images = [transform(end) for end in ends]
            ends = torch.minimum(*images), torch.maximum(*images)
        return ends
    support = _support(law)
    known: Any = {real: LINE, boolean: (0.0, 1.0)}.get(support)
    if known is None and not support.event_dim:
        names = ("lower_bound", "upper_bound")
        if any(hasattr(support, name) for name in names):
            known = tuple(getattr(support, n, e) for n, e in zip(names, LINE, strict=True))
    return known and tuple(torch.as_tensor(end).double() for end in known)


def _with_typical_range(variable: Variable, draws: Tensor) -> Variable:
    """The variable, its typical range that of nearly all of its draws (n, D), with round ends."""
    level = draws.new_tensor([BEYOND, 1 - BEYOND])
    of_draws = torch.quantile(draws, level, dim=0).T.tolist()
    typical = []
    for (lower, upper), (low, high) in zip(of_draws, variable.ends.T.tolist(), strict=True):
        width = upper - lower or max(abs(lower), 1.0)
        digits = 1 - math.floor(math.log10(width))
        below, above = math.floor(lower * 10**digits), math.ceil(upper * 10**digits)
        begin = low if lower - low < NEAR * width else round(below * 10.0**-digits, digits)
        end = high if high - upper < NEAR * width else round(above * 10.0**-digits, digits)
        typical.append((begin, end if end > begin else begin + width))
    begins, ends = np.array(typical).T
    if max(np.ptp(begins), np.ptp(ends)) < ALIKE * (ends - begins).min():
        begins, ends = np.full_like(begins, begins.min()), np.full_like(ends, ends.max())
    return replace(variable, typical_range=(tuple(begins.tolist()), tuple(ends.tolist())))


def _check_own_draws(name: str, log_density: Tensor) -> None:
    """Refuses a log density that is -inf at draws of its own, but for a few at an end."""
    lost = float((log_density == -math.inf).double().mean())
    if lost > 0.01:
        raise ValueError(
            f"{name}: expected a finite log density at its own draws, got -inf or NaN at "
            f"{lost:.1%} of {DRAWS:,}"
        )


@contextmanager
def _named(argument: str, hint: str = "") -> Iterator[None]:
    """What a user's function raises, as a ValueError with the argument's name."""
    try:
        yield
    except Exception as error:
        if str(error).startswith(f"{argument}: "):
            raise
        raise ValueError(f"{argument}: {raised(error)}{hint}") from error


@contextmanager
def _unchecked() -> Iterator[None]:
    """Distributions that are made meanwhile check no arguments."""
    with GLOBAL:
        before = Distribution._validate_args
        Distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            Distribution.set_default_validate_args(before)


def nonnegative_at_draws(problem: Problem, f: Target) -> bool:
    """Whether f is negative at no draw of the prior, nor of broader densities and a known q2.

    Arguments:
        problem: The problem whose prior, y and theta are drawn.
        f: A function of x and theta.

    Raises:
        ValueError: f is not finite at draws of the prior.
    """
    generator = torch.Generator().manual_seed(0)
    x = problem.sample_prior(DRAWS, generator).double()
    theta = problem.sample_theta(DRAWS, generator)
    value = f(x, None if theta is None else theta.double())
    bad = ~value.isfinite()
    if bad.any():
        at = int(bad.nonzero()[0])
        place = ", ".join(f"{v:.3g}" for v in x[at].tolist())
        raise ValueError(
            f"f: expected finite numbers at draws of the prior, got {float(value[at]):g} at "
            f"x = ({place}) and at {float(bad.double().mean()):.1%} of the draws"
        )
    return not ((value < 0).any() or _negative_in_tails(problem, f))


def _negative_in_tails(problem: Problem, f: Target) -> bool:
    """Whether f is negative at a draw for cases that are spread over the ranges of y and theta."""
    generator = torch.Generator().manual_seed(1)

    def spread(variable: Variable | None, drawn: Tensor) -> Tensor:
        if variable is None:
            return drawn.double()
        finite = np.isfinite(variable.ends).all()
        low, high = torch.from_numpy(variable.ends if finite else variable.typical)
        if not (high - low).isfinite().all():
            return drawn.double()
        u = torch.rand(drawn.shape, dtype=torch.float64, generator=generator)
        return variable.nearest(low + (high - low) * u)

    y, theta = problem.sample_cases(CASES, generator)
    y = spread(problem.y, y)
    theta = None if theta is None else spread(problem.theta, theta)
    densities: list[Density] = [DefensiveDensity(problem, y, theta)]
    known = problem.optimal_proposals() or {}
    densities += [known["q2"](y, theta)] if "q2" in known else []
    draws = [density.draw(OF_EACH, generator)[0] for density in densities]
    return any(bool((f(x, None if theta is None else theta[:, None]) < 0).any()) for x in draws)


def _side_of_theta(problem: Problem, sign: int) -> Callable[[Any], Constraint] | None:
    """`greater_than` or `less_than`, if sign f > 0 on that side of theta alone, at draws."""
    if problem.theta is None or (problem.x.dim, problem.theta.dim) != (1, 1):
        return None
    generator = torch.Generator().manual_seed(2)
    x, theta = problem.sample_prior(DRAWS, generator), problem.sample_theta(DRAWS, generator)
    assert theta is not None
    spread, end = x - x.mean(), torch.full_like(theta, math.inf)
    beside = theta.nextafter(end), theta.nextafter(-end)
    points = torch.stack([x, theta + spread, theta + 10 * spread, *beside])
    low, high = points.new_tensor(problem.x.ends)
    inside = ((points > low) & (points < high))[..., 0]
    positive = sign * problem.f(points, theta) > 0
    above = (points > theta)[..., 0]
    # Where x has an end the half-line would lead beyond it.
    if math.isinf(high) and (positive == above)[inside].all():
        return greater_than
    if math.isinf(low) and (positive != above)[inside].all():
        return less_than
    return None


def _formula(given: dict[str, Any]) -> str:
    """mu as an expectation, in TeX."""
    y, theta = given["likelihood"] is not None, given["theta"] is not None
    case = ",".join(["y"] * y + [r"\theta"] * theta)
    of_x = "x" + r";\theta" * theta
    mean = rf"\mathrm{{E}}[f({of_x})" + r"\mid y" * y + "]"
    return rf"\mu({case})={mean}" if case else rf"\mu={mean}"
