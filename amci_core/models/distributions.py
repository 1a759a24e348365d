r"""A problem made of distributions, torch's or scipy's: ranges, samplers and truth follow."""

from __future__ import annotations

__all__ = ["inside", "made_of", "model", "nonnegative_at_draws", "several"]

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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
    constraints,
)
from torch.distributions.constraint_registry import biject_to
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform, _InverseTransform
from torch.distributions.utils import _sum_rightmost

from amci_core.models.arrays import as_array, as_torch, takes_arrays
from amci_core.models.base import (
    GLOBAL,
    Array,
    Complement,
    Density,
    Ends,
    Problem,
    Variable,
    between,
)
from amci_core.models.contract import named
from amci_core.models.densities import DefensiveDensity
from amci_core.models.expression import Expression
from amci_core.models.line import LineProblem

# One distribution, or independent ones side by side.
Given = Distribution | Sequence[Distribution]
Target = Callable[[Tensor, Tensor | None], Tensor]
# Draws that ranges are taken from and f is tried at.
DRAWS = 10_000
# So many times as far from its mean the prior's draws are moved to look for an f beyond a bound.
WIDTHS = 1.0, 4.0, 16.0
# A density or f is tried at points of this shape, against parameters of (7, 1).
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
    """A problem like any other, made of distributions of torch or scipy.

    Everything else follows: dimensions, ranges, supports and samplers, whether y are counts, and
    whether f takes both signs. With one number x the truth comes from quadrature, see
    `LineProblem`.

    Functions get float64 tensors, x of shape (*, D) and theta of shape (*, D_theta), which
    broadcast. If a distribution is that of one number, such as `Normal(0.0, 1.0)`, they get it
    without the last axis, as (*). A function that takes no tensors gets NumPy arrays.

    Arguments:
        prior: The distribution of x: of a number, of a vector, or a list of independent ones,
            whose supports may differ. Of `torch.distributions`, or a frozen one of `scipy.stats`.
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
        ValueError: an argument is of the wrong kind or shape, x is discrete, or a function raises
            (the message has the line).

    Warning:
        f counts as nonnegative if it is so at 10,000 draws of the prior and at draws of broader
        densities, and as zero on one side of theta in one coordinate if it is so at 50,000 points,
        out to 16 times the prior's spread.

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
        "prior": prior,
        "f": f,
        "likelihood": likelihood,
        "theta": theta,
        "name": name,
        "description": description,
        "support_plus": support_plus,
    }
    return made_of(given)


def made_of(given: dict[str, Any], draws: int = DRAWS) -> Problem:
    """The problem of the arguments of `model`, by name.

    Arguments:
        given: The arguments. With `data`, a function log p(data | x) of x, there is no y, but an
            evidence. `prefix` is that of the names of densities in messages.
        draws: How many draws functions are tried at; if they are few, the truth is not known.
    """
    on_line = _SideBySide("prior", given["prior"]).dim == 1 and draws == DRAWS
    return (_LineModel if on_line else _Model)(given, draws)


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
    # The sides of theta on which f_plus and f_minus lie, as constraints of theta.
    _sides: tuple[Any, Any] = (None, None)

    def __init__(self, given: dict[str, Any], draws: int) -> None:
        self._given, self._draws = given, draws
        self._takes_arrays: dict[str, bool] = {}
        self._at_device: dict[tuple[str, torch.device], _SideBySide] = {}
        self.name, self.description = given["name"], given["description"]
        self.formula = _formula(given)
        x = self._add_variables(torch.Generator().manual_seed(0))
        self._target: Callable[..., Tensor] = given["f"]
        if isinstance(given["f"], str):
            theta_dim = 0 if self.theta is None else self.theta.dim
            self._target = Expression(given["f"], dim=self.x.dim, theta_dim=theta_dim)
        self._try_f(x)
        self.nonnegative = self.f_range == (0.0, 1.0) or nonnegative_at_draws(self, self.f, draws)
        self._sides = _side_of_theta(self, 1, draws), _side_of_theta(self, -1, draws)

    def _add_variables(self, generator: torch.Generator) -> Tensor:
        """Sets x, theta and y, whose ranges are those of draws, and returns the draws of x."""
        prefix = self._given.get("prefix", "")
        with named(f"{prefix}prior"):
            prior = self._fixed("prior", generator.device)
            if any(prior.whole):
                raise ValueError(
                    f"prior: expected a density over x, got {self._given['prior']}, whose x is "
                    "discrete. Sum over x instead"
                )
            x = self.sample_prior(self._draws, generator)
            self.x = prior.variable("x", "what is unknown", x)
            _check_own_draws(f"{prefix}prior", self.log_prior(x))
        if self._given["theta"] is not None:
            with named("theta"):
                theta: Any = self.sample_theta(self._draws, generator)
                law = self._fixed("theta", generator.device)
                self.theta = law.variable("theta", "the parameters of f", theta)
        if self._given["likelihood"] is not None:
            with named(f"{prefix}likelihood"):
                if not callable(self._given["likelihood"]):
                    raise ValueError(
                        "likelihood: expected a function of x that returns the distribution of y, "
                        "such as lambda x: Normal(x, 1.0), got "
                        f"{type(self._given['likelihood']).__name__}"
                    )
                # Far out, where parameters are not validated, one may overflow or underflow.
                given = self._called("likelihood", self._user("prior", x))
                law = _SideBySide("likelihood", given, (len(x),))
                y = self.sample_likelihood(x, generator)
                self.y = law.variable("y", "what is observed", y)
                _check_own_draws(f"{prefix}likelihood", self.log_likelihood(x, y))
        return x

    def _try_f(self, x: Tensor) -> None:
        """Refuses an f without a number per point, and takes the range from its values' type."""
        x = x[: math.prod(TRIED)].unflatten(0, TRIED)
        theta = self.sample_theta(TRIED[0], torch.Generator().manual_seed(1))
        shape = tuple(self._user("prior", x).shape)
        place = f"x of shape {shape} alone; pass theta= if f needs it"
        if theta is not None:
            theta = theta[:, None]
            place = f"x of shape {shape} and theta of shape {(*self._user('theta', theta).shape,)}"
        with named("f", f". It was called with {place}"):
            value = self._values(x, theta)
        if value.shape not in (TRIED, (TRIED[0], 1)):
            raise ValueError(
                f"f: expected a tensor of shape {TRIED} at x of shape {shape}, one number per "
                f"point, got {tuple(value.shape)}. Write x[..., 0] for a coordinate"
            )
        if isinstance(self._target, Expression):
            self.f_range = self._target.f_range
        elif value.dtype == torch.bool:
            self.f_range = (0.0, 1.0)

    def _fixed(self, name: str, device: torch.device) -> _SideBySide:
        """The distribution of x or theta, in float64 on a device."""
        key = name, device
        if key not in self._at_device:
            with torch.inference_mode(False):
                law = _SideBySide(name, self._given[name], dtype=torch.float64, device=device)
            self._at_device[key] = law
        return self._at_device[key]

    def _user(self, name: str, value: Tensor) -> Tensor:
        """x or theta as a user's functions get it."""
        alone = self._fixed(name, value.device).of_a_number
        return value.double()[..., 0] if alone else value.double()

    def _called(self, name: str, *values: Tensor) -> Any:
        """A user's function at tensors, or at NumPy arrays if it takes these alone."""
        function = self._given[name]
        if name not in self._takes_arrays:
            self._takes_arrays[name] = takes_arrays(function, *values)
        with np.errstate(all="ignore"):  # torch warns of no overflow
            # Copies, which a function may change.
            return function(*map(as_array if self._takes_arrays[name] else torch.clone, values))

    def _of_y(self, x: Tensor) -> _SideBySide:
        """The distribution of y at x (*, D)."""
        with _unvalidated():
            law = self._called("likelihood", self._user("prior", x))
            return _SideBySide("likelihood", law, x.shape[:-1], device=x.device)

    def _values(self, x: Tensor, theta: Tensor | None) -> Tensor:
        if isinstance(self._target, Expression):
            return self._target(x.double(), None if theta is None else theta.double())
        parameters = [] if theta is None else [self._user("theta", theta)]
        value = self._called("f", self._user("prior", x), *parameters)
        return torch.as_tensor(value, device=x.device)

    def log_prior(self, x: Tensor) -> Tensor:
        return self._fixed("prior", x.device).log_prob(x.double()).to(x.dtype)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        if "data" in self._given:
            log_p: Tensor = self._given["data"](self._user("prior", x)).to(x.dtype)
            return log_p.where(~log_p.isnan(), -math.inf)
        if self._given["likelihood"] is None:
            return torch.zeros_like(x[..., 0])
        return self._of_y(x).log_prob(y.double()).to(x.dtype)

    def log_evidence(self, y: Tensor, theta: Tensor | None) -> Array | None:
        return None if "data" in self._given else super().log_evidence(y, theta)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        shapes = [x.shape[:-1], *([] if theta is None else [theta.shape[:-1]])]
        return self._values(x, theta).to(x.dtype).expand(np.broadcast_shapes(*shapes))

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self._fixed("prior", generator.device).sample((n,))

    def prior_from_uniform(self, u: Tensor) -> Tensor | None:
        return self._fixed("prior", u.device).quantiles(u)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        if self._given["theta"] is None:
            return None
        return self._fixed("theta", generator.device).sample((n,))

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        if self._given["likelihood"] is None:
            return x[..., :0]
        return self._of_y(x).sample().to(x.dtype)

    def support_plus(self, theta: Tensor | None) -> Constraint:
        side = self._given["support_plus"] or self._sides[0]
        return self.support if side is None else side(theta)

    def support_minus(self, theta: Tensor | None) -> Constraint:
        side = self._sides[1]
        return self.support if side is None else side(theta)

    def complement(self) -> Problem:
        return _ModelComplement(self, self._draws)

    def __reduce__(self) -> Any:
        # Functions of a user may be lambdas, which pickle itself does not take.
        state = self.__getstate__() | {"_at_device": {}}
        return _unpickled, (type(self), cloudpickle.dumps(state))

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # nothing of it changes


