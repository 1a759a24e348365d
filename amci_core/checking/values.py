r"""What a problem's methods return at draws: numbers, supports, signs, and all one by one."""

from __future__ import annotations

__all__ = ["POINTS", "check_declared", "check_values"]

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amci_core.checking.findings import Notes, place
from amci_core.checking.ranges import Drawn, check_ranges
from amci_core.models import Problem, Variable
from amci_core.models.contract import Violation, attempt

# Cases, and prior draws for each, at which methods are called.
CASES, POINTS = 8, 512


def check_declared(problem: Problem, notes: Notes) -> None:
    """Notes attributes that are missing or of the wrong kind."""
    for name in ("x", "y", "theta"):
        missing = not hasattr(problem, name)
        value = getattr(problem, name, None)
        if missing or not (isinstance(value, Variable) or (value is None and name != "x")):
            absent = "" if name == "x" else ", or None where there is none"
            came = "nothing" if missing else repr(value)
            notes.error(name, f"expected an amci_core.models.Variable{absent}, got {came}")
        elif isinstance(value, Variable) and name == "x" and value.dim == 0:
            notes.error(name, "expected at least one dimension, got 0")
    if getattr(problem, "y", None) is None and isinstance(getattr(problem, "x", None), Variable):
        for method in ("log_likelihood", "sample_likelihood"):
            if getattr(type(problem), method) is not getattr(Problem, method):
                notes.warning(
                    "y",
                    f"is not declared, but {method} is defined; declare y = Variable(...), or "
                    f"leave {method} out",
                )
    for name, kind in (("name", str), ("nonnegative", bool)):
        value = getattr(problem, name, None)
        if not isinstance(value, kind):
            came = repr(value) if hasattr(problem, name) else "nothing"
            notes.error(name, f"expected a {kind.__name__} as an attribute, got {came}")
    if hasattr(problem, "_expected_deviation"):
        notes.warning(
            "_expected_deviation",
            "is the old name of a method; define _log_mean_absolute_deviation, in nats",
        )


def check_values(problem: Problem, notes: Notes, points: int) -> Drawn | None:
    """Notes what is wrong with values at draws; the draws, or None where there are none."""
    drawn: Drawn | None = notes.value("sample_prior", Drawn, problem, CASES, points, notes)
    if drawn is None:
        return None
    _check_repeatable(problem, notes)
    check_ranges(problem, drawn, notes)
    x, y, theta = drawn.x, drawn.y[:, None], drawn.wide_theta
    calls = {"log_prior": (x,), "log_likelihood": (x, y), "f": (x, theta)}
    missing = {
        "log_likelihood": problem.y is not None and drawn.raw_y is None,
        "f": problem.theta is not None and theta is None,
    }
    values: dict[str, Tensor] = {}
    for method, arguments in calls.items():
        if notes.failed(method):
            continue
        if missing.get(method):
            notes.broken(f"{method}: its values at draws", "sample_likelihood", "sample_theta")
            continue
        value = notes.value(method, getattr(problem, method), *arguments)
        if value is not None:
            notes.finite(method, value, x, density=method != "f")
            values[method] = value
    density = values.get("log_prior")
    if density is not None and not notes.failed("log_prior"):
        outside = float((density == -torch.inf).double().mean())
        if outside > 1e-3:
            notes.error(
                "log_prior",
                f"is -inf at {outside:.1%} of the draws of sample_prior; mend the support of "
                "either",
            )
        elif not notes.failed("x"):
            _check_beyond(problem, x, notes)
    _check_one_by_one(problem, drawn, values, notes)
    value = values.get("f")
    if value is not None and not notes.failed("f"):
        if problem.nonnegative and (value < 0).any():
            notes.error(
                "f",
                f"is negative, {float(value.min()):.3g}, where nonnegative is True; mend f or "
                "declare nonnegative = False",
            )
        if not notes.failed("x", "theta"):
            _check_support(problem, drawn, value, notes)
        if not problem.nonnegative:
            _check_negated(problem, drawn, value, notes)
    return drawn


def _check_beyond(problem: Problem, x: Tensor, notes: Notes) -> None:
    """Notes a prior that raises within the range of x, where it has no draws."""
    points = x.flatten(0, -2)
    low, high = points.amin(0), points.amax(0)
    for end in (low - (high - low), high + (high - low)):
        far = end.clamp(problem.x.low, problem.x.high)[None]
        found = attempt("log_prior", problem.log_prior, far)
        if isinstance(found, Violation):
            notes.error(
                "x",
                f"log_prior {found.text}, which low and high allow; narrow them, or return -inf "
                "there",
            )
            return


