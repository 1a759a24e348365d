r"""How results print."""

from __future__ import annotations

__all__ = ["Printed"]

from dataclasses import fields
from typing import Any

import numpy as np


class Printed:
    """A dataclass that prints in a line, its arrays by their ends and shapes.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(repr=False)
        ... class Row(Printed):
        ...     value: object
        >>> Row(np.array(0.123456789)), Row(np.arange(6.0).reshape(2, 3))
        (Row(value=0.123457), Row(value=0 to 5 of shape (2, 3)))
    """

    def __repr__(self) -> str:
        parts = [f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    if not isinstance(value, np.ndarray | np.number):
        return f"{value!r:.60}"
    if value.size == 1:
        return f"{value.item():.6g}"
    ends = f"{np.min(value):.4g} to {np.max(value):.4g} of " if value.size else ""
    return f"{ends}shape {value.shape}"
