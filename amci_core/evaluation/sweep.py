r"""A sweep's file: one row for each case, estimator and number of draws, with its origin.

Each case is written to a Parquet file of its own, in a folder beside the target, and renamed when
it is whole. When all cases are there the folder becomes one file. A sweep that was killed resumes
with the missing cases.
"""

from __future__ import annotations

__all__ = [
    "FIGURES",
    "SweepFile",
    "digest",
    "folder_of",
    "origin",
    "read_sweep",
    "schema",
    "signatures",
    "sweep_file",
    "versions",
    "write_table",
]

import hashlib
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import numpy as np
import torch

from amci_core.flows import Proposals
from amci_core.io import StoredFileError, read_json, replacing, write_json
from amci_core.models import Problem
from amci_core.models.fingerprint import signature

if TYPE_CHECKING:
    import pyarrow as pa

KEY = b"amci"
# The files of a sweep's folder; ROWS are those of its cases.
SETTINGS, LOCK, ROWS = "settings.json", "lock", "[0-9]" * 7 + ".parquet"
PACKAGES = ("numpy", "scipy", "torch", "normflows")
# The figures of a case, for each estimator and number of draws.
FIGURES = (
    *("remse", "remse_error", "remse_q25", "remse_median", "remse_q75"),
    *("mse", "mse_error", "failed", "determined", "reference_limited"),
)


def read_sweep(path: Path) -> tuple[dict[str, Any], pa.Table]:
    """A sweep's file: its notes (settings, command, failures) and its rows, by case.

    Returns:
        The notes, and the rows as a table of pyarrow.

    Raises:
        StoredFileError: it is missing, cannot be read, or is no sweep's.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
        noted = json.loads((table.schema.metadata or {})[KEY])
        noted["settings"] = dict(noted["settings"])
        known = table.select(schema().names).cast(schema())
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StoredFileError(f"{path}: not a file that a sweep wrote ({error})") from None
    return noted, known


def write_table(path: Path, table: pa.Table, settings: Mapping[str, Any], **more: Any) -> None:
    """Writes a table with its settings and the command, as a sweep's file has them.

    Raises:
        StoredFileError: the file cannot be written.
    """
    import pyarrow.parquet as pq

    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    noted = json.dumps({"settings": settings, "command": command, **more}).encode()
    with replacing(path) as beside:
        pq.write_table(table.replace_schema_metadata({KEY: noted}), beside, compression="zstd")


def schema() -> pa.Schema:
    """The columns of a sweep's file."""
    import pyarrow as pa

    names = (
        *("case", "y", "theta", "truth", "truth_error", "estimator", "draws"),
        *(*FIGURES, "points", "seconds"),
    )
    other = {
        **dict.fromkeys(("case", "draws", "failed", "points"), pa.int64()),
        **dict.fromkeys(("y", "theta"), pa.list_(pa.float64())),
        **dict.fromkeys(("determined", "reference_limited"), pa.bool_()),
        "estimator": pa.string(),
    }
    return pa.schema([(name, other.get(name, pa.float64())) for name in names])


def folder_of(path: Path) -> Path:
    """The folder beside a sweep's file that holds its cases until all are there."""
    return path.with_name(path.name + ".cases")


@contextmanager
def sweep_file(path: Path, settings: Mapping[str, Any]) -> Iterator[SweepFile]:
    """Creates, or resumes, the file of a sweep, and keeps other sweeps from it meanwhile.

    Arguments:
        path: The Parquet file.
        settings: The origin of the numbers, ready for JSON. A file with others is refused.

    Raises:
        ValueError: another sweep is writing the file; or it exists with other settings, or is no
            sweep's.
    """
    if path.suffix != ".parquet":
        raise ValueError(f"out: expected a file that ends in .parquet, got {path}")
    path = path.resolve()  # the target of a link is written, and the link stays
    folder = folder_of(path)
    lock = filelock.FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ValueError(f"out: another sweep is writing {path}. Choose another file") from None
    except OSError as error:
        raise StoredFileError(f"out: {path} cannot be written ({error.strerror})") from None
    try:
        file = SweepFile(path, json.loads(json.dumps(settings)))
        try:
            yield file
        finally:
            if not any(folder.glob(ROWS)):
                (folder / SETTINGS).unlink()
    finally:
        lock.release()
        # An open file cannot be deleted everywhere; one that stays does no harm.
        with suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()


