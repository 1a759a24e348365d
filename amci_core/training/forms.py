r"""What is trained for a problem that says nothing of it: families by the dimension of x."""

from __future__ import annotations

__all__ = [
    "MANY",
    "NETWORK",
    "Choices",
    "bounded",
    "charts_of",
    "coordinates_of",
    "form_names",
    "forms",
    "terms_of",
    "usual_terms",
]

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions.constraint_registry import biject_to

from amci_core._arguments import check_count
from amci_core.flows.layers import ToSupport
from amci_core.flows.supports import coordinate_bijector, half_line
from amci_core.models import Problem
from amci_core.training.recipes import TermRecipe

# From this many prior draws the usual terms take where coordinates lie.
SCOUTS = 4096
HIDDEN = [64, 64]
NETWORK: Mapping[str, Any] = {"hidden": HIDDEN, "activation": "silu"}
# With more coordinates than this one network serves them all.
MANY = 10
BINS = 16
# Width of the masked layers for many coordinates, at least.
WIDTH = 96


@dataclass(frozen=True)
class Choices:
    """What is chosen of the form of proposals; None: it is found out, or as usual.

    Arguments:
        family: A form's name, see `form_names`. A term for which there is no such form keeps its
            own.
        bins: Bins of each spline, 4 to 128.
        width: Units of each layer of the networks, 4 to 1024. With more than ten coordinates there
            are at least as many as these.

    Raises:
        ValueError: a number is out of range.
    """

    family: str | None = None
    bins: int | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        if self.bins is not None:
            check_count("bins", self.bins, low=4, high=128)
        if self.width is not None:
            check_count("width", self.width, low=4, high=1024)

    def check(self, problem: Problem) -> None:
        """Checks that the form exists for a problem.

        Raises:
            ValueError: it does not.
        """
        if self.family is not None and self.family not in form_names(problem):
            known = ", ".join(form_names(problem))
            raise ValueError(f"family: expected one of {known}, got {self.family!r}")


def usual_terms(problem: Problem) -> dict[str, TermRecipe]:
    """Splines for every term, coordinate by coordinate, on the range that x declares.

    In one dimension q1_plus and q1_minus live on f's half-line, where it has one.

    Raises:
        ValueError: a coordinate of x has a range for which there is no spline.
    """
    spline = {"bins": BINS, "coordinates": coordinates_of(problem)}
    line = _term("autoregressive-spline", problem, **spline)
    made = {
        "q1_plus": lambda: _own(problem, line),
        "q1_minus": lambda: _own(problem.with_negated_f(), line),
        "q2": lambda: _term("autoregressive-spline", problem, **spline, reads_theta=False),
    }
    return {name: made[name]() for name in terms_of(problem)}


def terms_of(problem: Problem) -> tuple[str, ...]:
    """The proposals that a problem needs: no q1_minus where f >= 0, no q2 where E2 is known."""
    known = problem.log_evidence(*problem.check(*problem.cases(1, seed=0))) is not None
    minus = () if problem.nonnegative else ("q1_minus",)
    return ("q1_plus", *minus, *(() if known else ("q2",)))


def forms(
    problem: Problem, *, reads_theta: bool, choices: Choices | None = None
) -> dict[str, dict[str, Any]]:
    """Families that may suit a term, with their arguments, by a name; the simplest first.

    Arguments:
        problem: The problem; for q1_minus the negated one.
        reads_theta: Whether the proposal depends on theta.
        choices: What is chosen. A form that does not exist for this term is passed over.
    """
    chosen = choices or Choices()
    known, usual = _known_forms(problem, reads_theta, chosen)
    names = [chosen.family] if chosen.family in known else usual
    return {name: known[name] for name in names}


def form_names(problem: Problem) -> tuple[str, ...]:
    """The forms that can be chosen for a problem, the simplest first."""
    found: list[str] = []
    for each in (problem,) if problem.nonnegative else (problem, problem.with_negated_f()):
        for reads_theta in (True, False):
            found += _known_forms(each, reads_theta, Choices())[0]
    return tuple(dict.fromkeys(found))