class _ModelComplement(Complement):
    """One with M - f."""

    def __init__(self, original: Problem, draws: int) -> None:
        super().__init__(original)
        self._side = _side_of_theta(self, 1, draws)

    def support_plus(self, theta: Tensor | None) -> Constraint:
        return self.support if self._side is None else self._side(theta)


class _LineModel(_Model, LineProblem):
    """One with x on the line."""


def _unpickled(kind: type[_Model], state: bytes) -> _Model:
    made = kind.__new__(kind)
    vars(made).update(cloudpickle.loads(state))
    return made


class _SideBySide:
    """Independent distributions side by side, as one of vectors (*, D).

    Arguments:
        name: The argument that they are.
        given: One distribution, or a list of them.
        batch: The batch shape (*) that they have to have.
        to: The device where they draw, and the type and device that their parameters move to.

    Attributes:
        parts: The distributions, each of a number or a vector.
        sizes: Their numbers of coordinates.
        dim: D.
        of_a_number: Whether one distribution of a number was given.

    Raises:
        ValueError: they are no distributions, or of another shape.
    """

    def __init__(self, name: str, given: Given, batch: tuple[int, ...] = (), **to: Any) -> None:
        laws: Any = given if isinstance(given, list | tuple) else [given]
        parts = [as_torch(law, to.get("device", "cpu")) for law in laws]
        if not parts or not all(isinstance(part, Distribution) for part in parts):
            raise ValueError(
                f"{name}: expected one of torch.distributions, such as Uniform(0.0, 4.0), or of "
                f"scipy.stats, or a list of them, got {given!r:.60}"
            )
        self.name = name
        self.parts = [_copied(_at_batch(name, part, batch), **to) for part in parts]
        self.sizes = [part.event_shape.numel() for part in self.parts]
        self.dim = sum(self.sizes)
        self.of_a_number = laws is not given and not self.parts[0].event_shape

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
            log_p = log_p + _log_density(part, values)
        return log_p

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Draws of torch's global generator, (*, D) in float64."""
        return self._joined(part.sample(torch.Size(shape)).double() for part in self.parts)

    def quantiles(self, u: Tensor) -> Tensor | None:
        """Values (*, D) whose coordinates are quantiles at u (*, D); None if not all are known."""
        quantiles = []
        for part, levels in self._split(u):
            base = part.base_dist if isinstance(part, Independent) else part
            try:
                quantiles.append(base.icdf(levels))
            except NotImplementedError:
                return None
        return self._joined(quantiles)

    @property
    def whole(self) -> tuple[bool, ...]:
        """Which coordinates take whole numbers only."""
        pairs = zip(self.parts, self.sizes, strict=True)
        return tuple(_support(part).is_discrete for part, size in pairs for _ in range(size))

    def variable(self, name: str, meaning: str, draws: Tensor) -> Variable:
        """A variable that takes its values, with the typical range of draws (n, D)."""
        ends = np.concatenate([self._ends(part) for part in self.parts], -1)
        low, high = (tuple(values) for values in ends.tolist())
        whole = self.whole if any(self.whole) else None
        typical = _typical_range(draws, ends)
        return Variable(name, self.dim, low, high, meaning, typical_range=typical, whole=whole)

    def _ends(self, part: Distribution) -> Array:
        """The smallest and the largest value of a part's coordinates, (2, size).

        Infinite if they depend on where in the batch.
        """
        ends = _ends(part)
        if ends is None:
            raise ValueError(
                f"{self.name}: expected coordinates with an interval each, got {part}. For a "
                "simplex use all coordinates but the last"
            )
        shape, size = part.batch_shape + part.event_shape, part.event_shape.numel()
        rows = torch.stack([end.expand(shape).reshape(-1, size) for end in ends])
        alike = (rows == rows[:, :1]).all(1)
        line = rows.new_tensor([[-math.inf], [math.inf]])
        return rows[:, 0].where(alike, line).cpu().numpy()


