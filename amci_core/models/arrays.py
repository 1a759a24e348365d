r"""What users bring from NumPy: functions of arrays, and scipy's distributions as torch's."""

from __future__ import annotations

__all__ = ["Function", "as_array", "as_torch", "numbers", "takes_arrays"]

import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from functools import cache, partial
from itertools import chain, repeat
from multiprocessing import get_context
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution, constraints

from amci_core.models.contract import named


def as_array(value: Tensor) -> NDArray[np.float64]:
    """A copy as float64, which a user's function may change."""
    return value.detach().cpu().numpy().astype(np.float64)


def takes_arrays(function: Callable[..., Any], *values: Any) -> bool:
    """Whether a function has to be called with NumPy arrays: it takes them, and no tensors.

    NumPy's functions half take tensors, with a warning; those with a gradient they refuse.

    Arguments:
        function: A function that gives numbers or a distribution.
        values: Tensors to try it at, and other arguments.
    """

    def tried(form: Callable[[Tensor], Any]) -> Any:
        try:
            return function(*(form(v) if isinstance(v, Tensor) else v for v in values))
        except Exception as error:  # of a user's function
            return error

    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = tried(lambda value: value.clone().requires_grad_())
        if isinstance(tried(as_array), Exception):
            # It may be NumPy's, and wrong.
            return isinstance(tried(torch.clone), Exception) and "call numpy()" in str(result)
    parts = result if isinstance(result, list | tuple) else [result]
    return not all(isinstance(part, Tensor | Distribution) for part in parts)


class Function:
    """A user's function of n points, called once for all, or for one at a time.

    Whether it is in torch or NumPy is tried at the first call.

    Arguments:
        name: The argument that it is, for messages.
        function: The function. At a point its arguments and its result are numbers or vectors.
        vectorized: Whether it takes all points, (n,) or (n, D); else a float or an array (D,).
        processes: How many worker processes call a function of one point.

    Example:
        >>> import math
        >>> wave = Function("f", lambda x, theta: math.sin(x - theta[0]), vectorized=False)
        >>> wave(torch.zeros(4), torch.zeros(4, 2))
        tensor([0., 0., 0., 0.], dtype=torch.float64)
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        vectorized: bool = True,
        processes: int = 1,
    ) -> None:
        self.name, self.function = name, function
        self.vectorized, self.processes = vectorized, processes
        self._takes_arrays: bool | None = None

    def __call__(self, *rows: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        """Its values at the rows of its arguments, (n,) or (n, D) each: (n,), or (n, D) of draws.

        Raises:
            ValueError: it raises, or gives something else than numbers.
        """
        n, draws = len(rows[0]), () if rng is None else (rng,)
        shapes = ", ".join(str(tuple(row.shape)) for row in rows)
        called = "one point at a time"
        if self.vectorized:
            called = f"all points, shapes {shapes}; vectorized=False passes one at a time"
        with np.errstate(all="ignore"), named(self.name, f". It was called with {called}"):
            if not self.vectorized:
                return numbers(self.name, self._at_points(rows, draws), n, vectors=bool(draws))
            if self._takes_arrays is None:
                some = [row[:21] for row in rows]
                self._takes_arrays = takes_arrays(self.function, *some, *deepcopy(draws))
            given = map(as_array, rows) if self._takes_arrays else rows
            return numbers(self.name, self.function(*given, *draws), n, vectors=bool(draws))

    def _at_points(self, rows: tuple[Tensor, ...], draws: tuple[Any, ...]) -> list[Any]:
        columns = [row.tolist() if row.ndim == 1 else list(as_array(row)) for row in rows]
        if self.processes == 1 or draws:
            return list(map(self.function, *columns, *map(repeat, draws)))
        packed, size = (
            cloudpickle.dumps(self.function),
            -(-len(columns[0]) // (4 * self.processes)),
        )
        parts = [[c[i : i + size] for c in columns] for i in range(0, len(columns[0]), size)]
        return list(chain(*_workers(self.processes).map(partial(_in_worker, packed), parts)))


def numbers(name: str, value: Any, n: int, *, vectors: bool = False) -> Tensor:
    """What a user's function gave for n points as a tensor, Boolean or float64.

    Arguments:
        name: The function's argument, for messages.
        value: A tensor or an array, or what NumPy makes one of: (n,).
        n: Number of points.
        vectors: Whether (n, D) is right, too.

    Raises:
        ValueError: it has another shape, or holds no real numbers.
    """
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            value = torch.from_numpy(np.array(array, bool if array.dtype.kind == "b" else float))
    shape = tuple(np.shape(value))
    real = isinstance(value, Tensor) and not value.is_complex()
    if not real or shape[:1] != (n,) or len(shape) > 1 + vectors:
        more = f" or ({n}, D)" if vectors else ", one number per point"
        kind = "" if real else f" of {getattr(value, 'dtype', np.asarray(value).dtype)}"
        raise ValueError(
            f"{name}: expected real numbers of shape ({n},){more}, got shape {shape}{kind}"
        )
    tensor: Tensor = value.detach()
    return tensor.to(torch.bool if tensor.dtype == torch.bool else torch.float64)


@cache
def _workers(processes: int) -> ProcessPoolExecutor:
    """Worker processes, which end with this one.

    Forked ones are there at once, and do not run the main script again.
    """
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    return ProcessPoolExecutor(processes, context)


def _in_worker(packed: bytes, columns: Iterable[Iterable[Any]]) -> list[Any]:
    return list(map(_unpacked(packed), *columns))


_unpacked = cache(cloudpickle.loads)


def as_torch(law: Any, device: torch.device) -> Any:
    """A distribution of scipy as one of torch's; anything else as it is."""
    of_scipy = type(law).__module__.startswith("scipy.stats") and hasattr(law, "cdf")
    return FrozenDistribution(law, device) if of_scipy else law


