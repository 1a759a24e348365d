r"""AMCI beside the best self-normalized sampler."""

from __future__ import annotations

__all__ = ["EXACT", "compare", "position", "stands"]

import math
from dataclasses import dataclass

import numpy as np

from amci_core.evaluation import ErrorCurves, runs_by_draws
from amci_core.evaluation.runs import is_determined, least_effective
from amci_explorer.colours import PLAIN

EXACT = 1e-11
ROUGH = 8
ENOUGH = 250
NAMES = {"snis-q1", "snis-q2", "snis-qm", "snis-qm-stratified"}


@dataclass(frozen=True)
class Compared:
    """Root mean squared relative errors at one number of draws; NaN if the runs do not show one.

    Arguments:
        amci: AMCI's.
        control: AMCI's with control variates.
        rival: The best of the estimators that AMCI is compared with; empty if there is none.
        best: The rival's error.
        rough: Errors known to one digit.
    """

    amci: float = math.nan
    control: float = math.nan
    rival: str = ""
    best: float = math.nan
    rough: frozenset[str] = frozenset()


def position(curves: ErrorCurves, total: int) -> int:
    """Which of the curves' numbers of draws is that of a run."""
    return int(np.searchsorted(curves.draws, min(total, int(curves.draws[-1]))))


def stands(curves: ErrorCurves, at: int) -> bool:
    """Whether the headline gives errors: from half the runs wanted, or 250, on.

    Arguments:
        curves: Error curves that grow.
        at: Which of their numbers of draws.
    """
    wanted = runs_by_draws(curves.runs_wanted, curves.draws)[at]
    return bool(curves["amci"].runs[at] >= min(wanted / 2, ENOUGH))


def compare(curves: ErrorCurves, at: int) -> Compared:
    """Errors of AMCI, with control variates too, and of the best self-normalized sampler.

    A sampler whose median is below the least error that the runs show may have the least itself.
    Who gives one answer in nearly all runs, as SNIS with a q1 that is never below the threshold,
    does not estimate: its error says how far that answer is from the truth.

    Arguments:
        curves: Error curves.
        at: Which of their numbers of draws.
    """
    found = {
        name: math.sqrt(curve.mean[at])
        if curve.known or is_determined(curve.mean[at], curve.effective[at], ROUGH)
        else math.nan
        for name, curve in curves.by_name.items()
    }
    quartiles = {n: [float(q[at]) for q in c.quartiles] for n, c in curves.by_name.items()}
    # If E2 is known, self-normalizing is pointless.
    plain = [name for name in found if name in PLAIN]
    rivals = [
        name
        for name in plain or found
        if name in (*PLAIN, *NAMES)
        and (quartiles[name][0] < quartiles[name][2] or quartiles[name][1] < EXACT**2)
    ]
    size = {n: found[n] if found[n] >= 0 else math.sqrt(quartiles[n][1]) for n in rivals}
    rival = min((n for n in size if size[n] < math.inf), key=lambda name: size[name], default="")
    # Errors of curves that grow have two digits once they are known as well as in the end.
    least = least_effective(runs_by_draws(curves.runs_wanted, curves.draws)[at])
    return Compared(
        amci=found["amci"],
        control=found["amci-cv"],
        rival=rival,
        best=found.get(rival, math.nan),
        rough=frozenset(
            name
            for name, curve in curves.by_name.items()
            if not is_determined(curve.mean[at], curve.effective[at], least)
        ),
    )
