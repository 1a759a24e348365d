r"""What a training saves beside its proposals: a file to resume from, and its history."""

from __future__ import annotations

__all__ = ["Checkpoint", "History"]

import math
import time
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from amci_core import io
from amci_core.flows import Trainable
from amci_core.training.trainer import Progress, Trainer

# Seconds between two checkpoints.
CHECKPOINT_SECONDS = 30.0
# The history gets an entry when the divergence has fallen by this factor since the last one.
FALL = 1.5


class Checkpoint:
    """The file `checkpoint.pt` in the folder of a training, for the same training to resume from.

    Arguments:
        folder: The folder; None where nothing is saved.
        plan: What defines the training, in plain numbers and texts.
        resume: Whether to go on from the file.

    Attributes:
        state: What was saved last; None for a new training.

    Raises:
        ValueError: the folder holds something, but `resume` is False; or no training to go on
            with; or one with another plan.
        StoredFileError: the file is no checkpoint.
    """

    def __init__(self, folder: Path | None, plan: Mapping[str, Any], *, resume: bool) -> None:
        self.folder, self._plan = folder, dict(plan)
        self._due = -math.inf
        self.state: dict[str, Any] | None = None
        if folder is None:
            if resume:
                raise ValueError(
                    "resume: expected a folder, got None. Pass the folder of the training"
                )
            return
        self._file = folder / "checkpoint.pt"
        if resume:
            self.state = self._read(folder)
        elif self._file.exists():
            raise ValueError(
                f"folder: {folder} already holds a training. Resume it, or choose another folder"
            )
        else:
            io.vacant(folder)

    def _read(self, folder: Path) -> dict[str, Any]:
        if not self._file.is_file():
            raise ValueError(f"resume: {folder} has no checkpoint. Leave resume out to start anew")
        try:
            state: dict[str, Any] = torch.load(self._file, weights_only=True)
            saved = state.pop("plan")
        except Exception:  # torch raises many, at length
            raise io.StoredFileError(
                f"{self._file}: not a checkpoint of a training. Remove it to start anew"
            ) from None
        differ = [name for name, value in self._plan.items() if saved.get(name) != value]
        if differ:
            raise ValueError(
                f"resume: {folder} holds a training with another {', '.join(differ)}. Repeat "
                "its settings, or choose another folder"
            )
        return state

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self.folder is not None and time.monotonic() >= self._due

    def save(self, state: Mapping[str, Any]) -> None:
        """Saves a state: tensors, numbers, texts, and dictionaries, lists and tuples of these."""
        content = BytesIO()  # writing to a full disk torch raises at length
        torch.save({"plan": self._plan, **state}, content)
        io.write_bytes(self._file, content.getvalue())
        self._due = time.monotonic() + CHECKPOINT_SECONDS

    def remove(self) -> None:
        """The training is complete."""
        if self.folder is not None:
            self._file.unlink(missing_ok=True)


class History:
    """The best q1_plus at a few moments of its training, saved in the folder's `snapshots`.

    Arguments:
        folder: The folder of the training.
        most: Entries that remain, at most.
        entries: Those saved so far, in the order of training.
    """

    def __init__(self, folder: Path, most: int, entries: list[dict[str, Any]]) -> None:
        self._folder, self._most, self.entries = folder, most, entries

    def add(
        self,
        trainer: Trainer,
        progress: Progress,
        proposal: Trainable,
        *,
        step: int,
        ended: bool,
        built: Mapping[str, Any],
    ) -> None:
        """Saves the best so far if its divergence has fallen, and the last one.

        Arguments:
            trainer: Which trains it.
            progress: Its last report.
            proposal: The best so far.
            step: Steps of all stages.
            ended: Whether it is the last one.
            built: The proposal's family and arguments.
        """
        best = trainer.best_quality
        fell = not self.entries or best.divergence * FALL < self.entries[-1]["divergence"]
        if not (fell or ended) or step in {entry["step"] for entry in self.entries}:
            return
        file = f"snapshots/{step:06d}.safetensors"
        entry = {
            "file": file,
            "sha256": io.write_tensors(self._folder / file, proposal.state_dict()),
            "step": step,
            "seconds": round(progress.seconds, 2),
            "relative_variance": best.relative_variance,
            "divergence": best.divergence,
            **built,
        }
        self.entries.append(entry)

    def thin(self) -> None:
        """Leaves at most so many entries, the first and the last among them.

        Their divergences are as even on a log scale as those of the history allow.
        """
        kept = self.entries
        if len(kept) > self._most:
            smallest = np.finfo(float).tiny
            logs = [math.log(max(entry["divergence"], smallest)) for entry in kept]
            inner = range(1, len(kept) - 1)
            even = np.linspace(logs[0], logs[-1], self._most)[1:-1]
            nearest = {min(inner, key=lambda i: abs(logs[i] - level)) for level in even}
            kept = [kept[i] for i in sorted({0, *nearest, len(kept) - 1})]
        for entry in self.entries:
            if entry not in kept:
                (self._folder / entry["file"]).unlink(missing_ok=True)
        self.entries = kept
