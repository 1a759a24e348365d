r"""A problem made of plain functions, in NumPy or torch: ranges follow from draws."""

from __future__ import annotations

__all__ = ["problem_from"]

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_count
from amci_core.models.arrays import Function, numbers
from amci_core.models.base import Array, Problem, Variable
from amci_core.models.contract import named as naming
from amci_core.models.distributions import DRAWS, Made, check_own_draws, typical_range
from amci_core.models.line import LineProblem

# Draws that functions of one point are tried at.
FEW_DRAWS = 1000
Bound = float | Sequence[float]


def problem_from(
    *,
    log_prior: Callable[..., Any],
    sample_prior: Callable[..., Any],
    f: Callable[..., Any] | str,
    log_likelihood: Callable[..., Any] | None = None,
    sample_likelihood: Callable[..., Any] | None = None,
    sample_theta: Callable[..., Any] | None = None,
    bounds: tuple[Bound, Bound] = (-math.inf, math.inf),
    support_plus: Callable[[Tensor | None], Any] | None = None,
    vectorized: bool = True,
    processes: int = 1,
    named: Callable[[Array], Mapping[str, Any]] | None = None,
    name: str = "model",
    description: str = "",
) -> Problem:
    """A problem like any other, made of plain functions, in NumPy or torch.

    Functions are called once for n points, with rows: x of shape (n, D), y (n, D_y) and theta
    (n, D_theta), as many of each, and return n numbers. If samplers draw numbers, of shape (n,),
    functions get these as (n,). A function gets float64 NumPy arrays, or tensors if it takes
    tensors and returns one: each is tried once. Samplers get n and a `numpy.random.Generator`,
    from which all randomness has to come, or torch's global generator.

    Arguments:
        log_prior: A function of x: log p(x) in nats, -inf or NaN where p is zero.
        sample_prior: A function of n and rng: n draws of x, (n,) or (n, D).
        f: A function of x and theta, or of x alone if there is no theta; Boolean for a
            probability. Or an expression such as "x > theta", see `amci_core.with_target`.
        log_likelihood: A function of x and y: log p(y | x) in nats. Without `sample_likelihood` a
            function of x alone, for fixed data: the problem has no y, and its evidence is not
            known. None if nothing is observed.
        sample_likelihood: A function of x and rng: a draw of y for every x, (n,) or (n, D_y).
        sample_theta: A function of n and rng: n draws of the parameters of f, (n,) or
            (n, D_theta); None if there are none.
        bounds: The least and the largest value of x, each a number or one for every coordinate.
            The prior is zero beyond.
        support_plus: Outside which set f_plus is zero, see `amci_core.model`.
        vectorized: False: functions but `sample_prior` and `sample_theta` take one point, x, y and
            theta as a float or an array (D,), and return a number; `sample_likelihood` a draw.
        processes: So many worker processes evaluate functions of one point. It pays if a call
            takes more than about a millisecond.
        named: A function of x (n, D) that returns a dictionary of arrays (n, *shape): f then gets
            it in the place of x, as NumPy arrays.
        name: What the problem is called by, in files of proposals too.
        description: What it asks, in a few sentences.

    Returns:
        A `Problem`: `amci_core.check`, `learn`, `estimate` and the page take it. With one number
        x, and functions that take all points, the truth comes from quadrature.

    Raises:
        ValueError: a function raises (the message has the line), or returns another shape, no
            numbers, or draws that do not follow rng; a log density is -inf or NaN at draws.

    Warning:
        What holds for f is tried at 10,000 draws, at 1,000 with `vectorized=False`, as by `model`.

    Example:
        >>> import numpy as np
        >>> from scipy.stats import norm
        >>> exceeds = problem_from(
        ...     log_prior=norm.logpdf,
        ...     sample_prior=lambda n, rng: rng.normal(size=n),
        ...     log_likelihood=lambda x, y: norm.logpdf(y, x, 0.5),
        ...     sample_likelihood=lambda x, rng: rng.normal(x, 0.5),
        ...     f=lambda x, theta: x > theta,
        ...     sample_theta=lambda n, rng: rng.uniform(0.0, 4.0, n),
        ... )
        >>> round(float(exceeds.truth(y=1.0, theta=2.0)), 6)
        0.003645
    """
    given = dict(locals())
    check_count("processes", processes, low=1, high=1000)
    if vectorized and processes > 1:
        raise ValueError(
            f"processes: expected 1 for functions of all points, got {processes}. Write functions "
            "of one point, with vectorized=False"
        )
    if sample_likelihood is not None and log_likelihood is None:
        raise ValueError("log_likelihood: expected a function of x and y, got None")
    with naming("sample_prior"), torch.random.fork_rng(devices=[]):
        draws = numbers("sample_prior", sample_prior(2, np.random.default_rng(0)), 2, vectors=True)
    kind = _LineOfFunctions if vectorized and draws.numel() == 2 else _OfFunctions
    return kind(given, DRAWS if vectorized else FEW_DRAWS)


