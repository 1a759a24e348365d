r"""Training proposals: targets, objectives, recipes, fits, and whole sessions with checkpoints."""

from __future__ import annotations

__all__ = ["Progress", "TrainingDiverged", "parse_budget", "recipe", "train", "variants"]

from amci_core.training.fit import Progress, TrainingDiverged
from amci_core.training.recipes import recipe, variants
from amci_core.training.session import parse_budget, train
