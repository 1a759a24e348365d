r"""A sweep's file: one row for each case, estimator and budget, with its origin.

Each case is written to a Parquet file of its own, in a folder beside the target, and renamed when
it is whole. When all cases are there the folder becomes one file. A sweep that was killed resumes
with the missing cases.
"""

from __future__ import annotations

__all__ = [
    "SweepFile",
    "digest",
    "folder_of",
    "origin",
    "read_sweep",
    "schema",
    "write_table",
]

import hashlib
import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import numpy as np
from torch import nn

from amci_core.flows import Proposals
from amci_core.io import StoredFileError, read_json, replacing, write_json
from amci_core.models import Problem
from amci_core.proposals import RENAMED

if TYPE_CHECKING:
    import pyarrow as pa

KEY = b"amci"
SETTINGS = "settings.json"
PACKAGES = ("numpy", "scipy", "torch", "normflows")


def read_sweep(path: Path) -> tuple[dict[str, Any], pa.Table]:
    """A sweep's file: its notes (settings, command, failures) and its rows, by case.

    Raises:
        StoredFileError: it is missing, cannot be read, or is no sweep's.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
        noted = json.loads((table.schema.metadata or {})[KEY])
        settings = noted["settings"]
        if "pairs" in settings:
            settings = settings | {"cases": settings["pairs"], "values": settings.get("cases")}
            del settings["pairs"]
        names = [RENAMED.get(name, name) for name in table.column_names]
        known = table.rename_columns(names).select(schema().names).cast(schema())
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StoredFileError(f"{path}: not a file that a sweep wrote ({error})") from None
    return noted | {"settings": settings}, known


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

    points, flags = pa.list_(pa.float64()), ("determined", "reference_limited")
    figures = ("remse", "remse_error", "remse_q25", "remse_median", "remse_q75", "mse")
    kinds = {
        **{"case": pa.int64(), "y": points, "theta": points},
        **dict.fromkeys(("truth", "truth_error"), pa.float64()),
        **{"estimator": pa.string(), "draws": pa.int64()},
        **dict.fromkeys((*figures, "mse_error"), pa.float64()),
        **{"failed": pa.int64(), **dict.fromkeys(flags, pa.bool_())},
        **{"points": pa.int64(), "seconds": pa.float64()},
    }
    return pa.schema(kinds)


def folder_of(path: Path) -> Path:
    """The folder beside a sweep's file that holds its cases until all are there."""
    return path.with_name(path.name + ".cases")


class SweepFile:
    """Creates, or resumes, the file of a sweep; to be used in a `with` statement.

    Arguments:
        path: The Parquet file.
        settings: What the numbers depend on, ready for JSON. A file with others is refused.

    Attributes:
        table: The rows of all cases that are there, in the order of cases.

    Raises:
        ValueError: another sweep is writing the file; or it exists with other settings, or is no
            sweep's.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        if path.suffix != ".parquet":
            raise ValueError(f"out: expected a file that ends in .parquet, got {path}")
        # The target of a link is written, and the link stays.
        self.path = path.resolve()
        self._folder = folder_of(self.path)
        self._settings = json.loads(json.dumps(settings))
        self._lock = filelock.FileLock(self.path.with_name(self.path.name + ".lock"))
        self._before: pa.Table = schema().empty_table()

    def __enter__(self) -> SweepFile:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise ValueError(f"out: another sweep is writing {self.path}") from None
        try:
            if self.path.exists():
                noted, self._before = read_sweep(self.path)
                self._check(noted["settings"])
            if (self._folder / SETTINGS).exists():
                self._check(read_json(self._folder / SETTINGS))
            write_json(self._folder / SETTINGS, self._settings)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self._files:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._release()

    @property
    def table(self) -> pa.Table:
        import pyarrow as pa
        from pyarrow import dataset

        new = dataset.dataset(self._files, schema=schema(), format="parquet").to_table()
        return pa.concat_tables([self._before, new]).sort_by("case")

    def add(self, number: int, rows: pa.Table) -> None:
        """Adds the rows of a case; they are on the disk when this returns."""
        import pyarrow.parquet as pq

        with replacing(self._folder / f"{number:07}.parquet") as beside:
            pq.write_table(rows, beside)

    def finish(self, failures: Mapping[int, str]) -> None:
        """Makes the file of all cases that are there.

        Arguments:
            failures: Cases that failed, and why. They are noted in the file, and the next sweep
                into it tries them again.
        """
        if self._files:
            why = {str(number): reason for number, reason in failures.items()}
            write_table(self.path, self.table, self._settings, failures=why)
            shutil.rmtree(self._folder)

    @property
    def _files(self) -> list[str]:
        there = {f"{number:07}.parquet" for number in self._before["case"].unique().to_pylist()}
        files = sorted(self._folder.glob("[0-9]*.parquet"))
        return [str(path) for path in files if path.name not in there]

    def _check(self, known: Mapping[str, Any]) -> None:
        names = dict.fromkeys((*self._settings, *known))
        differ = [name for name in names if known.get(name) != self._settings.get(name)]
        if differ:
            told = "; ".join(
                f"{name} {_short(known.get(name))}, here {_short(self._settings.get(name))}"
                for name in differ[:3]
            )
            raise ValueError(f"out: {self.path} belongs to another sweep: {told}")

    def _release(self) -> None:
        # An open file cannot be deleted everywhere; one that stays does no harm.
        with suppress(OSError):
            Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def origin(problem: Problem, proposals: Proposals) -> dict[str, Any]:
    """The origin of numbers: problem, proposals with hashes of their weights, and versions."""
    import amci_core

    own = {"amci-explorer": amci_core.__version__}
    return {
        "problem": problem.name,
        "variant": proposals.variant,
        "weights": _hashes(proposals),
        "versions": own | {name: version(name) for name in PACKAGES},
    }


def digest(*arrays: Any) -> str:
    """SHA-256 of the bytes of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _hashes(proposals: Proposals) -> dict[str, str]:
    """SHA-256 of the stored weights, or of those in memory if they come from no file."""
    card = proposals.card.get("configuration", {})
    # A snapshot of a training has the card of its end.
    stored = card.get("proposals", {}) if card.get("variant") == proposals.variant else {}
    found = {}
    for name in ("q1_plus", "q1_minus", "q2"):
        q = getattr(proposals, name)
        if name in stored:
            found[name] = str(stored[name]["sha256"])
        elif isinstance(q, nn.Module):
            found[name] = digest(*(t.detach().numpy() for t in q.state_dict().values()))
        elif q is not None:
            found[name] = type(q).__name__
    return found