def _at_batch(name: str, law: Distribution, batch: tuple[int, ...]) -> Distribution:
    """A distribution of numbers or vectors, of the batch shape: a further axis is a vector's."""
    extra = len(law.batch_shape) - len(batch)
    if law.batch_shape[: len(batch)] != batch or not 0 <= extra + len(law.event_shape) <= 1:
        shape = f"batch shape {tuple(batch)}, " if batch else ""
        raise ValueError(
            f"{name}: expected {shape}numbers or vectors, got {type(law).__name__} with batch "
            f"shape {tuple(law.batch_shape)} and event shape {tuple(law.event_shape)}"
        )
    return Independent(law, extra) if extra else law


def _copied(value: Any, **to: Any) -> Any:
    """A copy of a distribution, all the way down, that checks no arguments; its tensors moved."""
    if isinstance(value, Tensor) and to:
        dtype = to.get("dtype", value.dtype) if value.is_floating_point() else value.dtype
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


def _support(law: Distribution) -> Any:
    """The support of the coordinates of a distribution."""
    if isinstance(law, VonMises):
        # torch's is the line, on which the density repeats itself.
        return constraints.interval(-math.pi, math.pi)
    support: Any = law.support
    # Of independent ones, and of mixtures.
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support


def _log_density(law: Distribution, value: Tensor) -> Tensor:
    """The log density at values (*) or (*, D), (*).

    It is -inf outside the support, of each component of a mixture, where torch's may be finite,
    and where torch's is NaN, as far out, where something overflows.
    """
    if isinstance(law, Independent):
        return _sum_rightmost(_log_density(law.base_dist, value), law.reinterpreted_batch_ndims)
    if isinstance(law, MixtureSameFamily):
        apart = value.unsqueeze(-1 - len(law.event_shape))
        log_weights = law.mixture_distribution.logits.log_softmax(-1)
        return (log_weights + _log_density(law.component_distribution, apart)).logsumexp(-1)
    log_p = law.log_prob(value)
    return log_p.where(inside(law, value) & ~log_p.isnan(), -math.inf)


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
        return every(_support(law).check(value))
    there = torch.ones(value.shape[:axes], dtype=torch.bool, device=value.device)
    for transform in reversed(law.transforms):
        codomain: Any = transform.codomain
        there = there & every(codomain.check(value))
        value = transform.inv(value)
    return there & every(inside(law.base_dist, value))


