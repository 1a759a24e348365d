r"""Files that a user uploads: tables of draws, and proposals as a zip; and files to download.

A worker reads an uploaded file, with a limit on its memory. Of a zip only names and sizes that our
own files have are taken.
"""

from __future__ import annotations

__all__ = [
    "MAX_BYTES",
    "TableResult",
    "read_draws",
    "read_proposals",
    "sample_table",
    "zipped",
]

import math
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import expon, norm

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.flows.proposals import NAMES
from amci_core.io import plain
from amci_core.models import Problem
from amci_core.tabular import read_columns
from amci_explorer.problems import registry

MAX_BYTES = 20_000_000
# Bytes that reading a file may take beside what a worker has: it may unpack to more than it says.
MEMORY = 2**31
# Bytes of all files in a zip.
MOST_UNPACKED = 64_000_000
CONFIGURATION = "config.json"
FILES = {CONFIGURATION, *(f"{name}.safetensors" for name in NAMES)}
# Draws that uploaded proposals are tried with, and those of each component in the sample table.
TRIED, SAMPLED = 64, 1000


@dataclass(frozen=True)
class TableResult:
    """The diagnosis of a table of draws.

    Arguments:
        name: The file's name.
        found: See `amci_core.estimation.TableEstimates.as_dict`; None for what is not finite.
        f_width: Width of the range of f in the table.
    """

    name: str
    found: dict[str, Any]
    f_width: float = math.inf

    @property
    def draws(self) -> int:
        """Draws of all components together."""
        return sum(self.found["draws"].values())


def read_draws(name: str, content: bytes, f: str) -> TableResult:
    """The diagnosis of a table of draws, with that column of f; in a worker.

    Raises:
        ValueError: see `amci_core.tabular.read_columns` and `amci_core.estimate_from_draws`.
    """
    with limited(MEMORY):
        columns = read_columns(content, name=name, max_bytes=MAX_BYTES)
        found = plain(amci.estimate_from_draws(columns, f=f).as_dict())
        return TableResult(name, found, float(np.ptp(columns[f].astype(float))) or math.inf)


def read_proposals(name: str, content: bytes) -> Proposals:
    """The proposals in a zip, for the problem of that name, checked; in a worker.

    Raises:
        ValueError: it is no such zip, or too large; or its files are damaged, made for another
            problem, or hold what proposals cannot be made of; or these give numbers that are not
            finite.
    """
    problem = registry.problem(name)
    with limited(MEMORY), tempfile.TemporaryDirectory() as folder:
        _extract(content, folder)
        try:
            loaded = amci.load_proposals(problem, folder=folder)
            _try(loaded, problem)
        except (ValueError, RuntimeError) as error:
            raise ValueError(re.sub(re.escape(folder) + r"/?", "", str(error))) from None
    return loaded


def sample_table() -> BytesIO:
    """A table as it is expected: P(x > 2) under N(0, 1), with draws beyond 2 and draws of q2."""
    rng = np.random.default_rng(0)
    x = np.concatenate([2 + rng.exponential(0.4, SAMPLED), 1.1 * rng.standard_normal(SAMPLED)])
    columns = {
        "component": np.repeat(["q1_plus", "q2"], SAMPLED),
        "x1": x,
        "f": (x > 2).astype(float),
        "log_joint": norm.logpdf(x),
        "log_q_q1_plus": expon.logpdf(x, 2, 0.4),
        "log_q_q2": norm.logpdf(x, 0, 1.1),
    }
    return BytesIO(pd.DataFrame(columns).to_csv(index=False).encode())


def zipped(proposals: Proposals) -> BytesIO:
    """A zip of what `Proposals.save` writes.

    Raises:
        ValueError: see `Proposals.save`.
    """
    content = BytesIO()
    deflated = zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED)
    with tempfile.TemporaryDirectory() as folder, deflated as archive:
        for path in sorted(proposals.save(folder).iterdir()):
            archive.write(path, path.name)
    content.seek(0)
    return content


def _extract(content: bytes, folder: str) -> None:
    """Writes the files of a zip to a folder: only files that are expected, none too large."""
    expected = "expected a zip file made by Download"
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            # Extracting writes no more of a file than the zip says its size is.
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            odd = sorted(sizes.keys() - FILES)
            if odd:
                raise ValueError(f"{expected}, but {odd[0][:60]!r} is in it")
            if len(sizes) < len(archive.namelist()) or CONFIGURATION not in sizes:
                raise ValueError(f"{expected}, each file once, {CONFIGURATION} among them")
            if sum(sizes.values()) > MOST_UNPACKED:
                raise ValueError(f"{expected} of at most 64 MB unpacked, got more")
            archive.extractall(folder)
    except ValueError:
        raise
    except Exception as error:  # zipfile and its decompressors raise many
        raise ValueError(f"{expected} ({str(error) or type(error).__name__})") from None


def _try(proposals: Proposals, problem: Problem) -> None:
    """Draws a few points: weights, points and densities must be finite."""
    y, theta = problem.check(*problem.typical_case())
    for name, proposal in proposals.by_name.items():
        weights = proposal.state_dict().values()  # type: ignore[attr-defined]
        with torch.inference_mode():
            drawn = proposal(y, theta).draw(TRIED, torch.Generator().manual_seed(0))
        if not all(bool(each.isfinite().all()) for each in (*weights, *drawn)):
            raise ValueError(f"{name}: its draws or densities are NaN or infinite")


@contextmanager
def limited(memory: int) -> Iterator[None]:
    """Makes what asks for more memory than this fail, if the system can do that.

    Raises:
        ValueError: it was more.
    """
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (used + memory, *before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), before[1]))
    try:
        yield
    except MemoryError:
        raise ValueError("it needs more memory than this server allows") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
