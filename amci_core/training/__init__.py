r"""Training proposals: targets, objectives, one trainer, recipes, quality, and `learn`."""

from __future__ import annotations

__all__ = [
    "Choices",
    "Progress",
    "TermRecipe",
    "Trainer",
    "TrainingDiverged",
    "form_names",
    "learn",
    "recipe",
    "stream_learning",
    "train",
    "variants",
    "write_card",
]

from amci_core.training.forms import Choices, form_names
from amci_core.training.learn import learn, stream_learning
from amci_core.training.quality import write_card
from amci_core.training.recipes import recipe, train, variants
from amci_core.training.trainer import Progress, TermRecipe, Trainer, TrainingDiverged
