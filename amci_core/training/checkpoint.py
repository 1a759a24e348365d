r"""The file from which a training goes on where it ended."""

from __future__ import annotations

__all__ = ["begin", "read", "write"]

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from amci_core import io

FILE = "checkpoint.pt"


def begin(folder: Path) -> None:
    """Makes the folder of a new training.

    Raises:
        ValueError: it holds a training, or other files.
    """
    if (folder / FILE).exists():
        raise ValueError(
            f"folder: {folder} already holds a training. Resume it, or choose another folder"
        )
    io.vacant(folder)


def read(folder: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The state that was saved last.

    Arguments:
        folder: The folder of the training.
        plan: What defines it, in plain numbers and texts.

    Raises:
        ValueError: there is no training to go on with, or one with another plan.
        StoredFileError: the file is no checkpoint.
    """
    file = folder / FILE
    if not file.is_file():
        raise ValueError(f"resume: {folder} has no checkpoint. Leave resume out to start anew")
    try:
        state: dict[str, Any] = torch.load(file, weights_only=True)
        saved = state.pop("plan")
    except Exception:  # torch raises many, at length
        raise io.StoredFileError(
            f"{file}: not a checkpoint of a training. Remove it to start anew"
        ) from None
    differ = [name for name, value in plan.items() if saved.get(name) != value]
    if differ:
        raise ValueError(
            f"resume: {folder} holds a training with another {', '.join(differ)}. Repeat its "
            "settings, or choose another folder"
        )
    return state


def write(folder: Path, plan: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Saves a state: tensors, numbers, texts, and dictionaries, lists and tuples of these."""
    content = BytesIO()  # writing to a full disk torch raises at length
    torch.save({"plan": plan, **state}, content)
    io.write_bytes(folder / FILE, content.getvalue())