def _ends(law: Distribution) -> tuple[Tensor, Tensor] | None:
    """Where the support of each coordinate begins and ends; None if it is no interval."""
    if isinstance(law, Independent):
        return _ends(law.base_dist)
    if isinstance(law, MixtureSameFamily):
        components = law.component_distribution
        ends = _ends(components)
        shape, axis = components.batch_shape + components.event_shape, -1 - len(law.event_shape)
        return ends and (ends[0].expand(shape).amin(axis), ends[1].expand(shape).amax(axis))
    if type(law) is TransformedDistribution:
        ends = _ends(law.base_dist)
        for transform in law.transforms:
            if ends is None or not transform.bijective or transform.codomain.event_dim:
                return None
            images = [transform(end) for end in ends]
            ends = torch.minimum(*images), torch.maximum(*images)
        return ends
    support = _support(law)
    if support.event_dim and not support.is_discrete:
        return None
    if support is constraints.boolean:
        low, high = 0.0, 1.0
    else:
        low = getattr(support, "lower_bound", -math.inf)
        high = getattr(support, "upper_bound", math.inf)
    return torch.as_tensor(low).double(), torch.as_tensor(high).double()


def _typical_range(draws: Tensor, ends: Array) -> tuple[Ends, Ends]:
    """The range of nearly all draws (n, D) within the ends (2, D), with round numbers."""
    level = draws.new_tensor([0.001, 0.999])
    quantiles = torch.quantile(draws, level, dim=0).T.tolist()
    typical = []
    for (lower, upper), (low, high) in zip(quantiles, ends.T.tolist(), strict=True):
        width = upper - lower or max(abs(lower), 1.0)
        digits = 1 - math.floor(math.log10(width))
        begin = math.floor(lower * 10**digits) * 10.0**-digits
        end = math.ceil(upper * 10**digits) * 10.0**-digits
        # An end of the support that is nearly as near ends the range.
        begin = low if lower - low < 0.02 * width else round(begin, digits)
        end = high if high - upper < 0.02 * width else round(end, digits)
        typical.append((begin, end if end > begin else begin + width))
    begins, ends = np.array(typical).T
    # Coordinates that differ by little have one range.
    if max(np.ptp(begins), np.ptp(ends)) < 0.2 * (ends - begins).min():
        begins, ends = np.full_like(begins, begins.min()), np.full_like(ends, ends.max())
    return tuple(begins.tolist()), tuple(ends.tolist())