class FrozenDistribution(Distribution):
    """A frozen distribution of scipy as one of torch's, which draws by torch's global generator.

    Arguments:
        law: A distribution of `scipy.stats`, of numbers or of one vector.
        device: Where its draws are.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, law: Any, device: torch.device) -> None:
        self.law, self.unit = law, torch.zeros((), dtype=torch.float64, device=device)
        # The one of scipy 1.15, whose numbers have both, or the earlier one.
        kinds = [kind.__name__ for kind in type(law).__mro__]
        self.whole = not hasattr(law, "logpdf") or "DiscreteDistribution" in kinds
        self.range: Any = constraints.real
        batch, event = torch.Size(), torch.Size()
        if hasattr(law, "support"):
            low, high = (torch.tensor(end).to(self.unit) for end in law.support())
            interval = constraints.integer_interval if self.whole else constraints.interval
            self.range, batch = interval(low, high), low.shape
        else:
            event = torch.Size(np.shape(law.rvs(2))[1:])
        super().__init__(batch, event, validate_args=False)

    @property
    def support(self) -> Any:
        return self.range

    def log_prob(self, value: Tensor) -> Tensor:
        log_density = self.law.logpmf if self.whole else self.law.logpdf
        points = as_array(value)
        with np.errstate(all="ignore"):  # torch warns of no overflow
            if hasattr(self.law, "support"):
                return torch.as_tensor(log_density(points)).to(value)
            rows = points.reshape(-1, *self.event_shape)
            batch = value.shape[: value.ndim - len(self.event_shape)]
            return torch.as_tensor(log_density(rows)).to(value).reshape(batch)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        seed = int(torch.randint(2**62, (), device=self.unit.device))
        shape, rng = self._extended_shape(torch.Size(sample_shape)), np.random.default_rng(seed)
        if hasattr(self.law, "sample"):
            draws = self.law.sample(tuple(sample_shape), rng=rng)
        else:
            size = shape if hasattr(self.law, "support") else tuple(sample_shape)
            draws = self.law.rvs(size=size, random_state=rng)
        return torch.as_tensor(draws).to(self.unit).reshape(shape)

    def icdf(self, value: Tensor) -> Tensor:
        quantile = getattr(self.law, "icdf", getattr(self.law, "ppf", None))
        if quantile is None:
            raise NotImplementedError
        return torch.as_tensor(quantile(as_array(value))).to(value)
