r"""f as a line of text: an expression of x and theta, read by a grammar, never run as code.

Python's parser makes a tree of the text. What is not on the list below is refused with its place;
the rest becomes operations of torch. Vectors are allowed inside, the whole is a number:

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

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from amci_core.models.grammar import LONGEST, Reader
from amci_core.models.operations import ExpressionError, Part

# For x on the line and one theta: a tail, a window, a smooth utility, a signed payoff.
EXAMPLES = {
    "a tail": "x1 > theta1",
    "a window": "abs(x1 - theta1) < 0.5",
    "a smooth utility": "exp(-abs(x1 - theta1))",
    "a signed payoff": "max(x1 - theta1, 0) - 0.2",
}


@dataclass(frozen=True)
class Expression:
    """An expression of x and theta, ready to be evaluated at points.

    Arguments:
        text: The expression, at most 200 characters on a line.
        dim: Number of dimensions D of x.
        theta_dim: Number of dimensions of theta; zero where there is none.

    Raises:
        ExpressionError: it is none; with the column of the mistake.

    Example:
        >>> tail = Expression("x1 > theta", dim=1, theta_dim=1)
        >>> tail(torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0]]))
        tensor([0., 1.])
        >>> tail.nonnegative
        True
        >>> try:
        ...     Expression("x1 + y", dim=1, theta_dim=1)
        ... except ExpressionError as error:
        ...     print(error)
        f, column 6: f depends on x and theta, not on y
    """

    text: str
    dim: int
    theta_dim: int

    def __post_init__(self) -> None:
        _ = self._part

    def __call__(self, x: Tensor, theta: Tensor | None) -> Tensor:
        """f at x (*, D) and theta (*, D_theta), which broadcast: (*), of the type of x."""
        shapes = [x.shape[:-1], *([] if theta is None else [theta.shape[:-1]])]
        value = self._part.value(x, theta).squeeze(-1)
        return value.expand(torch.broadcast_shapes(*shapes))

    @property
    def nonnegative(self) -> bool:
        """Whether its form alone says that it is nowhere negative."""
        return self._part.nonnegative

    @property
    def f_range(self) -> tuple[float, float]:
        """0 and 1 where its form says that it is a condition, else unbounded."""
        return (0.0, 1.0) if self._part.is_condition else (-math.inf, math.inf)

    @cached_property
    def _part(self) -> Part:
        return Reader(self.text, self.dim, self.theta_dim).read()

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text, "dim": self.dim, "theta_dim": self.theta_dim}
