r"""A variable of a problem: its name, dimension and range, and the check of its values."""

from __future__ import annotations

__all__ = ["Variable"]

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Variable:
    """One of the variables x, y, theta of a problem: its name, unit, dimension and range.

    Arguments:
        name: The variable's name in formulas, such as `theta`.
        dim: Its number of coordinates D.
        low: Smallest value a coordinate may take (`-inf` where there is none).
        high: Largest value a coordinate may take.
        meaning: What it stands for, in one line.
        unit: Its unit, empty where it has none.
        shown: The usual range of a coordinate, where most cases lie: networks are scaled to it,
            training spreads cases over it, maps and controls cover it. None for low to high.
    """

    name: str
    dim: int
    low: float
    high: float
    meaning: str
    unit: str = ""
    shown: tuple[float, float] | None = None

    @property
    def usual_range(self) -> tuple[float, float]:
        """`shown`, or the whole range where nothing is said."""
        return self.shown or (self.low, self.high)

    def check(self, value: Any) -> Tensor:
        """Returns `value` as a float64 tensor of shape (*, D), or says what is wrong with it.

        Raises:
            ValueError: `value` is no number, is not finite, lies outside the range, or its last
                axis is not D.
        """
        try:
            tensor = _as_float64(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.name}: expected {self._allowed()}, got {value!r}") from error
        if tensor.ndim == 0 and self.dim == 1:
            tensor = tensor[None]
        if tensor.ndim == 0 or tensor.shape[-1] != self.dim or tensor.numel() == 0:
            # A row of numbers, where each would be a case of its own.
            row = self.dim == 1 and tensor.ndim == 1 and tensor.numel() > 1
            hint = "; for several cases give shape (cases, 1), such as [[1.0], [2.0]]"
            raise ValueError(
                f"{self.name}: expected {self._allowed()}, got shape {tuple(tensor.shape)}"
                f"{hint if row else ''}"
            )
        bad = ~torch.isfinite(tensor) | (tensor < self.low) | (tensor > self.high)
        if bad.any():
            raise ValueError(
                f"{self.name}: expected {self._allowed()}, got {tensor[bad][0].item():g}"
            )
        return tensor

    def _allowed(self) -> str:
        shape = f"an array of shape (..., {self.dim})"
        kind = f"a number or {shape}" if self.dim == 1 else shape
        return f"{kind} within [{self.low:g}, {self.high:g}]"


def _as_float64(value: Any) -> Tensor:
    # Conversions would turn None into NaN, and drop the imaginary part of a complex number.
    if isinstance(value, Tensor):
        if value.is_complex():
            raise TypeError
        return value.detach().double()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError
    # A copy: torch takes no reversed and warns of read-only arrays.
    return torch.as_tensor(np.array(array, np.float64, order="C"))
