r"""A problem made of plain functions, in NumPy or torch: ranges follow from draws."""

from __future__ import annotations

__all__ = ["check_latents", "check_observed", "needs", "problem_from"]

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_count
from amci_core.models.arrays import ArrayDistribution, Function, numbers
from amci_core.models.base import Array, Problem
from amci_core.models.contract import FunctionError
from amci_core.models.contract import named as naming
from amci_core.models.distributions import DRAWS, made_of

# Draws that functions of one point are tried at.
FEW_DRAWS = 1000
# Draws by which a sampler is tried.
TRIED = 32
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
    of_all = " of functions of all points" * vectorized
    check_count(f"processes{of_all}", processes, low=1, high=1 if vectorized else 1000)
    function = partial(Function, vectorized=vectorized, processes=processes)
    prior = _law("sample_prior", sample_prior, partial(function, "log_prior", log_prior), bounds)
    law = None if sample_theta is None else _law("sample_theta", sample_theta)
    of_x = len(prior.event_shape)
    of_theta = () if law is None else (len(law.event_shape),)
    given: dict[str, Any] = {
        **{"prefix": "log_", "prior": prior, "likelihood": None, "theta": law, "f": f},
        **{"name": name, "description": description, "support_plus": support_plus},
    }
    if not isinstance(f, str):
        target = f if named is None else partial(_at_named, f, named, prior, vectorized)
        given["f"] = function("f", target, (of_x, *of_theta))
    if sample_likelihood is not None:
        sample = function("sample_likelihood", sample_likelihood, (of_x,))
        some = prior.sample((TRIED,))
        y = _follows("sample_likelihood", lambda rng: sample(some, rng=rng))
        density = function("log_likelihood", log_likelihood, (of_x, y.ndim - 1))
        given["likelihood"] = lambda x: ArrayDistribution(
            partial(density, x),
            lambda _, rng: sample(x, rng=rng),
            x.new_tensor([-math.inf, math.inf]).unbind(),
            (x.shape[: x.ndim - of_x], y.shape[1:]),
        )
    elif log_likelihood is not None:
        given["data"] = function("log_likelihood", log_likelihood, (of_x,))
    made = made_of(given, DRAWS if vectorized else FEW_DRAWS)
    if named is not None:
        vars(made)["named_draws"] = named
    return made


def _law(
    name: str, sampler: Any, log_density: Any = None, bounds: Any = (-math.inf, math.inf)
) -> ArrayDistribution:
    """The distribution of x or theta that a sampler of n draws and a log density make."""

    def draws(n: int, rng: np.random.Generator) -> Tensor:
        with naming(name):
            return numbers(name, sampler(n, rng), n, True)

    event = _follows(name, lambda rng: draws(TRIED, rng)).shape[1:]
    with naming("bounds"):
        low, high = ends = [torch.tensor(bound).double().expand(event) for bound in bounds]
        if not (low < high).all():
            raise ValueError(f"bounds: expected the least values, then the largest, got {bounds}")
    density = log_density and log_density((len(event),))
    return ArrayDistribution(
        density, lambda shape, rng: draws(shape.numel() // event.numel(), rng), ends, ((), event)
    )


def _follows(name: str, draw: Callable[[np.random.Generator], Tensor]) -> Tensor:
    """A sampler's draws (n,) or (n, D), which have to follow rng or torch's global generator."""

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return draw(np.random.default_rng(seed))

    with torch.random.fork_rng(devices=[]):
        first, again, other = map(drawn, (0, 0, 1))
    fixed = torch.equal(first, other) and len(first.unique(dim=0)) > 1
    if fixed or not torch.equal(first, again) or not first.numel():
        raise ValueError(
            f"{name}: expected finite draws, the same by the same rng and others by another. Draw "
            "by it, such as rng.normal(size=n)"
        )
    return first


def _at_named(
    f: Any, named: Any, prior: ArrayDistribution, vectorized: bool, x: Any, *theta: Any
) -> Any:
    """f of the arrays that `named` makes of x, at points or, unless vectorized, at a point."""
    rows = np.asarray(x).reshape(-1, prior.event_shape.numel())
    arrays = named(rows)
    sizes = {np.shape(array)[:1] for array in arrays.values()}
    if sizes != {(len(rows),)}:
        raise FunctionError(
            f"named: expected arrays with {len(rows)} rows, one for each point, got {sizes}"
        )
    return f(arrays if vectorized else {k: array[0] for k, array in arrays.items()}, *theta)


def check_observed(
    observed: Sequence[str] | None, known: Sequence[str], others: Sequence[str]
) -> list[str]:
    """The names of a model's observed variables that are y, in their order.

    Arguments:
        observed: The user's names; None: all.
        known: The observed variables.
        others: Its further terms, such as potentials, which draws of the prior do not follow.

    Raises:
        ValueError: some are left out, or there are further terms beside y.
    """
    observed = [observed] if isinstance(observed, str) else observed
    chosen = [*known] if observed is None else [*observed]
    if chosen and sorted(chosen) != sorted(known):
        raise ValueError(
            f"observed: expected all of {[*known]}, or [] for a problem without y, got {chosen}. "
            "Draws of y do not depend on the data of the others"
        )
    if chosen and others:
        raise ValueError(
            f"observed: expected [], for a problem without y, got {chosen}. Draws do not follow "
            f"{others[0]}"
        )
    return chosen


def check_latents(refused: Iterable[str]) -> None:
    """Refuses latent variables, by their names, that have no proper density on the line."""
    for name in refused:
        raise ValueError(
            f"model: expected latent variables with a density, got {name}, which is discrete, on "
            "a circle or ordered, or has an improper prior. Sum it out (marginalize), or give it "
            "a prior such as Normal"
        )


def needs(function: str, library: str, extra: str, module: str = "") -> None:
    """Refuses a function whose library is missing."""
    if not find_spec(module or extra):
        raise ImportError(f"{function}: needs {library}. pip install 'amci-explorer[{extra}]'")