def _check_own_draws(name: str, log_density: Tensor) -> None:
    """Refuses a log density that is -inf at draws of its own, but for a few at an end."""
    lost = float((log_density == -math.inf).double().mean())
    if lost > 0.01:
        raise ValueError(
            f"{name}: expected a finite log density at its own draws, got -inf or NaN at "
            f"{lost:.1%} of {len(log_density):,}"
        )


@contextmanager
def _unvalidated() -> Iterator[None]:
    """Distributions that are made meanwhile check no arguments."""
    with GLOBAL:
        before = Distribution._validate_args
        Distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            Distribution.set_default_validate_args(before)


def nonnegative_at_draws(problem: Problem, f: Target, draws: int = DRAWS) -> bool:
    """Whether f is negative at no draw of the prior, nor of broader densities and a known q2.

    Arguments:
        problem: The problem whose prior, y and theta are drawn.
        f: A function of x and theta.
        draws: How many draws of the prior it is tried at.

    Raises:
        ValueError: f is not finite at draws of the prior.
    """
    generator = torch.Generator().manual_seed(0)
    x = problem.sample_prior(draws, generator).double()
    theta = problem.sample_theta(draws, generator)
    value = f(x, None if theta is None else theta.double())
    bad = ~value.isfinite()
    if bad.any():
        at = int(bad.nonzero()[0])
        place = ", ".join(f"{v:.3g}" for v in x[at].tolist())
        raise ValueError(
            f"f: expected finite numbers at draws of the prior, got {float(value[at]):g} at "
            f"x = ({place}) and at {float(bad.double().mean()):.1%} of the draws"
        )
    return not ((value < 0).any() or _negative_in_tails(problem, f, 128 * draws // DRAWS))


def _negative_in_tails(problem: Problem, f: Target, n: int) -> bool:
    """Whether f is negative at a draw, n for each of some cases over the ranges of y and theta."""
    generator = torch.Generator().manual_seed(1)
    y, theta = problem.sample_cases(64, generator)
    y = _spread(problem.y, y, generator)
    theta = None if theta is None else _spread(problem.theta, theta, generator)
    densities: list[Density] = [DefensiveDensity(problem, y, theta)]
    known = problem.optimal_proposals() or {}
    densities += [known["q2"](y, theta)] if "q2" in known else []
    draws = [density.draw(n, generator)[0] for density in densities]
    return any(bool((f(x, None if theta is None else theta[:, None]) < 0).any()) for x in draws)


def _spread(variable: Variable | None, drawn: Tensor, generator: torch.Generator) -> Tensor:
    """Values over the range of a variable, or the typical one; draws where both are infinite."""
    if variable is None or not np.isfinite(variable.typical).all():
        return drawn.double()
    bounded = bool(np.isfinite(variable.ends).all())
    uniform = variable.uniform(len(drawn), generator, typical=not bounded)
    return variable.nearest(uniform.double())


def _side_of_theta(problem: Problem, sign: int, draws: int) -> Callable[[Any], Constraint] | None:
    """The set where sign f > 0, if that is one side of theta in one coordinate of x, at draws."""
    if problem.theta is None or problem.theta.dim != 1:
        return None
    generator = torch.Generator().manual_seed(2)
    x, theta = problem.sample_prior(draws, generator), problem.sample_theta(draws, generator)
    assert theta is not None
    theta = theta.to(x)
    # Far out, too, in units of the prior's spread: y may lead there.
    to_support = biject_to(problem.support)
    z = to_support.inv(x.double())
    width = torch.tensor(WIDTHS).to(z).repeat(len(z))[: len(z), None]
    x = to_support(z.mean(0) + width * (z - z.mean(0)))
    positive = sign * problem.f(x, theta) > 0
    end = torch.full_like(theta, math.inf)
    beside = theta.nextafter(end), theta.nextafter(-end)
    for i, (low, high) in enumerate(problem.x.ends.T.tolist()):
        x_i = x[:, i : i + 1]
        if len(((x_i > theta)[:, 0] == positive).unique()) > 1:
            continue
        spread = x_i - x_i.mean()
        of_i = torch.stack([theta + spread, theta + 10 * spread, *beside])[..., 0]
        points = x.repeat(len(of_i), 1, 1)
        points[..., i] = of_i
        inside = (of_i > low) & (of_i < high)
        alike = (sign * problem.f(points, theta) > 0) == (of_i > theta[:, 0])
        # Where x has an end the half-line would lead beyond it.
        if math.isinf(high) and alike[inside].all():
            return partial(_side, problem.x.ends, i, constraints.greater_than)
        if math.isinf(low) and not alike[inside].any():
            return partial(_side, problem.x.ends, i, constraints.less_than)
    return None


def _side(ends: Array, i: int, kind: Callable[[Tensor], Constraint], theta: Tensor) -> Constraint:
    """The points x whose i-th coordinate lies on one side of theta (*, 1)."""
    if ends.shape[1] == 1:
        return kind(theta)
    ranges = [between(low, high) for low, high in ends.T.tolist()]
    ranges[i] = kind(theta[..., 0])
    return constraints.stack(ranges, dim=-1)


def _formula(given: dict[str, Any]) -> str:
    """mu as an expectation, in TeX."""
    y, theta = given["likelihood"] is not None, given["theta"] is not None
    case = ",".join(["y"] * y + [r"\theta"] * theta)
    of_x = "x" + r";\theta" * theta
    mean = rf"\mathrm{{E}}[f({of_x})" + r"\mid y" * y + "]"
    return rf"\mu({case})={mean}" if case else rf"\mu={mean}"