class _OfFunctions(Made):
    """A problem of functions, see `problem_from`."""

    def _add_variables(self, generator: torch.Generator) -> Tensor:
        given = self._given
        options = {name: given[name] for name in ("vectorized", "processes")}
        # Which of x, y and theta are numbers.
        self._numbers: set[str] = set()
        self._functions = {
            name: Function(name, given[name], **options)
            for name in ("log_prior", "log_likelihood", "sample_likelihood")
            if given[name] is not None
        }
        x = self._first_draws("x", "sample_prior", self._draws, generator)
        bounds = [np.broadcast_to(np.asarray(end, float), x.shape[1]) for end in given["bounds"]]
        self.x = _variable("x", "what is unknown", x, np.stack(bounds))
        check_own_draws("log_prior", self.log_prior(x))
        if given["sample_theta"] is not None:
            theta = self._first_draws("theta", "sample_theta", self._draws, generator)
            self.theta = _variable("theta", "the parameters of f", theta)
        if given["sample_likelihood"] is not None:
            y = self._first_draws("y", "sample_likelihood", x, generator)
            self.y = _variable("y", "what is observed", y)
            check_own_draws("log_likelihood", self.log_likelihood(x, y))
        f = given["f"] if given["named"] is None else self._f_of_named
        self._functions["f"] = Function("f", f, **options)
        return x

    def _first_draws(
        self, variable: str, sampler: str, of: int | Tensor, generator: torch.Generator
    ) -> Tensor:
        """Draws of a variable (n, D), which show whether it is a number, and follow the seed."""
        few = of[:4] if isinstance(of, Tensor) else 4
        pair = [self._drawn(sampler, few, torch.Generator().manual_seed(1)) for _ in range(2)]
        if not torch.equal(*pair):
            raise ValueError(
                f"{sampler}: expected the same draws by the same rng, or finite ones. Draw by it, "
                "such as rng.normal(size=n)"
            )
        if pair[0].ndim == 1:
            self._numbers.add(variable)
        return self._drawn(sampler, of, generator).reshape(self._draws, -1)

    def _drawn(self, sampler: str, of: int | Tensor, generator: torch.Generator) -> Tensor:
        """n draws by n, or for x (n, D), as the sampler gives them."""
        seed = torch.randint(2**62, (), generator=generator, device=generator.device)
        rng = np.random.default_rng(int(seed))
        if isinstance(of, Tensor):
            return self._functions[sampler](self._rows("x", of.double()), rng=rng).to(of)
        with naming(sampler):
            draws = numbers(sampler, self._given[sampler](of, rng), of, vectors=True)
        return draws.double().to(generator.device)

    def _rows(self, variable: str, value: Tensor) -> Tensor:
        """x, y or theta (n, D) as functions get it."""
        return value[:, 0] if variable in self._numbers else value

    def _at(self, function: str, **values: Tensor) -> Tensor:
        """A function at x, y and theta, (*, D), which broadcast: (*)."""
        batch = torch.broadcast_shapes(*(value.shape[:-1] for value in values.values()))
        rows = [
            self._rows(name, value.double().expand(*batch, -1).reshape(-1, value.shape[-1]))
            for name, value in values.items()
        ]
        value = self._functions[function](*rows)
        return value.reshape(batch).to(values["x"].device)

    def _f_of_named(self, x: Any, *theta: Any) -> Any:
        """f of named arrays, at points or, unless vectorized, at a point."""
        arrays = self.named_draws(np.reshape(np.asarray(x, float), (-1, self.x.dim)))
        if not self._given["vectorized"]:
            arrays = {name: array[0] for name, array in arrays.items()}
        return self._given["f"](arrays, *theta)

    def _values(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return self._at("f", x=x, **({} if theta is None else {"theta": theta}))

    def log_prior(self, x: Tensor) -> Tensor:
        low, high = x.new_tensor(self.x.ends)
        log_p = _density(self._at("log_prior", x=x))
        return log_p.where(((x >= low) & (x <= high)).all(-1), -math.inf).to(x.dtype)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        if self._given["log_likelihood"] is None:
            return torch.zeros_like(x[..., 0])
        observed = {} if self.y is None else {"y": y}
        return _density(self._at("log_likelihood", x=x, **observed)).to(x.dtype)

    def log_evidence(self, y: Tensor, theta: Tensor | None) -> Array | None:
        # A likelihood without y is that of fixed data.
        return None if self._given["log_likelihood"] else super().log_evidence(y, theta)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self._drawn("sample_prior", n, generator).reshape(n, -1)

    def sample_theta(self, n: int, generator: torch.Generator) -> Tensor | None:
        if self._given["sample_theta"] is None:
            return None
        return self._drawn("sample_theta", n, generator).reshape(n, -1)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        if self.y is None:
            return x[..., :0]
        y = self._drawn("sample_likelihood", x.reshape(-1, x.shape[-1]), generator)
        return y.reshape(*x.shape[:-1], -1)

    def named_draws(self, x: Array) -> dict[str, Array]:
        if self._given["named"] is None:
            return super().named_draws(x)
        with naming("named"):
            arrays = self._given["named"](np.asarray(x, float))
            return {name: np.asarray(array) for name, array in arrays.items()}


class _LineOfFunctions(_OfFunctions, LineProblem):
    """One with x on the line."""


def _variable(name: str, meaning: str, draws: Tensor, ends: Array | None = None) -> Variable:
    """A variable with the typical range of draws (n, D), and their least value 0 as an end."""
    if ends is None:
        low = np.where(draws.amin(0).cpu() == 0, 0.0, -math.inf)
        ends = np.stack([low, np.full_like(low, math.inf)])
    lowest, highest = (tuple(end) for end in ends.tolist())
    typical = typical_range(draws, ends)
    return Variable(name, draws.shape[1], lowest, highest, meaning, typical_range=typical)


def _density(log_p: Tensor) -> Tensor:
    """A log density that is -inf where it is NaN, as far out, where something overflows."""
    return log_p.where(~log_p.isnan(), -math.inf)
