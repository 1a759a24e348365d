r"""Training proposals: targets, objectives, one trainer, quality, and `learn`."""

from __future__ import annotations

__all__ = [
    "Choices",
    "Objective",
    "Progress",
    "TermRecipe",
    "Trainer",
    "TrainingDiverged",
    "form_names",
    "learn",
    "recipe",
    "write_card",
]

from amci_core.training.choices import Choices, form_names, recipe
from amci_core.training.learn import learn
from amci_core.training.objectives import Objective
from amci_core.training.quality import write_card
from amci_core.training.trainer import Progress, TermRecipe, Trainer, TrainingDiverged
