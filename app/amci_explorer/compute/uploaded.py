r"""Draws that a visitor brings: a file, diagnosed by another process, and kept by nobody."""

from __future__ import annotations

__all__ = [
    "MAX_BYTES",
    "MAX_DRAWS",
    "MEMORY",
    "Brought",
    "File",
    "TableResult",
    "limited",
    "sample",
]

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import amci_core as amci
from amci_core.io import plain
from amci_core.tabular import read_table
from amci_explorer.problems.settings import Settings

MAX_BYTES, MAX_DRAWS = 20_000_000, 1_000_000
# What reading and diagnosing a file may take, in bytes beside what a process has: a file can be
# made to unpack to much more than it says.
MEMORY = 2**31
# A sample that may be downloaded has so many draws of each component.
SAMPLED = 1000
THRESHOLD = 2.0


@dataclass(frozen=True)
class TableResult:
    """What a table of draws says.

    Arguments:
        name: The file's name.
        found: See `amci_core.estimation.TableDiagnosis.as_dict`; None for what is not finite.
        f_width: Width of the range of f in the table.
    """

    name: str
    found: dict[str, Any]
    f_width: float = math.inf

    @property
    def draws(self) -> int:
        """Draws in all."""
        return sum(self.found["draws"].values())


class File:
    """A file's content, until it is let go.

    Arguments:
        name: What it is called.
        content: Its bytes.
    """

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content = name, content

    def let_go(self) -> None:
        """Keeps nothing but the name."""
        self.content = b""


@dataclass(frozen=True)
class Brought:
    """A file that a visitor has brought, as work for the engine.

    Arguments:
        token: What tells it from any other: its result is for whoever brought it.
        file: The file.
        choice: What was chosen on the page then.
    """

    token: str
    file: File = field(repr=False, compare=False)
    choice: Settings = field(repr=False, compare=False)

    what = "table"

    @property
    def link(self) -> dict[str, str]:
        """What it answers."""
        return {"table": self.file.name}

    @property
    def kind(self) -> str:
        """All tables cost as much for their size."""
        return self.what

    @property
    def size(self) -> float:
        """Bytes."""
        return float(len(self.file.content))

    def less(self, share: float) -> str:
        """What to ask for instead."""
        return f"upload {max(share * self.size / 1e6, 0.1):,.1f} MB or less"

    def part(self, number: int) -> tuple[int, TableResult]:
        """All of it; called in a worker process."""
        del number
        with limited(MEMORY):
            arguments = read_table(
                self.file.content, name=self.file.name, max_bytes=MAX_BYTES, max_rows=MAX_DRAWS
            )
            found = plain(amci.diagnose(**arguments).as_dict())
            return 1, TableResult(self.file.name, found, float(np.ptp(arguments["f"])) or math.inf)

    def result(self, parts: list[TableResult]) -> TableResult:
        """What the page shows."""
        return parts[0]


def sample() -> StringIO:
    """A table as it is expected: P(x > 2) under N(0, 1), with draws beyond 2 and draws of q2."""
    rng = np.random.default_rng(0)
    excess, of_q2 = rng.exponential(0.4, SAMPLED), 1.1 * rng.standard_normal(SAMPLED)
    x = np.concatenate([THRESHOLD + excess, of_q2])
    with np.errstate(invalid="ignore"):
        above = np.log(1 / 0.4) - (x - THRESHOLD) / 0.4
    columns = {
        "component": ["q1_plus"] * SAMPLED + ["q2"] * SAMPLED,
        "x1": x,
        "f": (x > THRESHOLD).astype(float),
        "log_joint": -np.square(x) / 2 - np.log(2 * np.pi) / 2,
        "log_q_q1_plus": np.where(x > THRESHOLD, above, -np.inf),
        "log_q_q2": -np.square(x / 1.1) / 2 - np.log(1.1 * np.sqrt(2 * np.pi)),
    }
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(zip(*(list(column) for column in columns.values()), strict=True))
    text.seek(0)
    return text


@contextmanager
def limited(memory: int) -> Iterator[None]:
    """Has what asks for more memory than this fail, where the system can do that.

    Raises:
        ValueError: it was more.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        limit = pages * resource.getpagesize() + memory
        if before[1] != resource.RLIM_INFINITY:
            limit = min(limit, before[1])
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    except (ImportError, OSError, ValueError):
        yield
        return
    try:
        yield
    except MemoryError:
        raise ValueError("table: it takes more memory than is allowed here") from None
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, before)