class SweepFile:
    """A sweep's file and the folder of its cases; made by `sweep_file`.

    Attributes:
        table: The rows of all cases that are there, in the order of cases.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path, self._folder, self._settings = path, folder_of(path), settings
        self._stored = schema().empty_table()
        if path.exists():
            noted, self._stored = read_sweep(path)
            self._check(noted["settings"])
        if (self._folder / SETTINGS).exists():
            self._check(read_json(self._folder / SETTINGS))
        elif any(self._folder.glob(ROWS)):
            raise ValueError(
                f"out: {self._folder} holds cases of an unknown sweep. Choose another file"
            )
        write_json(self._folder / SETTINGS, settings)

    @property
    def table(self) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        stored = {f"{number:07}.parquet" for number in self._stored["case"].to_pylist()}
        files = [path for path in self._folder.glob(ROWS) if path.name not in stored]
        new = [pq.read_table(path, schema=schema(), partitioning=None) for path in files]
        return pa.concat_tables([self._stored, *new]).sort_by("case")

    def add(self, number: int, rows: pa.Table) -> None:
        """Adds the rows of a case; they are on the disk when this returns."""
        import pyarrow.parquet as pq

        with replacing(self._folder / f"{number:07}.parquet") as beside:
            pq.write_table(rows, beside)

    def finish(self, failures: Mapping[int, str]) -> None:
        """Makes the file of all cases that are there, and removes those of single cases.

        Arguments:
            failures: Cases that failed, and why. They are noted in the file, and the next sweep
                into it tries them again.
        """
        table = self.table
        if len(table) > len(self._stored):
            why = {str(number): reason for number, reason in failures.items()}
            write_table(self._path, table, self._settings, failures=why)
        for path in (*self._folder.glob(ROWS), *self._folder.glob(".*.parquet.*")):
            path.unlink()

    def _check(self, known: Mapping[str, Any]) -> None:
        names = dict.fromkeys((*self._settings, *known))
        differ = [name for name in names if known.get(name) != self._settings.get(name)]
        if differ:
            differences = "; ".join(
                f"{name} {str(known.get(name))[:60]}, here {str(self._settings.get(name))[:60]}"
                for name in differ[:3]
            )
            raise ValueError(
                f"out: {self._path} belongs to another sweep ({differences}). Choose another file"
            )


def origin(problem: Problem, proposals: Proposals) -> dict[str, Any]:
    """The origin of numbers: problem, proposals with hashes of their stored weights, versions.

    Weights that no file holds have the name of their class.
    """
    card = proposals.card.get("configuration", {})
    # A checkpoint of a training has the card of its end.
    stored = card.get("proposals", {}) if card.get("variant") == proposals.variant else {}
    weights = {
        name: str(stored[name]["sha256"]) if name in stored else type(q).__name__
        for name, q in proposals.by_name.items()
    }
    return {
        "problem": problem.name,
        "variant": proposals.variant,
        "weights": weights,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of this package and of those that its numbers depend on."""
    import amci_core

    known = {"amci-explorer": amci_core.__version__}
    return known | {name: version(name) for name in PACKAGES}


def digest(*arrays: Any) -> str:
    """SHA-256 of the bytes of arrays."""
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return hashlib.sha256(content).hexdigest()


def signatures(problem: Problem, proposals: Proposals) -> dict[str, float]:
    """The proposals' fingerprint: a number for each, from draws at a few cases."""
    cases = problem.check(*problem.cases(16, seed=0))
    numbers = {}
    for name, q in proposals.by_name.items():
        x, log_q = q(*cases).draw(16, torch.Generator().manual_seed(0))
        numbers[name] = signature(torch.cat([x.flatten(), log_q.flatten()]).detach())
    return numbers
