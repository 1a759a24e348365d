r"""What an evaluation over many cases says, in words."""

from __future__ import annotations

__all__ = ["about_evaluation"]

import numpy as np

from amci_core.models import Problem
from amci_explorer.colours import SWEPT
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.text import number, percent


def about_evaluation(found: Evaluated, problem: Problem, variant: str, name: str) -> str:
    """What was evaluated, and an estimator at the largest number of draws."""
    there = {"p(y)": problem.y, "p(θ)": problem.theta}
    drawn_from = " ".join(each for each, variable in there.items() if variable is not None)
    words = [
        f"{variant} proposals, {_counted(found)} drawn from {drawn_from}, {found.runs:,} runs "
        f"each, seed {found.seed}."
    ]
    if found.cases is not None and (found.cases.truth_error > 0).any():
        words.append("Errors are measured against values of μ that have a standard error.")
    if found.left_out:
        words.append(f"Cases without a reference value of μ, left out: {found.left_out:,}.")
    label, own = SWEPT[name].label, found.estimators.get(name)
    if own is None:
        return " ".join([*words, f"{label} is not part of it."])
    words.append(f"{label} with {found.draws[-1]:,} draws: median error {_last(found, name)}.")
    if (known := own.get("cases", [np.inf])[-1]) < found.counted:
        words.append(f"{known:,.0f} cases have a relative error: elsewhere μ is 0 or runs failed.")
    if name in found.against_bound:
        surely, undecided = (percent(share[-1]) for share in found.against_bound[name])
        words.append(
            "It is clearly below the best that any one proposal can do in "
            f"{surely} of the cases, undecided in {undecided}."
        )
    if undetermined := own.get("undetermined", [0])[-1]:
        share = percent(undetermined)
        words.append(f"In {share} of the cases the runs do not determine how large its error is.")
    return " ".join(words)


def _counted(found: Evaluated) -> str:
    whole = found.counted == found.wanted
    return f"{found.counted:,}{'' if whole else f' of {found.wanted:,}'} cases"


def _last(found: Evaluated, name: str) -> str:
    value = found.estimators[name]["remse_median"][-1]
    return "not known" if value is None else number(value, 2)
