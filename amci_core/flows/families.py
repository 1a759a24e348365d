r"""The registry of flow families: how each is built, and the problems that it fits.

A new family is one file, with a constructor and, if `learn` is to try it, a function of its forms;
and one line in `FAMILIES`.
"""

from __future__ import annotations

__all__ = ["FAMILIES", "MANY", "Family", "forms"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from amci_core.flows.autoregressive import autoregressive_spline, half_line_spline
from amci_core.flows.broad import broad_reference, defensive
from amci_core.flows.carried import carried_spline
from amci_core.flows.defended import defended_spline
from amci_core.flows.density import Trainable
from amci_core.flows.gamma_beta import GammaBeta
from amci_core.flows.gaussian import gaussian
from amci_core.flows.layered import layered_spline
from amci_core.flows.masked import masked_autoregressive
from amci_core.flows.radial import radial
from amci_core.flows.supports import coordinates_of, cut_coordinates, on_half_line
from amci_core.models.base import Problem

# With more coordinates than this, one network serves them all.
MANY = 10
# A form's name to the arguments of its family.
Forms = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """A flow family; called with a problem and its arguments, it gives the flow.

    Arguments:
        build: Takes a problem and keyword arguments, those that are stored with weights.
        forms: Takes a problem (for q1_minus the negated one) and the arguments that all forms
            share: `bins`, `hidden`, `activation`, `reads_theta`. Gives those under which it fits
            the problem, by a name for people; none if it does not.
    """

    build: Callable[..., Trainable]
    forms: Callable[[Problem, dict[str, Any]], Forms] = lambda problem, shared: {}

    def __call__(self, problem: Problem, **arguments: Any) -> Trainable:
        return self.build(problem, **arguments)


def forms(
    problem: Problem, *, reads_theta: bool, bins: int | None = None, width: int | None = None
) -> dict[str, dict[str, Any]]:
    """Families that fit a problem, `{"family": ..., "arguments": ...}` by form; simplest first.

    Arguments:
        problem: The problem; for q1_minus the negated one.
        reads_theta: Whether the proposal depends on theta.
        bins: Bins of each spline; None for a number that suits the dimension of x.
        width: Units of both hidden layers of each network; None for 64.

    Example:
        >>> from amci_core import problem
        >>> list(forms(problem("tail-1d"), reads_theta=True))
        ['half-line', 'half-line from zero', 'spline']
    """
    dim = problem.x.dim
    shared: dict[str, Any] = {
        "bins": bins or (32 if dim == 1 else 8 if dim > MANY else 16),
        "hidden": [width or 64] * 2,
        "activation": "silu",
        "reads_theta": reads_theta,
    }
    return {
        form: {"family": name, "arguments": arguments}
        for name, family in FAMILIES.items()
        for form, arguments in family.forms(problem, shared).items()
    }


def _half_line(problem: Problem, shared: Mapping[str, Any]) -> Forms:
    if not (shared["reads_theta"] and on_half_line(problem)):
        return {}
    arguments = {name: shared[name] for name in ("bins", "hidden", "activation")}
    return {"half-line": arguments, "half-line from zero": {**arguments, "vanishing": True}}


def _autoregressive(problem: Problem, shared: Mapping[str, Any]) -> Forms:
    if problem.x.dim == 1:
        return {"spline": {**shared, "coordinates": coordinates_of(problem)}}
    if problem.x.dim > MANY:
        return {}
    coordinates = cut_coordinates(problem) or coordinates_of(problem)
    return {"by coordinate": {**shared, "coordinates": coordinates}}


def _carried(problem: Problem, shared: Mapping[str, Any]) -> Forms:
    if not 1 < problem.x.dim <= MANY:
        return {}
    arguments = {**shared, "coordinates": coordinates_of(problem)}
    return {"rotated": arguments, "along the radius": {**arguments, "radial": True}}


def _layered(problem: Problem, shared: Mapping[str, Any]) -> Forms:
    if problem.x.dim <= MANY:
        return {}
    arguments = {
        **shared,
        "coordinates": coordinates_of(problem),
        "width": max(shared["hidden"][0] * 3 // 2, problem.x.dim),
    }
    return {"by coordinate": arguments, "rotated": arguments}


FAMILIES: dict[str, Family] = {
    "half-line-spline": Family(half_line_spline, _half_line),
    "autoregressive-spline": Family(autoregressive_spline, _autoregressive),
    "carried-spline": Family(carried_spline, _carried),
    "layered-spline": Family(layered_spline, _layered),
    "broad": Family(broad_reference),
    "defended-spline": Family(defended_spline),
    "defensive": Family(defensive),
    "gamma-beta": Family(GammaBeta),
    "gaussian": Family(gaussian),
    "masked-autoregressive": Family(masked_autoregressive),
    "radial": Family(radial),
}
