r"""Files that a user uploads: tables of draws, and proposals as a zip; and files to download.

A worker reads an uploaded file, with a limit on its memory. Of a zip only names, sizes and numbers
that our own files have are taken. The content is let go once there is a result.
"""

from __future__ import annotations

__all__ = [
    "MAX_BYTES",
    "MAX_DRAWS",
    "File",
    "TableResult",
    "UploadedProposals",
    "UploadedTable",
    "limited",
    "sample_table",
    "unzipped",
    "zipped",
]

import math
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import amci_core as amci
from amci_core.estimators import PROPOSALS
from amci_core.flows import Proposals
from amci_core.io import plain, read_json
from amci_core.models import Problem
from amci_core.tabular import read_table
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Settings

MAX_BYTES, MAX_DRAWS = 20_000_000, 1_000_000
# Bytes that reading a file may take beside what a worker has: it may unpack to more than it says.
MEMORY = 2**31
# Bytes of all files in a zip, and of its configuration.
MOST_UNPACKED, LONGEST_CONFIGURATION = 64_000_000, 2_000_000
CONFIGURATION = "config.json"
FILES = {CONFIGURATION, *(f"{name}.safetensors" for name in PROPOSALS)}
# Limits of a family's arguments: a number of units could take all memory.
LARGEST_NUMBER, MOST_VALUES, DEEPEST = 4096, 20_000, 8
# Draws that uploaded proposals are tried with, and those of each component in the sample table.
TRIED, SAMPLED = 64, 1000
THRESHOLD = 2.0


class File:
    """A file's content, until it is let go.

    Arguments:
        name: Its name.
        content: Its bytes.
    """

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content = name, content

    def let_go(self) -> None:
        """Keeps nothing but the name."""
        self.content = b""


@dataclass(frozen=True)
class _Uploaded:
    """An uploaded file, as a request.

    Arguments:
        token: What tells it from any other: its result is for whoever uploaded it.
        file: The file.
    """

    token: str
    file: File = field(repr=False, compare=False)

    def less(self, share: float) -> str:
        """What to ask for instead."""
        return f"upload {max(share * len(self.file.content) / 1e6, 0.1):,.1f} MB or less"

    def part(self, number: int) -> tuple[int, Any]:
        """All of it; called in a worker."""
        del number
        with limited(MEMORY):
            return 1, self.read()

    def read(self) -> Any:
        """What the file holds."""
        raise NotImplementedError

    def result(self, parts: list[Any]) -> Any:
        """What the page shows."""
        return parts[0]


@dataclass(frozen=True)
class TableResult:
    """The diagnosis of a table of draws.

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
        """Draws of all components together."""
        return sum(self.found["draws"].values())


@dataclass(frozen=True)
class UploadedTable(_Uploaded):
    """An uploaded table of draws, to be diagnosed.

    Arguments:
        settings: The page's settings then.
    """

    settings: Settings = field(repr=False, compare=False)

    what = "table"

    @property
    def link(self) -> dict[str, str]:
        """What its result answers."""
        return {"table": self.file.name}

    def read(self) -> TableResult:
        """The diagnosis."""
        columns = read_table(
            self.file.content, name=self.file.name, max_bytes=MAX_BYTES, max_rows=MAX_DRAWS
        )
        found = plain(amci.diagnose(**columns).as_dict())
        return TableResult(self.file.name, found, float(np.ptp(columns["f"])) or math.inf)


@dataclass(frozen=True)
class UploadedProposals(_Uploaded):
    """An uploaded zip of proposals.

    Arguments:
        problem: The name of the problem that they are for.
    """

    problem: str

    what = "proposals"

    def read(self) -> Proposals:
        """The proposals, checked."""
        return unzipped(self.file.content, registry.problem(self.problem))


def sample_table() -> BytesIO:
    """A table as it is expected: P(x > 2) under N(0, 1), with draws beyond 2 and draws of q2."""
    rng = np.random.default_rng(0)
    excess, of_q2 = rng.exponential(0.4, SAMPLED), 1.1 * rng.standard_normal(SAMPLED)
    x = np.concatenate([THRESHOLD + excess, of_q2])
    above = np.log(1 / 0.4) - (x - THRESHOLD) / 0.4
    table = pd.DataFrame(
        {
            "component": ["q1_plus"] * SAMPLED + ["q2"] * SAMPLED,
            "x1": x,
            "f": (x > THRESHOLD).astype(float),
            "log_joint": -np.square(x) / 2 - np.log(2 * np.pi) / 2,
            "log_q_q1_plus": np.where(x > THRESHOLD, above, -np.inf),
            "log_q_q2": -np.square(x / 1.1) / 2 - np.log(1.1 * np.sqrt(2 * np.pi)),
        }
    )
    return BytesIO(table.to_csv(index=False).encode())


def zipped(proposals: Proposals) -> BytesIO:
    """A zip of what `amci.save_proposals` writes.

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


def unzipped(content: bytes, problem: Problem) -> Proposals:
    """The proposals in a zip, for a problem, checked.

    Raises:
        ValueError: it is no such zip, or too large; or its files are damaged, made for another
            problem, or hold what proposals cannot be made of; or these give numbers that are not
            finite.
    """
    with tempfile.TemporaryDirectory() as folder:
        _extract(content, folder)
        try:
            config = read_json(Path(folder) / CONFIGURATION)
            built = config.get("proposals") if isinstance(config, dict) else None
            for name, entry in built.items() if isinstance(built, dict) else ():
                if isinstance(entry, dict):
                    _check_arguments(name, entry.get("arguments"))
            loaded = amci.load_proposals(problem, folder=folder)
        except ValueError as error:
            raise ValueError(re.sub(re.escape(folder) + r"/?", "", str(error))) from None
    _try(loaded, problem)
    return loaded


def _extract(content: bytes, folder: str) -> None:
    """Writes the files of a zip to a folder: only files that are expected, none too large."""
    expected = "expected a zip file made by Download"
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
            # Extracting writes no more of a file than the zip says its size is.
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            odd = sorted(sizes.keys() - FILES)
            if odd:
                raise ValueError(f"{expected}, but {odd[0][:60]!r} is in it")
            if len(sizes) < len(names) or CONFIGURATION not in sizes:
                raise ValueError(f"{expected}, with each file once and {CONFIGURATION}")
            most = LONGEST_CONFIGURATION, MOST_UNPACKED
            if sizes[CONFIGURATION] > most[0] or sum(sizes.values()) > most[1]:
                raise ValueError(f"{expected}, its files are larger than {most[1] / 1e6:.0f} MB")
            archive.extractall(folder)
    except ValueError:
        raise
    except Exception as error:  # zipfile and its decompressors raise many
        raise ValueError(f"{expected} ({str(error) or type(error).__name__})") from None


def _check_arguments(name: str, arguments: Any) -> None:
    """Refuses arguments of a family that nothing we trained has."""
    values = [arguments]
    for _ in range(DEEPEST):
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
    if values:
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
        weights = proposal.state_dict().values()  # type: ignore[attr-defined]
        with torch.inference_mode():
            drawn = proposal(y, theta).draw(TRIED, torch.Generator().manual_seed(0))
        if not all(bool(each.isfinite().all()) for each in (*weights, *drawn)):
            raise ValueError(f"{name}: gives numbers that are not finite")


@contextmanager
def limited(memory: int) -> Iterator[None]:
    """Makes what asks for more memory than this fail, if the system can do that.

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
        raise ValueError("it takes more memory than is allowed here") from None
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, before)
