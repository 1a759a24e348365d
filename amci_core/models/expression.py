r"""f as a line of text: an expression of x and theta, evaluated by torch, never run as code.

Python's parser makes a tree of the text. What is not on the list below is refused with its place;
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

__all__ = ["EXAMPLES", "LONGEST", "Expression", "ExpressionError"]

import ast
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

# Characters of a text, and operations within one another.
LONGEST, DEEPEST = 200, 16
LARGEST_NUMBER, LARGEST_EXPONENT = 1e9, 8
# What people copy from a page, character by character.
TYPED = str.maketrans("₀₁₂₃₄₅₆₇₈₉−×·", "0123456789-**")

# For x on the line and one theta: a tail, a window, a smooth utility, a signed payoff.
EXAMPLES = {
    "a tail": "x1 > theta1",
    "a window": "abs(x1 - theta1) < 0.5",
    "a smooth utility": "exp(-abs(x1 - theta1))",
    "a signed payoff": "max(x1 - theta1, 0) - 0.2",
}

COMPARE = "Write a comparison with < or >, such as x1 > theta"
# What is refused with a hint.
HINTS = {
    ast.BitXor: "unexpected '^'. Write a power with **",
    ast.BitAnd: "unexpected '&'. Join conditions with and",
    ast.BitOr: "unexpected '|'. Join conditions with or",
    ast.Eq: f"x has a density, so == holds with probability 0. {COMPARE}",
    ast.NotEq: f"x has a density, so != holds with probability 1. {COMPARE}",
}
# Operators of two numbers, and those of two conditions.
OPERATORS: dict[Any, Callable[..., Tensor]] = {
    **{ast.Add: torch.add, ast.Sub: torch.sub, ast.Mult: torch.mul, ast.Div: torch.div},
    **{ast.Lt: torch.lt, ast.LtE: torch.le, ast.Gt: torch.gt, ast.GtE: torch.ge},
    **{ast.And: torch.logical_and, ast.Or: torch.logical_or},
}
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{name: getattr(torch, name) for name in ("exp", "log", "sqrt", "abs", "sin", "cos", "tanh")},
    "sum": lambda v: v.sum(-1, keepdim=True),
    "mean": lambda v: v.mean(-1, keepdim=True),
    "norm": lambda v: v.square().sum(-1, keepdim=True).sqrt(),
    "min": lambda v, *more: reduce(torch.minimum, more, v) if more else v.amin(-1, keepdim=True),
    "max": lambda v, *more: reduce(torch.maximum, more, v) if more else v.amax(-1, keepdim=True),
    "all": lambda v: v.all(-1, keepdim=True),
    "any": lambda v: v.any(-1, keepdim=True),
}
# How many arguments functions take that do not take one.
TAKES = {"min": "one number or more", "max": "one number or more", "where": "three arguments"}


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


@dataclass(frozen=True)
class Expression:
    """An expression of x and theta, ready to be evaluated at points.

    Arguments:
        text: The expression, at most 200 characters on a line.
        dim: Number of dimensions D of x.
        theta_dim: Number of dimensions of theta; zero if there is none.

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

    text: str
    dim: int
    theta_dim: int

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            came = type(self.text).__name__
            raise ValueError(f"f: expected a text, got {came}. amci_core.model takes functions")
        width = self._trial.shape[-1]
        if width > 1:
            raise self._error(
                self._tree,
                f"expected one number, got {width} coordinates. Choose one, such as x1, or reduce "
                "them with sum, min, max, mean, norm, all or any",
            )

    def __call__(self, x: Tensor, theta: Tensor | None) -> Tensor:
        """f at x (*, D) and theta (*, D_theta), which broadcast: (*), of the type of x."""
        shapes = [x.shape[:-1], *([] if theta is None else [theta.shape[:-1]])]
        value = self._value(self._tree, x, theta).to(x.dtype).squeeze(-1)
        return value.expand(torch.broadcast_shapes(*shapes))

    @property
    def f_range(self) -> tuple[float, float]:
        """0 and 1 for a condition, else unbounded."""
        return (0.0, 1.0) if self._trial.dtype == torch.bool else (-math.inf, math.inf)

    @cached_property
    def _trial(self) -> Tensor:
        return self._value(self._tree, torch.zeros(1, self.dim), torch.zeros(1, self.theta_dim))

    @cached_property
    def _tree(self) -> ast.expr:
        if len(self.text) > LONGEST:
            why = f"expected at most {LONGEST} characters, got {len(self.text)}. Shorten it"
            raise ExpressionError(why, LONGEST + 1)
        text = self.text.translate(TYPED)
        start, end = len(text) - len(text.lstrip(" ")), len(text) + 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(text[start:], mode="eval").body
        except SyntaxError as error:
            # A text that breaks off has its mistake at place 0.
            column, why = min(start + (error.offset or end), end), error.msg
            if why.startswith("invalid syntax"):
                assigned = re.compile("(?<![<>=!])=(?!=)").search(text)
                column = column if assigned is None else assigned.start() + 1
                why = f"unexpected {text[column - 1]!r}" if column < end else "it ends too early"
            raise ExpressionError(f"{why}. {COMPARE}", column) from None
        except (ValueError, MemoryError, RecursionError):
            raise ExpressionError(f"it cannot be read. {COMPARE}", 1) from None

    def _error(self, node: ast.expr, why: str) -> ExpressionError:
        text = self.text.translate(TYPED)
        start = len(text) - len(text.lstrip(" "))
        before = text[start:].encode()[: node.col_offset].decode(errors="ignore")
        return ExpressionError(why, start + len(before) + 1)

    def _value(self, node: ast.expr, x: Tensor, theta: Tensor | None, depth: int = 0) -> Tensor:
        """The value of a node, (*, width): Boolean for conditions, else of the type of x."""
        if depth > DEEPEST:
            raise self._error(node, f"nested deeper than {DEEPEST} operations. Simplify it")

        def value(part: ast.expr) -> Tensor:
            return self._value(part, x, theta, depth + 1)

        def number(part: ast.expr) -> Tensor:
            return value(part).to(x.dtype)

        def condition(part: ast.expr) -> Tensor:
            holds = value(part)
            if holds.dtype != torch.bool:
                raise self._error(part, "expected a condition, such as x1 > 0")
            return holds

        def combined(operation: Callable[..., Tensor], *values: Tensor) -> Tensor:
            widths = sorted({v.shape[-1] for v in values} - {1})
            if len(widths) > 1:
                raise self._error(
                    node,
                    f"{widths[0]} and {widths[1]} coordinates cannot be combined. Choose some, "
                    "such as x1",
                )
            return operation(*values)

        match node:
            case ast.Constant(value=int() | float() as literal) if not isinstance(literal, bool):
                if not abs(literal) <= LARGEST_NUMBER:
                    raise self._error(node, f"expected a number up to {LARGEST_NUMBER:g}")
                # 0 and 1 are conditions as well.
                kind = torch.bool if literal in (0, 1) else x.dtype
                return torch.full_like(x[..., :1], literal, dtype=kind)
            case ast.Name(id=name):
                return self._variable(node, name, x, theta)
            case ast.Subscript(
                value=ast.Name(id=name), slice=ast.Constant(value=int() as place)
            ) if not isinstance(place, bool):
                return self._variable(node, f"{name}{place + 1}", x, theta)
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return ~condition(part)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=part):
                return -number(part) if isinstance(sign, ast.USub) else number(part)
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return number(base) ** self._exponent(exponent)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
                return combined(OPERATORS[type(operator)], number(left), number(right))
            case ast.BoolOp(op=operator, values=parts):
                join = partial(combined, OPERATORS[type(operator)])
                return reduce(join, map(condition, parts))
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(
                type(operator) in OPERATORS for operator in ops
            ):
                sides = pairwise(map(number, (left, *rest)))
                holds = (combined(OPERATORS[type(o)], *s) for o, s in zip(ops, sides, strict=True))
                return reduce(partial(combined, torch.logical_and), holds)
            case ast.IfExp(test=test, body=then, orelse=other):
                return combined(torch.where, condition(test), value(then), value(other))
            case ast.Call(func=ast.Name(id="where"), args=[test, then, other], keywords=[]):
                return combined(torch.where, condition(test), value(then), value(other))
            case ast.Call(func=ast.Name(id=name), args=[_, *more] as args, keywords=[]) if (
                name in FUNCTIONS and (not more or name in ("min", "max"))
            ):
                of = condition if name in ("all", "any") else number
                return combined(FUNCTIONS[name], *map(of, args))
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS or name == "where":
                raise self._error(node, f"{name} takes {TAKES.get(name, 'one argument')}")
            case ast.Call():
                functions = ", ".join((*FUNCTIONS, "where(c, a, b)"))
                raise self._error(node, f"unknown function. Use {functions}")
        kinds = [getattr(node, "op", None), *getattr(node, "ops", [])]
        hint = next((HINTS[type(kind)] for kind in kinds if type(kind) in HINTS), None)
        raise self._error(
            node, hint or "not allowed here. Use numbers, x, theta, operators and functions"
        )

    def _variable(self, node: ast.expr, name: str, x: Tensor, theta: Tensor | None) -> Tensor:
        found = re.fullmatch(r"(x|theta|θ)(\d{0,3})", name, re.ASCII)
        if found is None:
            why = (
                "f does not depend on y" if name.rstrip("0123456789") == "y" else f"unknown {name}"
            )
            raise self._error(node, f"{why:.30}. Use {self._variables()}")
        value = x if found[1] == "x" else theta
        size = self.dim if found[1] == "x" else self.theta_dim
        if value is None or size == 0:
            raise self._error(node, f"this problem has no theta. Use {self._variables()}")
        place = int(found[2] or 0)
        if found[2] and not 1 <= place <= size:
            raise self._error(node, f"there is no {name}. Use {self._variables()}")
        return (value[..., place - 1 : place] if found[2] else value).to(x.dtype)

    def _variables(self) -> str:
        sizes = {"x": self.dim, "theta": self.theta_dim}
        return ", ".join(
            f"{name}, {name}1" if size == 1 else f"{name}1 to {name}{size}"
            for name, size in sizes.items()
            if size
        )

    def _exponent(self, node: ast.expr) -> float:
        try:
            exponent = ast.literal_eval(node)
        except (TypeError, ValueError):
            exponent = None
        # Not True, which Python counts as 1.
        if type(exponent) not in (int, float) or abs(exponent) > LARGEST_EXPONENT:
            why = f"expected a number from -{LARGEST_EXPONENT} to {LARGEST_EXPONENT} as exponent"
            raise self._error(node, why)
        return float(exponent)
