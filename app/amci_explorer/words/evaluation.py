r"""What an evaluation over many cases says, in words."""

from __future__ import annotations

__all__ = [
    "about_case",
    "about_evaluation",
    "about_origin",
    "about_picture",
    "coordinates",
    "drawn_from",
    "share",
]

import math
from collections.abc import Sequence

from amci_core.models import Problem
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.plots.colours import SWEPT
from amci_explorer.text import number
from amci_explorer.words.curves import CEILING

SYMBOLS = {"y": "y", "theta": "θ"}


def coordinates(value: Sequence[float]) -> str:
    """A point for reading; empty where there is none."""
    text = ", ".join(f"{v:.3g}".replace("-", "−") for v in value)
    return f"({text})" if len(value) > 1 else text


def about_case(case: int, y: Sequence[float], theta: Sequence[float]) -> str:
    """Which case it is: "case 12, y = 1.2, θ = 3"."""
    points = {"y": coordinates(y), "theta": coordinates(theta)}
    said = [f"{SYMBOLS[name]} = {text}" for name, text in points.items() if text]
    return ", ".join([f"case {case}", *said])


def drawn_from(problem: Problem) -> str:
    """What cases of a problem are drawn from: p(y) p(θ), or the one that there is."""
    there = {"p(y)": problem.y, "p(θ)": problem.theta}
    return " ".join(name for name, variable in there.items() if variable is not None)


def about_origin(found: Evaluated, problem: Problem, *, stored: bool, variant: str) -> str:
    """What was done: cases, runs, seed, with which weights."""
    text = (
        f"{variant} proposals, {found.wanted:,} cases drawn from {drawn_from(problem)}, "
        f"{found.runs:,} runs each, seed {found.seed}"
    )
    if not stored:
        words = [f"Live: {text}."]
    else:
        words = [f"Stored with the {text}. It evaluates exactly the weights loaded here."]
    if found.left_out:
        words.append(f"{found.left_out:,} cases could not be computed and are left out.")
    if found.cases is not None and (found.cases.truth_error > 0).any():
        words.append("Errors are measured against values of μ that have a standard error.")
    return " ".join([*words, found.remark]).strip()


def about_evaluation(found: Evaluated, name: str) -> str:
    """An estimator at the largest budget, in words."""
    if name not in found.estimators:
        return f"{SWEPT[name].label} is not part of this evaluation."
    own, label = found.estimators[name], SWEPT[name].label
    draws = f"{found.budgets[-1]:,} total draws"
    median = _figure(own["remse_median"])
    if math.isnan(median):
        return f"{label} has no relative error at {draws}."
    error = _figure(own.get("remse_median_error", [math.nan]))
    words = [
        f"{label} at {draws}: median relative mean squared error {number(median, 2)} ± "
        f"{number(error, 1)} over {found.counted:,} cases."
    ]
    if name in found.against_bound:
        _, surely, undecided = (share[-1] for share in found.against_bound[name])
        words.append(
            "It is clearly below the SNIS bound (independent draws, one proposal) in "
            + share(surely)
            + (f"; {share(undecided)} are undecided." if undecided else ".")
        )
    undetermined = _figure(own.get("undetermined", [0.0]))
    if undetermined:
        words.append(f"The runs do not determine the mean in {share(undetermined)}.")
    if _figure(own.get("reference_limited", [0.0])):
        doubtful = share(_figure(own["reference_limited"]))
        words.append(f"In {doubtful} μ is not known well enough.")
    for other, each in found.estimators.items():
        if other in SWEPT and _figure(each["remse_median"]) > CEILING:
            height = number(_figure(each["remse_median"]), 2)
            words.append(f"{SWEPT[other].label} is off the scale ({height}).")
    return " ".join(words)


def about_picture(found: Evaluated) -> str:
    """The text alternative of the picture."""
    ends = {name: _figure(each["remse_median"]) for name, each in found.estimators.items()}
    told = ", ".join(
        f"{SWEPT[name].label} {'not known' if math.isnan(end) else number(end, 2)}"
        for name, end in ends.items()
        if name in SWEPT
    )
    return (
        f"Median over {found.counted:,} cases of the relative mean squared error at "
        f"{found.budgets[-1]:,} total draws: {told}."
    )


def share(of: float) -> str:
    """A share of the cases: "7 % of the cases"."""
    return {0.0: "none of the cases", 1.0: "all cases"}.get(of) or f"{100 * of:.3g} % of the cases"


def _figure(values: Sequence[float | None]) -> float:
    """The last one; NaN where it is not known."""
    return math.nan if values[-1] is None else float(values[-1])
