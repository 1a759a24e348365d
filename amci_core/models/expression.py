r"""f as a line of text: an expression of x and theta, evaluated by torch, never run as code.

Python's parser makes a tree of the text. What is not in the table below is refused with its place;
the rest are operations of torch. Vectors are allowed inside, the whole is a number:

    x, theta                  all coordinates; x1, x2 or x[0], x[1] for one of them
    + - * / **                the exponent is a number from -8 to 8
    < <= > >=, and or not     1 where it holds, else 0
    a if c else b             or where(c, a, b)
    exp log sqrt abs sin cos tanh
    min max                   of several numbers, or over the coordinates of one vector
    sum mean norm all any     over the coordinates
"""

from __future__ import annotations

__all__ = ["LONGEST", "Expression", "ExpressionError"]

import ast
import math
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Characters of a text.
LONGEST = 200
LARGEST_NUMBER, LARGEST_EXPONENT = 1e9, 8
# What people copy from a page, character by character.
TYPED = str.maketrans("₀₁₂₃₄₅₆₇₈₉−×·", "0123456789-**")

COORDINATES: dict[str, Any] = {"dim": -1, "keepdim": True}
# Operators of the text's tree, and functions.
OPERATIONS: dict[Any, Callable[..., Tensor]] = {
    **{ast.Add: torch.add, ast.Sub: torch.sub, ast.Mult: torch.mul, ast.Div: torch.div},
    **{ast.Lt: torch.lt, ast.LtE: torch.le, ast.Gt: torch.gt, ast.GtE: torch.ge},
    **{ast.UAdd: torch.positive, ast.USub: torch.neg, ast.Not: torch.logical_not},
    **{ast.And: torch.logical_and, ast.Or: torch.logical_or, "where": torch.where},
    **{name: getattr(torch, name) for name in ("exp", "log", "sqrt", "abs", "sin", "cos", "tanh")},
    "min": lambda v, *more: reduce(torch.minimum, more, v) if more else v.amin(**COORDINATES),
    "max": lambda v, *more: reduce(torch.maximum, more, v) if more else v.amax(**COORDINATES),
    "norm": lambda v: v.square().sum(**COORDINATES).sqrt(),
    "sum": partial(torch.sum, **COORDINATES),
    "mean": partial(torch.mean, **COORDINATES),
    "all": partial(torch.all, **COORDINATES),
    "any": partial(torch.any, **COORDINATES),
}
FUNCTIONS = ", ".join(name for name in OPERATIONS if isinstance(name, str))
# Arguments are numbers but for these; those of where are a condition and two values.
OF_CONDITIONS = (ast.Not, ast.And, ast.Or, "all", "any")
# Functions take one argument but for these: how many at least and at most, and in words.
COUNTS = {
    **dict.fromkeys(("min", "max"), (1, LONGEST, "one number or more")),
    "where": (3, 3, "three arguments"),
}
COMPARE = "Write a comparison with < or >, such as x1 > theta"
HINTS = {
    ast.BitXor: "unexpected '^'. Write a power with **",
    ast.BitAnd: "unexpected '&'. Join conditions with and",
    ast.BitOr: "unexpected '|'. Join conditions with or",
    ast.Eq: f"x has a density, so == holds with probability 0. {COMPARE}",
    ast.NotEq: f"x has a density, so != holds with probability 1. {COMPARE}",
}


class ExpressionError(ValueError):
    """An expression that cannot be f.

    Arguments:
        why: What is wrong.
        column: Where, in characters from 1.
    """

    def __init__(self, why: str, column: int) -> None:
        super().__init__(why, column)
        self.why, self.column = why, column

    def __str__(self) -> str:
        return f"f, column {self.column}: {self.why}"


