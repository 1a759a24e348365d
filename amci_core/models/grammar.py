r"""The grammar of expressions: from a text over Python's tree to operations of torch.

Nothing is evaluated or compiled: each node of the tree that is on the list becomes a `Part`, and
any other is refused with its place.
"""

from __future__ import annotations

__all__ = ["LONGEST", "Reader"]

import ast
import re
import warnings
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from amci_core.models.operations import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTIONS,
    OF_ONE,
    OF_SEVERAL,
    OTHER_WORDS,
    OVER_COORDINATES,
    ExpressionError,
    Part,
    number_of,
)

# Characters, and operations within one another.
LONGEST, DEEPEST = 200, 16
LARGEST_NUMBER, LARGEST_EXPONENT = 1e9, 8
# What a message shows of a name that nobody knows.
SHOWN = 20
# What people copy from a page, character by character.
TYPED = str.maketrans("₀₁₂₃₄₅₆₇₈₉−×·", "0123456789-**")


class Reader:
    """Makes a `Part` of each node of the tree of a text, see `Expression`."""

    def __init__(self, text: str, dim: int, theta_dim: int) -> None:
        if not isinstance(text, str):
            raise ExpressionError(f"expected a text, got {type(text).__name__}", 1)
        if len(text) > LONGEST:
            raise ExpressionError(f"expected at most {LONGEST} characters", LONGEST + 1)
        self.text, self.sizes = text.translate(TYPED), {"x": dim, "theta": theta_dim}

    def read(self) -> Part:
        """The whole.

        Raises:
            ExpressionError: it is no expression, or no number.
        """
        text = self.text.lstrip(" ")
        self._start = len(self.text) - len(text)
        if not text:
            raise ExpressionError("expected an expression, such as x1 > theta", 1)
        odd = re.search(r"[^\S ]|[\0-\x1f\x7f#\\;]|[\ud800-\udfff]", self.text)
        if odd:
            raise ExpressionError("this character is not allowed", odd.start() + 1)
        self._line = text.encode()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            end = len(text) + 1  # a text that breaks off has its mistake at place 0
            column = min(error.offset or end, end) + self._start
            raise ExpressionError(f"it is no expression here: {error.msg}", column) from None
        except (ValueError, MemoryError, RecursionError, OverflowError):
            raise ExpressionError("it is no expression", 1 + self._start) from None
        found = self._part(tree.body, 1)
        if found.width > 1:
            raise self._error(
                tree.body,
                f"f has {found.width} coordinates here; take one (x1), or join them by sum, min, "
                "max, mean, norm, all or any",
            )
        return found

    def _error(self, node: Any, why: str) -> ExpressionError:
        before = self._line[: getattr(node, "col_offset", 0)].decode(errors="ignore")
        return ExpressionError(why, len(before) + 1 + self._start)

    def _part(self, node: ast.expr, depth: int) -> Part:
        if depth > DEEPEST:
            raise self._error(node, f"more than {DEEPEST} operations lie within one another here")
        known: dict[type, Callable[[Any, int], Part]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Subscript: self._subscript,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.BoolOp: self._logical,
            ast.Compare: self._comparison,
            ast.IfExp: self._choice,
            ast.Call: self._call,
        }
        read = known.get(type(node))
        if read is None:
            raise self._error(node, "only numbers, x, theta, operations and functions are allowed")
        return read(node, depth + 1)

    def _constant(self, node: ast.Constant, _: int) -> Part:
        value = number_of(node)
        if value is None:
            raise self._error(node, "expected a number")
        if not abs(value) <= LARGEST_NUMBER:
            raise self._error(node, f"expected a number of at most {LARGEST_NUMBER:g}")
        return Part(
            lambda x, _: torch.full_like(x[..., :1], value),
            is_condition=value in (0, 1),
            nonnegative=value >= 0,
        )

    def _name(self, node: ast.Name, _: int) -> Part:
        name = node.id.replace("θ", "theta")
        found = re.fullmatch(r"(x|theta)([1-9]\d?\d?)?", name, re.ASCII)
        if found is None:
            if re.fullmatch(r"y\d*", name):
                raise self._error(node, "f depends on x and theta, not on y")
            if name in FUNCTIONS:
                raise self._error(node, f"{name} is a function: write {name}(...)")
            raise self._error(node, f"there is no {name[:SHOWN]}, only {self._variables()}")
        variable, number = found[1], found[2]
        return self._coordinates(node, variable, None if number is None else int(number) - 1)

    def _subscript(self, node: ast.Subscript, _: int) -> Part:
        name, place = node.value, node.slice
        variable = name.id.replace("θ", "theta") if isinstance(name, ast.Name) else ""
        if variable not in self.sizes:
            raise self._error(node, "only x and theta have coordinates")
        if not isinstance(place, ast.Constant) or type(place.value) is not int:
            raise self._error(place, "expected the number of a coordinate, from 0")
        return self._coordinates(node, variable, place.value)

    def _coordinates(self, node: ast.expr, variable: str, place: int | None) -> Part:
        size = self.sizes[variable]
        if size == 0:
            raise self._error(node, f"this problem has no {variable}")
        if place is not None and place >= size:
            raise self._error(node, f"there are only {self._variables()}")

        def value(x: Tensor, theta: Tensor | None) -> Tensor:
            found = x if variable == "x" else theta
            if found is None:
                raise ValueError("theta: expected a value, got None")
            return (
                found.to(x.dtype) if place is None else found[..., place : place + 1].to(x.dtype)
            )

        return Part(value, size if place is None else 1)

    def _variables(self) -> str:
        found = []
        for name, size in self.sizes.items():
            found += [name, f"{name}1"][: min(size, 2)] if size == 1 else []
            found += [f"{name}1 to {name}{size}"] if size > 1 else []
        return ", ".join(found)

    def _unary(self, node: ast.UnaryOp, depth: int) -> Part:
        part = self._part(node.operand, depth)
        if isinstance(node.op, ast.Not):
            self._need_condition(node.operand, part)
            return Part(lambda *at: 1 - part.value(*at), part.width, True, True)
        if isinstance(node.op, ast.USub):
            return Part(lambda *at: -part.value(*at), part.width)
        if isinstance(node.op, ast.UAdd):
            return part
        raise self._error(node, "this operation is not allowed")

    def _binary(self, node: ast.BinOp, depth: int) -> Part:
        if isinstance(node.op, ast.Pow):
            return self._power(node, depth)
        operation = ARITHMETIC.get(type(node.op))
        if operation is None:
            why = OTHER_WORDS.get(type(node.op), "this operation is not allowed")
            raise self._error(node, why)
        left, right = self._part(node.left, depth), self._part(node.right, depth)
        positive = left.nonnegative and right.nonnegative and not isinstance(node.op, ast.Sub)
        if isinstance(node.op, ast.Mult):
            positive |= ast.dump(node.left) == ast.dump(node.right)
        return self._joined(node, operation, left, right, nonnegative=positive)

    def _power(self, node: ast.BinOp, depth: int) -> Part:
        base, exponent = self._part(node.left, depth), node.right
        sign = 1
        if isinstance(exponent, ast.UnaryOp) and isinstance(exponent.op, ast.USub):
            exponent, sign = exponent.operand, -1
        number = number_of(exponent)
        if number is None or not abs(number) <= LARGEST_EXPONENT:
            why = f"expected a number from -{LARGEST_EXPONENT} to {LARGEST_EXPONENT} as exponent"
            raise self._error(node.right, why)
        power = sign * number
        even = power % 2 == 0
        positive = base.nonnegative or even
        return Part(lambda *at: base.value(*at) ** power, base.width, nonnegative=positive)

    def _logical(self, node: ast.BoolOp, depth: int) -> Part:
        join = torch.minimum if isinstance(node.op, ast.And) else torch.maximum
        parts = [self._part(value, depth) for value in node.values]
        for value, part in zip(node.values, parts, strict=True):
            self._need_condition(value, part)
        joined = reduce(lambda a, b: self._joined(node, join, a, b, nonnegative=True), parts)
        return Part(joined.value, joined.width, True, True)

    def _comparison(self, node: ast.Compare, depth: int) -> Part:
        sides = [self._part(side, depth) for side in (node.left, *node.comparators)]
        for operator in node.ops:
            if type(operator) not in COMPARISONS:
                raise self._error(node, OTHER_WORDS.get(type(operator), "compare with < or >"))
        holds = [COMPARISONS[type(operator)] for operator in node.ops]

        def value(x: Tensor, theta: Tensor | None) -> Tensor:
            # Once each: chains of chains would otherwise take time without end.
            values = [side.value(x, theta) for side in sides]
            found = [h(a, b) for h, (a, b) in zip(holds, pairwise(values), strict=True)]
            return reduce(torch.logical_and, found).to(x.dtype)

        width = reduce(lambda a, b: Part(a.value, self._width(node, a, b)), sides).width
        return Part(value, width, is_condition=True, nonnegative=True)

    def _choice(self, node: ast.IfExp, depth: int) -> Part:
        return self._where(node, [node.test, node.body, node.orelse], depth)

    def _where(self, node: ast.expr, nodes: list[ast.expr], depth: int) -> Part:
        if len(nodes) != 3:
            raise self._error(node, "where takes a condition and two values")
        condition, then, other = (self._part(part, depth) for part in nodes)
        self._need_condition(nodes[0], condition)
        width = self._width(node, condition, self._joined(node, torch.add, then, other))
        return Part(
            lambda *at: torch.where(condition.value(*at) > 0, then.value(*at), other.value(*at)),
            width,
            then.is_condition and other.is_condition,
            then.nonnegative and other.nonnegative,
        )

    def _call(self, node: ast.Call, depth: int) -> Part:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            called = f"there is no function {name[:SHOWN]}" if name else "this cannot be called"
            raise self._error(node, f"{called}; there are {', '.join(FUNCTIONS)}")
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise self._error(node, f"{name} takes plain values")
        if name == "where":
            return self._where(node, node.args, depth)
        parts = [self._part(each, depth) for each in node.args]
        if len(parts) > 1 and name in OF_SEVERAL:
            join, some = OF_SEVERAL[name], any if name == "max" else all
            joined = reduce(lambda a, b: self._joined(node, join, a, b), parts)
            return Part(
                joined.value, joined.width, nonnegative=some(part.nonnegative for part in parts)
            )
        if len(parts) != 1:
            raise self._error(node, f"{name} takes one value, got {len(parts)}")
        (part,) = parts
        if name in ("all", "any"):
            self._need_condition(node.args[0], part)
        if name in OVER_COORDINATES:
            over = OVER_COORDINATES[name]
            return Part(
                lambda *at: over(part.value(*at)),
                is_condition=part.is_condition and name not in ("sum", "mean", "norm"),
                nonnegative=part.nonnegative or name == "norm",
            )
        of_one = OF_ONE[name]
        positive = name in ("exp", "sqrt", "abs") or (name == "tanh" and part.nonnegative)
        return Part(lambda *at: of_one(part.value(*at)), part.width, nonnegative=positive)

    def _need_condition(self, node: ast.expr, part: Part) -> None:
        if not part.is_condition:
            raise self._error(node, "expected a condition, such as x1 > 0")

    def _width(self, node: ast.expr, left: Part, right: Part) -> int:
        if 1 < min(left.width, right.width) != max(left.width, right.width):
            raise self._error(
                node, f"{left.width} and {right.width} coordinates do not go together"
            )
        return max(left.width, right.width)

    def _joined(
        self,
        node: ast.expr,
        join: Callable[[Tensor, Tensor], Tensor],
        left: Part,
        right: Part,
        *,
        nonnegative: bool = False,
    ) -> Part:
        width = self._width(node, left, right)
        return Part(
            lambda *at: join(left.value(*at), right.value(*at)), width, nonnegative=nonnegative
        )
