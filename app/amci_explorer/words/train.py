r"""Messages about a training."""

from __future__ import annotations

__all__ = ["INTRODUCTION", "about_end", "about_phase", "about_plan"]

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from amci_explorer.compute.learner import GOING, IDLE, OVER, STARTING, STOPPING, WAITING, Learner
from amci_explorer.compute.trainee import Report
from amci_explorer.text import number

INTRODUCTION = (
    "Trains proposals for this problem while you watch. They appear in the list of proposals, "
    "and the whole page follows as they improve."
)
STAGES = {"imitate": "pre-training on particles", "refine": "refining"}
# The newest lines of a training's log.
LINES = 14


def about_phase(learner: Learner) -> str:
    """The state of a training, in a line."""
    order = learner.order
    if learner.phase == IDLE or order is None:
        return "No training is running."
    if learner.phase == WAITING:
        ahead = learner.ahead
        others = "one training is" if ahead == 1 else f"{ahead} trainings are"
        return f"Waiting: {others} ahead of yours." if ahead else "Waiting: yours is next."
    if learner.phase == OVER:
        return _about_over(learner)
    said = {
        STARTING: "Starting a process.",
        STOPPING: "Stopping.",
        GOING: "",
    }[learner.phase]
    if learner.phase == GOING:
        said = about_report(learner.reports[-1]) if learner.reports else _last(learner.said)
    return said


def about_report(report: Report) -> str:
    """The progress of a proposal."""
    best = number(report.best) if math.isfinite(report.best) else "not known"
    return (
        f"{report.proposal}, {STAGES.get(report.stage, report.stage)}: step {report.step:,}; best "
        f"relative variance on held-out cases {best}; about {report.left:.0f} s left"
    )


def about_end(learner: Learner) -> str:
    """The check at the end, in a sentence; empty where there was none."""
    if learner.phase != OVER or learner.proposals is None:
        return ""
    found: Any = learner.proposals.card.get("configuration", {}).get("verdict", {})
    text = str(found.get("text", "")) if isinstance(found, dict) else ""
    return text[:1].upper() + text[1:]


def about_plan(said: Sequence[str]) -> str:
    """The log of a training, as HTML."""
    if not said:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in said[-LINES:])
    return f"<details><summary>Training log</summary><ol>{items}</ol></details>"


def _about_over(learner: Learner) -> str:
    if learner.message:
        kept = f" {learner.variant} holds what was learnt by then." if learner.variant else ""
        return f"The training failed: {learner.message}.{kept}"
    if not learner.variant:
        return "Stopped before there was anything to keep."
    if learner.stopped:
        return (
            f"Stopped. {learner.variant} is the best up to that point, not checked on held-out "
            "cases."
        )
    spent = learner.reports[-1].seconds if learner.reports else 0.0
    return f"{learner.variant} was trained in {spent:.0f} s and is in the list of proposals."


def _last(said: Sequence[str]) -> str:
    return said[-1] if said else "Checking the problem."