class Expression:
    """An expression of x and theta, ready to be evaluated at points.

    Arguments:
        text: The expression, at most 200 characters on a line.
        dim: Number of dimensions D of x.
        theta_dim: Number of dimensions of theta; zero if there is none.

    Attributes:
        text: The expression.
        f_range: 0 and 1 for a condition, else unbounded.

    Raises:
        ExpressionError: it is none; with the column of the mistake.

    Example:
        >>> tail = Expression("x1 > theta", dim=1, theta_dim=1)
        >>> tail(torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0]]))
        tensor([0., 1.])
        >>> try:
        ...     Expression("x1 + y", dim=1, theta_dim=1)
        ... except ExpressionError as error:
        ...     print(error)
        f, column 6: f does not depend on y. Use x, x1, theta, theta1
    """

    def __init__(self, text: str, *, dim: int, theta_dim: int) -> None:
        if not isinstance(text, str):
            came = type(text).__name__
            raise ValueError(f"f: expected a text, got {came}. amci_core.model takes functions")
        self.text, self._tree = text, _parsed(text)
        value = self._value(self._tree, torch.zeros(1, dim), torch.zeros(1, theta_dim))
        if value.shape[-1] > 1:
            raise self._error(
                self._tree,
                f"expected one number, got {value.shape[-1]} coordinates. Choose one, such as x1, "
                "or reduce them with sum, min, max, mean, norm, all or any",
            )
        self.f_range = (0.0, 1.0) if value.dtype == torch.bool else (-math.inf, math.inf)

    def __call__(self, x: Tensor, theta: Tensor | None) -> Tensor:
        """f at x (*, D) and theta (*, D_theta), which broadcast: (*), of the type of x."""
        # Not torch.broadcast_shapes, which imports sympy.
        shape = np.broadcast_shapes(*(v.shape[:-1] for v in (x, theta) if v is not None))
        return self._value(self._tree, x, theta).to(x.dtype).squeeze(-1).expand(shape)

    def _error(self, node: Any, why: str) -> ExpressionError:
        text, start = _typed(self.text)
        before = text.encode()[: node.col_offset].decode(errors="ignore")
        return ExpressionError(why, start + len(before) + 1)

    def _value(self, node: Any, x: Tensor, theta: Tensor | None) -> Tensor:
        """The value of a node, (*, width): Boolean for conditions, else of the type of x."""
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                if not abs(number) <= LARGEST_NUMBER:
                    raise self._error(node, f"expected a number up to {LARGEST_NUMBER:g}")
                # 0 and 1 are conditions as well.
                dtype = torch.bool if number in (0, 1) else x.dtype
                return torch.full_like(x[..., :1], number, dtype=dtype)
            case ast.Name(id=name):
                return self._variable(node, name, x, theta)
            case ast.Subscript(ast.Name(id=name), ast.Constant(value=i)) if type(i) is int:
                return self._variable(node, f"{name}{i + 1}", x, theta)
            case ast.BinOp(base, ast.Pow(), exponent):
                return self._value(base, x, theta).to(x.dtype) ** self._power(exponent)
            case ast.Compare(left, operators, rest):
                values = [self._value(part, x, theta).to(x.dtype) for part in (left, *rest)]
                links = [
                    self._applied(node, type(operator), pair)
                    for operator, pair in zip(operators, pairwise(values), strict=True)
                ]
                return self._applied(node, ast.And, links)
        operation, arguments = _parts(node)
        if isinstance(node, ast.Call):
            self._check_call(node, operation, len(arguments))
        values = [self._value(argument, x, theta) for argument in arguments]
        conditions = 1 if operation == "where" else len(values) * (operation in OF_CONDITIONS)
        for argument, value in zip(arguments[:conditions], values, strict=False):
            if value.dtype != torch.bool:
                raise self._error(argument, "expected a condition, such as x1 > 0")
        if not conditions:
            values = [value.to(x.dtype) for value in values]
        return self._applied(node, operation, values)

    def _check_call(self, node: Any, function: Any, arguments: int) -> None:
        if function not in OPERATIONS:
            raise self._error(node, f"unknown function. Use {FUNCTIONS}")
        least, most, takes = COUNTS.get(function, (1, 1, "one argument"))
        if not least <= arguments <= most:
            raise self._error(node, f"{function} takes {takes}")

    def _applied(self, node: Any, operation: Any, values: Sequence[Tensor]) -> Tensor:
        """An operation of values (*, width), whose widths are equal or one."""
        if operation not in OPERATIONS:
            why = "not allowed here. Use numbers, x, theta, operators and functions"
            raise self._error(node, HINTS.get(operation, why))
        widths = sorted({value.shape[-1] for value in values} - {1})
        if len(widths) > 1:
            why = f"{widths[0]} and {widths[1]} coordinates cannot be combined"
            raise self._error(node, f"{why}. Choose some, such as x1")
        function = OPERATIONS[operation]
        return reduce(function, values) if operation in (ast.And, ast.Or) else function(*values)

    def _variable(self, node: Any, name: str, x: Tensor, theta: Tensor | None) -> Tensor:
        if named := re.fullmatch(r"(x|theta|θ)(\d{0,3})", name, re.ASCII):
            value = x if named[1] == "x" else theta
            place = int(named[2] or 1)
            if value is not None and 1 <= place <= value.shape[-1]:
                return (value[..., place - 1 : place] if named[2] else value).to(x.dtype)
        why = "f does not depend on y" if name.rstrip("0123456789") == "y" else f"unknown {name}"
        sizes = {"x": x.shape[-1], "theta": 0 if theta is None else theta.shape[-1]}
        known = (
            f"{n}1 to {n}{size}" if size > 1 else f"{n}, {n}1" for n, size in sizes.items() if size
        )
        raise self._error(node, f"{why:.30}. Use {', '.join(known)}")

    def _power(self, node: Any) -> float:
        try:
            exponent = ast.literal_eval(node)
        except (TypeError, ValueError):
            exponent = None
        # Not True, which Python counts as 1.
        if type(exponent) not in (int, float) or abs(exponent) > LARGEST_EXPONENT:
            why = f"expected a number from -{LARGEST_EXPONENT} to {LARGEST_EXPONENT} as exponent"
            raise self._error(node, why)
        return float(exponent)


