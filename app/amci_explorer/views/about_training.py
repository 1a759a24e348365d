r"""Messages about a training."""

from __future__ import annotations

__all__ = ["INTRODUCTION", "about_end", "about_log", "about_phase"]

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from amci_explorer.compute.training import (
    GOING,
    IDLE,
    OVER,
    STARTING,
    STOPPING,
    WAITING,
    Report,
    TrainingSession,
)
from amci_explorer.text import number

INTRODUCTION = (
    "Trains proposals for this problem while you watch. They appear in the list of proposals, "
    "and the whole page follows as they improve."
)
STAGES = {"imitate": "pre-training on particles", "refine": "refining"}
# The newest lines of a training's log.
LINES = 14


def about_phase(training: TrainingSession) -> str:
    """The state of a training, in a line."""
    request = training.request
    if training.phase == IDLE or request is None:
        return "No training is running."
    if training.phase == WAITING:
        ahead = training.ahead
        others = "one training is" if ahead == 1 else f"{ahead} trainings are"
        return f"Waiting: {others} ahead of yours." if ahead else "Waiting: yours is next."
    if training.phase == OVER:
        return _about_over(training)
    said = {
        STARTING: "Starting a process.",
        STOPPING: "Stopping.",
        GOING: "",
    }[training.phase]
    if training.phase == GOING:
        said = about_report(training.reports[-1]) if training.reports else _last(training.log)
    return said


def about_report(report: Report) -> str:
    """The progress of a proposal."""
    best = number(report.best) if math.isfinite(report.best) else "not known"
    return (
        f"{report.proposal}, {STAGES.get(report.stage, report.stage)}: step {report.step:,}; best "
        f"relative variance on held-out cases {best}; about {report.left:.0f} s left"
    )


def about_end(training: TrainingSession) -> str:
    """The check at the end, in a sentence; empty where there was none."""
    if training.phase != OVER or training.proposals is None:
        return ""
    found: Any = training.proposals.card.get("configuration", {}).get("verdict", {})
    text = str(found.get("text", "")) if isinstance(found, dict) else ""
    return text[:1].upper() + text[1:]


def about_log(log: Sequence[str]) -> str:
    """The log of a training, as HTML."""
    if not log:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in log[-LINES:])
    return f"<details><summary>Training log</summary><ol>{items}</ol></details>"


def _about_over(training: TrainingSession) -> str:
    if training.message:
        kept = f" {training.variant} holds what was learnt by then." if training.variant else ""
        return f"The training failed: {training.message}.{kept}"
    if not training.variant:
        return "Stopped before there was anything to keep."
    if training.stopped:
        return (
            f"Stopped. {training.variant} is the best up to that point, not checked on held-out "
            "cases."
        )
    spent = training.reports[-1].seconds if training.reports else 0.0
    return f"{training.variant} was trained in {spent:.0f} s and is in the list of proposals."


def _last(log: Sequence[str]) -> str:
    return log[-1] if log else "Checking the problem."