def _known_forms(
    problem: Problem, reads_theta: bool, chosen: Choices
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """All forms for a term, and the names of those that are tried unless one is chosen."""
    coordinates, dim = coordinates_of(problem), problem.x.dim
    hidden = HIDDEN if chosen.width is None else [chosen.width] * len(HIDDEN)
    network = {**NETWORK, "hidden": hidden}
    bins = chosen.bins or (32 if dim == 1 else 8 if dim > MANY else BINS)
    arguments = {**network, "coordinates": coordinates, "bins": bins, "reads_theta": reads_theta}
    spline = {"family": "autoregressive-spline", "arguments": arguments}
    if dim == 1:
        if reads_theta and _on_half_line(problem):
            half = {**network, "bins": bins}
            found = {
                "half-line": {"family": "half-line-spline", "arguments": half},
                "half-line from zero": {
                    "family": "half-line-spline",
                    "arguments": {**half, "vanishing": True},
                },
            }
            return found | {"spline": spline}, list(found)
        return {"spline": spline}, ["spline"]
    if dim > MANY:
        arguments |= {"width": max(chosen.width or WIDTH, dim)}
        both = {"family": "layered-spline", "arguments": arguments}
        found = {"by coordinate": both, "rotated": both}
        return found, list(found)
    cut = {**arguments, "coordinates": _cut(problem) or coordinates}
    found = {
        "by coordinate": {"family": "autoregressive-spline", "arguments": cut},
        "rotated": {"family": "composed-spline", "arguments": arguments},
        "along the radius": {
            "family": "composed-spline",
            "arguments": {**arguments, "radial": True},
        },
    }
    return found, list(found)


def coordinates_of(problem: Problem) -> list[dict[str, Any]]:
    """For each coordinate of x its kind, and where it lies on the line, from prior draws.

    Raises:
        ValueError: the range of x is no interval.
    """
    x = problem.sample_prior(SCOUTS, torch.Generator().manual_seed(0)).double()
    kind, z = _onto_line(problem, x)
    return [
        {"kind": kind, "centre": round(centre, 3), "scale": _rounded(scale)}
        for centre, scale in zip(z.mean(0).tolist(), z.std(0).tolist(), strict=True)
    ]


def _cut(problem: Problem) -> list[dict[str, Any]]:
    """Coordinates whose line is cut off at the ends of x; none where x has not two ends."""
    low, high = problem.x.low, problem.x.high
    if not math.isfinite(high - low):
        return []
    scale = _rounded((high - low) / math.sqrt(12))
    return [{"kind": "cut", "centre": (low + high) / 2, "scale": scale}] * problem.x.dim


def charts_of(problem: Problem, coordinates: list[dict[str, Any]]) -> ToSupport:
    """The maps of the line onto the range of every coordinate."""
    return ToSupport([coordinate_bijector(problem, **given) for given in coordinates])


def _onto_line(problem: Problem, x: Tensor) -> tuple[str, Tensor]:
    ends = (problem.x.low, problem.x.high)
    if ends == (-math.inf, math.inf):
        return "line", x
    if ends == (0.0, math.inf):
        return "positive", x.log()
    if ends == (0.0, 1.0):
        return "probability", x.logit()
    z: Tensor = biject_to(problem.support).inv(x)
    return "range", z


def _rounded(scale: float) -> float:
    """Three digits: a narrow prior must not be rounded to zero."""
    return float(f"{max(scale, 1e-30):.3g}")


def _on_half_line(problem: Problem) -> bool:
    if problem.x.dim > 1 or problem.theta is None:
        return False
    try:
        half_line(problem, torch.zeros(1, problem.theta.dim))
    except ValueError:
        return False
    return True


def _own(problem: Problem, line: TermRecipe) -> TermRecipe:
    """On f_plus' half-line where it has one, else on the range of x."""
    return _term("half-line-spline", problem, bins=32) if _on_half_line(problem) else line


def bounded(problem: Problem) -> bool:
    """Whether y and theta have ends, so that cases can be spread over their ranges."""
    return all(
        variable is None or math.isfinite(variable.typical_range[1] - variable.typical_range[0])
        for variable in (problem.y, problem.theta)
    )


def _term(family: str, problem: Problem, **arguments: Any) -> TermRecipe:
    return TermRecipe(
        family=family,
        arguments={**NETWORK, **arguments},
        objective="refine",
        settings={
            "cases": 192,
            "uniform_cases": 64 if bounded(problem) else 0,
            "from_proposal": 12,
            "from_reference": 4,
        },
        optimizer="soap",
        learning_rate=1e-2,
        annealed=True,
        steps_per_minute=1,
        share=1.0,
    )