def _check_repeatable(problem: Problem, notes: Notes) -> None:
    def twice(method: str, *arguments: object) -> None:
        one, other = (
            getattr(problem, method)(*arguments, torch.Generator().manual_seed(5))
            for _ in range(2)
        )
        if one is not None and not torch.allclose(one, other, 0.0, 0.0, equal_nan=True):
            notes.error(
                method,
                "gives other draws for a generator with the same seed; pass generator=generator "
                "to torch's functions",
            )

    x = problem.sample_prior(8, torch.Generator().manual_seed(5))
    for method, argument in (("sample_prior", 8), ("sample_likelihood", x), ("sample_theta", 8)):
        if not notes.failed(method):
            twice(method, argument)


def _check_one_by_one(
    problem: Problem, drawn: Drawn, values: dict[str, Tensor], notes: Notes
) -> None:
    """Values of a batch are those of its cases, each called alone."""
    for case in range(min(2, len(drawn.y))):
        x, y = drawn.x[case, :4], drawn.y[case]
        theta = None if drawn.theta is None else drawn.theta[case]
        alone: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "log_prior": (problem.log_prior, (x,)),
            "log_likelihood": (problem.log_likelihood, (x, y)),
            "f": (problem.f, (x, theta)),
        }
        for method, (call, arguments) in alone.items():
            if method not in values or notes.failed(method):
                continue
            whole = values[method]
            single = notes.value(method, call, *arguments)
            if single is None:
                continue
            if single.shape != (4,):
                notes.error(
                    method,
                    f"expected shape (4,) for x of shape {tuple(x.shape)} without a batch, got "
                    f"{tuple(single.shape)}; reduce the last axis alone",
                )
            elif not torch.allclose(single, whole[case, :4], 1e-6, 1e-9, equal_nan=True):
                notes.error(
                    method,
                    "differs between a batch of cases and the same cases one by one; let y and "
                    "theta broadcast against x along all axes but the last",
                )


def _check_support(problem: Problem, drawn: Drawn, f: Tensor, notes: Notes) -> None:
    inside = notes.value("support", within, problem.support, drawn.x)
    if inside is not None and not inside.all():
        share = float((~inside).double().mean())
        if share > 1e-3:
            notes.error(
                "support",
                f"{share:.1%} of the draws of sample_prior lie outside; declare the set where "
                "the prior is positive",
            )
    sides = [(problem, f, "support_plus")]
    if not problem.nonnegative:
        negated = notes.value("with_negated_f", problem.with_negated_f)
        if negated is not None:
            sides.append((negated, -f, "with_negated_f"))
    for sided, value, method in sides:
        support = notes.value(method, sided.support_plus, drawn.wide_theta)
        inside = None if support is None else notes.value(method, within, support, drawn.x)
        if inside is None:
            continue
        lost = (value > 0) & ~inside
        if lost.any():
            of = "support_plus of with_negated_f()" if method == "with_negated_f" else "that set"
            sign = "-f" if method == "with_negated_f" else "f"
            notes.error(
                method,
                f"{sign} is {float(value[lost][0]):.3g} > 0 at x = {place(drawn.x[lost][0])}, "
                f"outside of {of}; widen the set, or return self.support",
            )


def within(support: object, x: Tensor) -> Tensor:
    """Whether points x (*, n, D) lie in a constraint, (*, n)."""
    inside: Tensor = support.check(x)  # type: ignore[attr-defined]
    # Some that name an event axis, such as stacked ones, answer for each coordinate all the same.
    return inside.all(-1) if inside.ndim == x.ndim else inside


def _check_negated(problem: Problem, drawn: Drawn, f: Tensor, notes: Notes) -> None:
    negated = notes.value("with_negated_f", problem.with_negated_f)
    if negated is None:
        return
    if negated.nonnegative:
        notes.error("with_negated_f", "declares nonnegative = True; -f takes both signs as f does")
        return
    other = notes.value("with_negated_f", negated.f, drawn.x, drawn.wide_theta)
    if other is not None and not torch.allclose(other, -f, 1e-9, 0.0, equal_nan=True):
        notes.error(
            "with_negated_f",
            "its f is not -f; return the problem with the other sign, or leave it out",
        )
