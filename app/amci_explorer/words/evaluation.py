r"""What an evaluation over many cases says, in words."""

from __future__ import annotations

__all__ = ["about_evaluation", "about_picture", "drawn_from"]

from collections.abc import Sequence

import numpy as np

from amci_core.models import Problem
from amci_explorer.colours import SWEPT
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.text import number, percent


def drawn_from(problem: Problem) -> str:
    """What cases of a problem are drawn from: p(y) p(θ), or the one that there is."""
    there = {"p(y)": problem.y, "p(θ)": problem.theta}
    return " ".join(name for name, variable in there.items() if variable is not None)


def about_evaluation(found: Evaluated, problem: Problem, variant: str, name: str) -> str:
    """What was evaluated, and an estimator at the largest number of draws."""
    words = [
        f"{variant} proposals, {_counted(found)} drawn from {drawn_from(problem)}, "
        f"{found.runs:,} runs each, seed {found.seed}."
    ]
    if found.cases is not None and (found.cases.truth_error > 0).any():
        words.append("Errors are measured against values of μ that have a standard error.")
    if found.left_out:
        words.append(f"Cases without a reference value of μ, left out: {found.left_out:,}.")
    if not found.estimators:
        return " ".join(words)
    label, own = SWEPT[name].label, found.estimators.get(name)
    if own is None:
        return " ".join([*words, f"{label} is not part of this evaluation."])
    words.append(
        f"{label} at {found.draws[-1]:,} total draws: median relative mean squared error "
        f"{_last(own['remse_median'])}."
    )
    if (known := own.get("cases", [np.inf])[-1]) < found.counted:
        words.append(
            f"{known:,.0f} of the cases have a relative error; in the others μ is 0, or all runs "
            "failed."
        )
    if name in found.against_bound:
        surely, undecided = (percent(share[-1]) for share in found.against_bound[name])
        words.append(
            "It is clearly below the SNIS bound (independent draws, one proposal) in "
            f"{surely} of the cases; {undecided} are undecided."
        )
    if own.get("undetermined", [0])[-1]:
        share = percent(own["undetermined"][-1])
        words.append(f"The runs do not determine the mean in {share} of the cases.")
    return " ".join(words)


def about_picture(found: Evaluated) -> str:
    """The text alternative of the picture."""
    told = ", ".join(
        f"{SWEPT[name].label} {_last(each['remse_median'])}"
        for name, each in found.estimators.items()
        if name in SWEPT
    )
    return (
        f"Median over {_counted(found)} of the relative mean squared error at "
        f"{found.draws[-1]:,} total draws: {told}."
    )


def _counted(found: Evaluated) -> str:
    whole = found.counted == found.wanted
    return f"{found.counted:,}{'' if whole else f' of {found.wanted:,}'} cases"


def _last(values: Sequence[float | None]) -> str:
    return "not known" if values[-1] is None else number(values[-1], 2)
