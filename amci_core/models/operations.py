r"""What an expression is made of: operations of torch on vectors of coordinates."""

from __future__ import annotations

__all__ = [
    "ARITHMETIC",
    "COMPARISONS",
    "FUNCTIONS",
    "OF_ONE",
    "OF_SEVERAL",
    "OTHER_WORDS",
    "OVER_COORDINATES",
    "ExpressionError",
    "Part",
    "number_of",
]

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ARITHMETIC: dict[type, Callable[[Tensor, Tensor], Tensor]] = {
    ast.Add: torch.add,
    ast.Sub: torch.sub,
    ast.Mult: torch.mul,
    ast.Div: torch.div,
}
COMPARISONS: dict[type, Callable[[Tensor, Tensor], Tensor]] = {
    ast.Lt: torch.lt,
    ast.LtE: torch.le,
    ast.Gt: torch.gt,
    ast.GtE: torch.ge,
}
OF_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "abs": torch.abs,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
}
OVER_COORDINATES: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda v: v.sum(-1, keepdim=True),
    "mean": lambda v: v.mean(-1, keepdim=True),
    "norm": lambda v: v.square().sum(-1, keepdim=True).sqrt(),
    "all": lambda v: v.amin(-1, keepdim=True),
    "any": lambda v: v.amax(-1, keepdim=True),
    "min": lambda v: v.amin(-1, keepdim=True),
    "max": lambda v: v.amax(-1, keepdim=True),
}
OF_SEVERAL: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "min": torch.minimum,
    "max": torch.maximum,
}
FUNCTIONS = (*OF_ONE, *OVER_COORDINATES, "where")

OTHER_WORDS = {
    ast.BitXor: "write ** for a power, not ^",
    ast.Eq: "== holds at no draw of a density; compare with < or >",
    ast.NotEq: "!= holds at all draws of a density; compare with < or >",
}


class ExpressionError(ValueError):
    """An expression that cannot be f.

    Arguments:
        why: What is wrong.
        column: Where, in characters from 1.
    """

    def __init__(self, why: str, column: int) -> None:
        super().__init__(f"f, column {column}: {why}")
        self.why, self.column = why, column

    def __reduce__(self) -> Any:
        return type(self), (self.why, self.column)


@dataclass(frozen=True)
class Part:
    """A part of an expression.

    Arguments:
        value: What it is at points x (*, D) and theta (*, D_theta): (*, width).
        width: Number of coordinates; 1 is a number.
        is_condition: Whether it is 0 or 1.
        nonnegative: Whether it is surely not negative.
    """

    value: Callable[[Tensor, Tensor | None], Tensor]
    width: int = 1
    is_condition: bool = False
    nonnegative: bool = False


def number_of(node: ast.expr) -> float | None:
    """A number's value; None where it is something else, infinite where a float cannot hold it."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
