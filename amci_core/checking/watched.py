r"""A problem whose methods say what is wrong with each of their calls."""

from __future__ import annotations

__all__ = ["watched"]

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from amci_core.checking.findings import Notes
from amci_core.models import Problem
from amci_core.models.contract import Raised, Violation, attempt, place

OF_X = ("log_prior", "log_likelihood", "f", "sample_likelihood")
DRAWING = ("sample_prior", "sample_likelihood", "sample_theta")
OTHERS = ("sample_defensive", "log_defensive")


def watched(problem: Problem, notes: Notes) -> Problem:
    """A copy of a problem, to be called with draws of its own.

    An exception says which method raised it, and at which x, however deep in a test. Draws that
    are NaN or infinite are noted, and others of the same call come in their place.
    """
    watching = copy.copy(problem)
    for method in dict.fromkeys(OF_X + DRAWING + OTHERS):
        call = partial(_located, method, getattr(watching, method))
        if method in DRAWING:
            call = partial(_counted, method, call, notes)
        setattr(watching, method, call)
    return watching


def _located(method: str, call: Callable[..., Any], *arguments: Any) -> Any:
    value = attempt(method, call, *arguments)
    if not isinstance(value, Violation):
        return value
    if value.method == method and method in OF_X:
        value = _with_x(value, call, arguments)
    raise Raised(value) from value.cause


def _with_x(found: Violation, call: Callable[..., Any], arguments: Sequence[Any]) -> Violation:
    """An exception at points x (*, D), the first of the arguments, with one at which it is raised.

    The others are tensors (*, d) that broadcast against x, or serve all of x.
    """
    shapes = [each.shape[:-1] for each in arguments if isinstance(each, Tensor)]
    shape = torch.broadcast_shapes(*shapes)
    rows = [
        each.expand(*shape, -1).reshape(math.prod(shape), each.shape[-1])
        if isinstance(each, Tensor)
        else each
        for each in arguments
    ]

    def part(rows: Sequence[Any], which: slice) -> list[Any]:
        return [each[which] if isinstance(each, Tensor) else each for each in rows]

    while (n := len(rows[0])) > 1:
        half = part(rows, slice(n // 2))
        wrong = isinstance(attempt(found.method, call, *half), Violation)
        rows = half if wrong else part(rows, slice(n // 2, n))
    single = attempt(found.method, call, *rows)
    if not isinstance(single, Violation):
        return found
    text = f"{single.text}; so at x = {place(rows[0][0])}"
    return Violation(found.method, text, single.cause)


def _counted(method: str, call: Callable[..., Any], notes: Notes, *arguments: Any) -> Any:
    draws = call(*arguments)
    if draws is None:
        return draws
    good = draws.isfinite().all(-1)
    n = len(good)
    if good.all():
        return draws
    said = f"{n - int(good.sum()):,} of {n:,} draws are NaN or infinite"
    if method == "sample_likelihood":
        said += (
            f", the first at x = {place(arguments[0][~good][0])}; return a finite y there, such "
            "as an end of its range, or a prior without such x"
        )
    else:
        said += "; mend it"
    if not good.any():
        raise Raised(Violation(method, said))
    notes.error(method, said)
    others = draws[good]
    return draws.where(good[:, None], others[torch.arange(n) % len(others)])