def _parts(node: Any) -> tuple[Any, list[Any]]:
    """The operator or function of a node, None if it is neither, and its arguments."""
    match node:
        case ast.UnaryOp(op, operand):
            return type(op), [operand]
        case ast.BinOp(left, op, right):
            return type(op), [left, right]
        case ast.BoolOp(op, values):
            return type(op), values
        case ast.IfExp(test, then, other):
            return "where", [test, then, other]
        case ast.Call(function, arguments, named):
            return getattr(function, "id", None), [*arguments, *named]
    return None, []


def _typed(text: str) -> tuple[str, int]:
    """A text as Python reads it, without leading blanks, and how many there were."""
    typed = text.translate(TYPED)
    return typed.lstrip(" "), len(typed) - len(typed.lstrip(" "))


def _parsed(text: str) -> ast.expr:
    """Python's tree of an expression."""
    if len(text) > LONGEST:
        why = f"expected at most {LONGEST} characters, got {len(text)}. Shorten it"
        raise ExpressionError(why, LONGEST + 1)
    if assigned := re.search("(?<![<>=!])=(?!=)", text):
        raise ExpressionError(f"unexpected '='. {COMPARE}", assigned.start() + 1)
    text, start = _typed(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        # A text that breaks off has its mistake at place 0.
        column, why = min(error.offset or len(text) + 1, len(text) + 1), error.msg
        if why.startswith("invalid syntax"):
            why = f"unexpected {text[column - 1]!r}" if text[column - 1 :] else "it ends too early"
        raise ExpressionError(f"{why}. {COMPARE}", start + column) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError(f"it cannot be read. {COMPARE}", 1) from None
