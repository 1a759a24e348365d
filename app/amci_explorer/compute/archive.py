r"""Proposals as one file: a zip of what `amci.save_proposals` writes, and what is read of one.

A file that a visitor brings is read by a process that computes, with a limit on its memory. Only
names, sizes and numbers that our own files have are taken; nothing of it is kept on the disk.
"""

from __future__ import annotations

__all__ = ["MAX_BYTES", "Brought", "packed", "unpacked"]

import re
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

import amci_core as amci
from amci_core.estimators import PROPOSALS
from amci_core.flows import Proposals
from amci_core.io import read_json
from amci_core.models import Problem
from amci_explorer.compute.uploaded import MEMORY, File, limited
from amci_explorer.problems import registry

# Of the file, and of all that is in it.
MAX_BYTES, MOST_UNPACKED = 20_000_000, 64_000_000
CONFIGURATION = "config.json"
FILES = {CONFIGURATION, *(f"{name}.safetensors" for name in PROPOSALS)}
LONGEST_CONFIGURATION = 2_000_000
# What a family's arguments may hold: a number of units, say, that large would take all memory.
LARGEST_NUMBER, MOST_VALUES, DEEPEST = 4096, 20_000, 8
# Draws that are tried.
TRIED = 64


def packed(proposals: Proposals) -> BytesIO:
    """A zip of what `amci.save_proposals` writes, at its beginning.

    Raises:
        ValueError: see `amci.save_proposals`.
    """
    content = BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        place = amci.save_proposals(Path(folder) / "proposals", proposals)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(place.iterdir()):
                archive.write(path, path.name)
    content.seek(0)
    return content


def unpacked(content: bytes, problem: Problem) -> Proposals:
    """The proposals in a zip, for a problem, checked.

    Raises:
        ValueError: it is no such zip, or too large; or its files are damaged, made for another
            problem, or hold what proposals cannot be made of; or these give numbers that are not
            finite.
    """
    files = _read(content)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        try:
            config = read_json(Path(folder) / CONFIGURATION)
            made = config.get("proposals") if isinstance(config, dict) else None
            for name, entry in made.items() if isinstance(made, dict) else ():
                if isinstance(entry, dict):
                    _check_arguments(name, entry.get("arguments"))
            loaded = amci.load_proposals(problem, folder=folder)
        except ValueError as error:
            raise ValueError(re.sub(re.escape(folder) + r"/?", "", str(error))) from None
    _try(loaded, problem)
    return loaded


def _read(content: bytes) -> dict[str, bytes]:
    """What is in a zip, by name; none but files that are expected, none too large."""
    expected = "expected a zip file made by Download"
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            odd = sorted(set(names) - FILES)
            if odd:
                raise ValueError(f"{expected}, but {odd[0][:60]!r} is in it")
            if len(set(names)) < len(names) or CONFIGURATION not in names:
                raise ValueError(f"{expected}, with each file once and {CONFIGURATION}")
            found, room = {}, MOST_UNPACKED
            for entry in entries:
                if entry.flag_bits & 1:
                    raise ValueError(f"{expected}, without a password")
                most = min(
                    room, LONGEST_CONFIGURATION if entry.filename == CONFIGURATION else room
                )
                # What it says of its size need not be true.
                with archive.open(entry) as file:
                    found[entry.filename] = file.read(most + 1)
                if len(found[entry.filename]) > most:
                    raise ValueError(f"{entry.filename}: larger than {most / 1e6:.0f} MB")
                room -= len(found[entry.filename])
            return found
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"{expected} ({error})") from None
    except Exception as error:
        if isinstance(error, ValueError):
            raise
        raise ValueError(f"{expected} ({type(error).__name__})") from None


def _check_arguments(name: str, arguments: Any) -> None:
    """Refuses arguments of a family that nothing we trained has."""
    values, level = [arguments], 0
    for level in range(DEEPEST):  # noqa: B007
        inner: list[Any] = []
        for each in values:
            if isinstance(each, Mapping):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            elif type(each) is int and abs(each) > LARGEST_NUMBER:
                raise ValueError(f"{name}: expected whole numbers to {LARGEST_NUMBER}, got {each}")
        if len(inner) > MOST_VALUES:
            raise ValueError(f"{name}: expected at most {MOST_VALUES} numbers")
        values = inner
        if not values:
            return
    raise ValueError(f"{name}: its arguments are nested too deeply")


def _try(proposals: Proposals, problem: Problem) -> None:
    """Draws a few points.

    Raises:
        ValueError: a weight, a point or a density is not finite.
    """
    y, theta = problem.check(*problem.typical_case())
    for name, proposal in zip(PROPOSALS, proposals.as_tuple, strict=True):
        if proposal is None:
            continue
        tensors = proposal.state_dict().values()  # type: ignore[attr-defined]
        good = all(bool(t.isfinite().all()) for t in tensors)
        with torch.inference_mode():
            x, log_q = proposal(y, theta).draw(TRIED, torch.Generator().manual_seed(0))
        if not (good and bool(x.isfinite().all()) and bool(log_q.isfinite().all())):
            raise ValueError(f"{name}: gives numbers that are not finite")


@dataclass(frozen=True)
class Brought:
    """Proposals that a visitor has brought, as work for the engine.

    Arguments:
        token: What tells them from any other.
        problem: The name of the problem that they are for.
        file: The file.
    """

    token: str
    problem: str
    file: File = field(repr=False, compare=False)

    what = "proposals"

    @property
    def kind(self) -> str:
        """All files cost as much for their size."""
        return self.what

    @property
    def size(self) -> float:
        """Bytes."""
        return float(len(self.file.content))

    def less(self, share: float) -> str:
        """What to ask for instead."""
        return f"upload {max(share * self.size / 1e6, 0.1):,.1f} MB or less"

    def part(self, number: int) -> tuple[int, Proposals]:
        """All of it; called in a worker process."""
        del number
        with limited(MEMORY):
            return 1, unpacked(self.file.content, registry.problem(self.problem))

    def result(self, parts: list[Proposals]) -> Proposals:
        """What the page lists."""
        return parts[0]
