r"""What users bring from NumPy: functions of arrays, and scipy's distributions as torch's."""

from __future__ import annotations

__all__ = ["ArrayDistribution", "Function", "as_array", "as_torch", "numbers", "takes_arrays"]

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from itertools import repeat
from typing import Any, ClassVar

import cloudpickle
import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from amci_core.models.base import Array
from amci_core.models.contract import named

ALL = ". It takes all points at once, a row each; vectorized=False passes one at a time"


def as_array(value: Tensor) -> Array:
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

    with torch.enable_grad():
        result = tried(lambda value: value.clone().requires_grad_())
    if isinstance(tried(as_array), Exception):
        # It may be NumPy's, and wrong.
        return isinstance(tried(torch.clone), Exception) and "call numpy()" in str(result)
    parts = result if isinstance(result, list | tuple) else [result]
    return not all(isinstance(part, Tensor | Distribution) for part in parts)


@dataclass
class Function:
    """A user's function of points, as one of tensors that broadcast.

    It is called once for all points, with a row for each, or for one point at a time. Whether it
    is in torch or NumPy is tried at the first call.

    Arguments:
        name: The argument that it is, for messages.
        function: The function: of numbers and vectors at a point, with a number at a point.
        axes: How many axes each of its arguments has at a point, none or one.
        vectorized: Whether it takes all points, (n,) or (n, D); else a float or an array (D,).
        processes: How many worker processes call a function of one point.

    Example:
        >>> import math
        >>> wave = Function("f", lambda x, v: math.sin(x - v[0]), (0, 1), vectorized=False)
        >>> wave(torch.zeros(4, 3), torch.zeros(4, 1, 2)).shape
        torch.Size([4, 3])
    """

    name: str
    function: Any
    axes: tuple[int, ...]
    vectorized: bool = True
    processes: int = 1
    takes_arrays: bool | None = None

    def __call__(self, *values: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        """Its values (*), Boolean or float64; with an rng, which it gets last, draws (*, D), too.

        Raises:
            ValueError: it raises, or gives something else than real numbers.
        """
        ends = [value.ndim - axes for value, axes in zip(values, self.axes, strict=True)]
        pairs = list(zip(values, ends, strict=True))
        batch = torch.broadcast_shapes(*(value.shape[:end] for value, end in pairs))
        wide = [value.detach().double().expand(*batch, *value.shape[end:]) for value, end in pairs]
        rows = [value.reshape(batch.numel(), *value.shape[len(batch) :]) for value in wide]
        draws = () if rng is None else (rng,)
        with np.errstate(all="ignore"), named(self.name, ALL * self.vectorized):
            result = numbers(self.name, self._result(rows, draws), batch.numel(), bool(draws))
        return result.to(values[0].device).reshape(*batch, *result.shape[1:])

    def _result(self, rows: list[Tensor], draws: tuple[Any, ...]) -> Any:
        if self.vectorized:
            if self.takes_arrays is None:
                some, first = [row[:21] for row in rows], deepcopy(draws)
                self.takes_arrays = takes_arrays(self.function, *some, *deepcopy(draws))
                # What pairs all points with one another is refused before it fills the memory.
                numbers(self.name, self._result(some, first), len(some[0]), bool(draws))
            # Copies, which a function may change.
            return self.function(
                *map(as_array if self.takes_arrays else torch.clone, rows), *draws
            )
        columns = [row.tolist() if row.ndim == 1 else list(as_array(row)) for row in rows]
        if self.processes == 1 or draws:
            return list(map(self.function, *columns, *map(repeat, draws)))
        at_point = partial(_in_worker, self.name, cloudpickle.dumps(self.function))
        size = max(1, len(columns[0]) // (4 * self.processes))
        # Anew for each call: workers that wait would hold the pipes of their parent.
        with ProcessPoolExecutor(self.processes) as workers:
            return list(workers.map(at_point, *columns, chunksize=size))


def numbers(name: str, value: Any, n: int, vectors: bool) -> Tensor:
    """What a user's function gave for n points as a tensor, Boolean or float64.

    Arguments:
        name: The function's argument, for messages.
        value: A tensor or an array, or what NumPy makes one of: (n,).
        n: Number of points.
        vectors: Whether (n, D) is right, too.

    Raises:
        ValueError: it has another shape, or holds no real numbers.
    """
    if isinstance(value, Tensor):
        tensor = value.detach()
    else:
        array = np.array(value)
        # Objects and long doubles, which torch does not know.
        tensor = torch.from_numpy(array.astype(float) if array.dtype.char in "Og" else array)
    if tensor.shape[:1] != (n,) or tensor.ndim > 1 + vectors or tensor.is_complex():
        raise ValueError(
            f"{name}: expected real numbers of shape ({n},){f' or ({n}, D)' * vectors}, one "
            f"{'draw' if vectors else 'number'} per point, got {tensor.dtype} of shape "
            f"{tuple(tensor.shape)}"
        )
    return tensor if tensor.dtype == torch.bool else tensor.double()


_unpacked = cache(cloudpickle.loads)


def _in_worker(name: str, packed: bytes, *point: Any) -> Any:
    with named(name):
        return _unpacked(packed)(*point)


class ArrayDistribution(Distribution):
    """A distribution that functions make, which draws by torch's global generator.

    Arguments:
        log_density: A function of values, a tensor.
        draw: A function of a shape and an rng that gives draws of this shape.
        ends: The least and the largest value of coordinates, float64 tensors on the device.
        shapes: Its batch shape and its event shape.
        whole: Whether values are whole numbers.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, log_density: Any, draw: Any, ends: Any, shapes: Any, *, whole: bool = False
    ) -> None:
        self.log_density, self.draw, self.whole = log_density, draw, whole
        self.low, self.high = ends
        batch, event = map(torch.Size, shapes)
        super().__init__(batch, event, validate_args=False)

    @property
    def support(self) -> Any:
        kind = constraints.integer_interval if self.whole else constraints.interval
        return kind(self.low, self.high)

    def log_prob(self, value: Tensor) -> Tensor:
        with np.errstate(all="ignore"):  # torch warns of no overflow
            return torch.as_tensor(self.log_density(value)).to(value)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        rng = np.random.default_rng(int(torch.randint(2**62, (), device=self.low.device)))
        shape = self._extended_shape(torch.Size(sample_shape))
        return torch.as_tensor(self.draw(shape, rng)).to(self.low).reshape(shape)


def as_torch(law: Any, device: Any) -> Any:
    """A frozen distribution of scipy as one of torch's; anything else as it is."""
    if not type(law).__module__.startswith("scipy.stats") or not hasattr(law, "cdf"):
        return law
    of_number = hasattr(law, "support")
    event = () if of_number else np.shape(law.rvs(2))[1:]
    low, high = law.support() if of_number else (-np.inf, np.inf)
    ends = torch.tensor(np.array([low, high], float), device=device).unbind()
    # Those of scipy 1.15 that are new have both.
    kinds = [kind.__name__ for kind in type(law).__mro__]
    whole = not hasattr(law, "logpdf") or "DiscreteDistribution" in kinds
    density = law.logpmf if whole else law.logpdf

    def log_density(value: Tensor) -> Any:
        if of_number:
            return density(as_array(value))
        rows = density(as_array(value).reshape(-1, *event))
        return np.reshape(rows, value.shape[: value.ndim - len(event)])

    def draw(shape: torch.Size, rng: np.random.Generator) -> Any:
        count = shape[: len(shape) - np.ndim(low) - len(event)]
        if hasattr(law, "sample"):
            return law.sample(count, rng=rng)
        return law.rvs(size=shape if of_number else count, random_state=rng)

    made = ArrayDistribution(log_density, draw, ends, (np.shape(low), event), whole=whole)
    if quantile := getattr(law, "icdf", getattr(law, "ppf", None)):
        vars(made)["icdf"] = lambda value: torch.as_tensor(quantile(as_array(value))).to(value)
    return made
