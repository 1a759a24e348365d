r"""Training proposals: targets, objectives, recipes, fits, and whole sessions with checkpoints."""

from __future__ import annotations

__all__ = [
    "Choices",
    "Plan",
    "Progress",
    "TrainingDiverged",
    "form_names",
    "learn",
    "parse_budget",
    "recipe",
    "stream_learning",
    "train",
    "usual_terms",
    "variants",
    "write_card",
]

from amci_core.training.course import Plan
from amci_core.training.forms import Choices, form_names, usual_terms
from amci_core.training.learn import learn, stream_learning
from amci_core.training.progress import Progress, TrainingDiverged
from amci_core.training.quality import write_card
from amci_core.training.recipes import parse_budget, recipe, variants
from amci_core.training.train import train
