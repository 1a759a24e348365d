r"""A sweep's file: one row for each case, estimator and number of draws, with its origin.

Each case is written to a Parquet file of its own, in a folder beside the target, and renamed when
it is whole. When all cases are there they become one file. A sweep that was killed resumes with
the missing cases. All of these files record the sweep's settings: rows of another are refused.
"""

from __future__ import annotations

__all__ = ["FIGURES", "origin", "read_sweep", "versions", "write_table"]

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import filelock
import torch

from amci_core.flows import Proposals
from amci_core.io import StoredFileError, replacing
from amci_core.models import Problem
from amci_core.models.fingerprint import signature

if TYPE_CHECKING:
    import pandas as pd

KEY = b"amci"
CASE = "[0-9]" * 7 + ".parquet"
PACKAGES = ("numpy", "scipy", "torch", "normflows")
# The figures of a case, for each estimator and number of draws.
FIGURES = (
    *("remse", "remse_error", "remse_q25", "remse_median", "remse_q75"),
    *("mse", "mse_error", "failed", "determined", "reference_limited"),
)
COLUMNS = (
    *("case", "y", "theta", "truth", "truth_error", "seconds"),
    *("estimator", "draws", *FIGURES),
)


def read_sweep(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """A sweep's file: its notes (settings, command, failures) and its rows, by case.

    Raises:
        StoredFileError: it is missing, cannot be read, or is no sweep's.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
        notes = json.loads((table.schema.metadata or {})[KEY])
        return notes | {"settings": dict(notes["settings"])}, table.select(COLUMNS).to_pandas()
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise StoredFileError(f"{path}: not a file that a sweep wrote ({error})") from None


def write_table(path: Path, rows: pd.DataFrame, settings: Mapping[str, Any], **more: Any) -> None:
    """Writes a table with its settings and the command, as a sweep's file has them.

    Raises:
        StoredFileError: the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    notes = json.dumps({"settings": settings, "command": command, **more}).encode()
    table = pa.Table.from_pandas(rows, preserve_index=False)
    with replacing(path) as beside:
        pq.write_table(table.replace_schema_metadata({KEY: notes}), beside, compression="zstd")


class SweepFile:
    """Creates, or resumes, the file of a sweep; `with` keeps other sweeps from it meanwhile.

    Arguments:
        path: The Parquet file.
        settings: The origin of the numbers, ready for JSON. A file with others is refused.

    Raises:
        ValueError: another sweep is writing the file; or it exists with other settings, or is no
            sweep's.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        if path.suffix != ".parquet":
            raise ValueError(f"out: expected a file that ends in .parquet, got {path}")
        self._path = path.resolve()  # the target of a link is written, and the link stays
        self._folder = self._path.with_name(self._path.name + ".cases")
        self._lock = filelock.FileLock(self._folder / "lock")
        self._settings = settings

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise ValueError(
                f"out: another sweep is writing {self._path}. Choose another file"
            ) from None
        except OSError as error:
            why = error.strerror
            raise StoredFileError(f"out: {self._path} cannot be written ({why})") from None
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        # An open file cannot be deleted everywhere; one that stays does no harm.
        with suppress(OSError):
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._folder.rmdir()

    def read(self) -> dict[int, pd.DataFrame]:
        """The rows of each case that is there, by its number."""
        cases: dict[int, pd.DataFrame] = {}
        for file in filter(Path.exists, (self._path, *self._folder.glob(CASE))):
            notes, rows = read_sweep(file)
            self._check(file, notes["settings"])
            cases |= {int(number): of_case for number, of_case in rows.groupby("case")}
        return cases

    def add(self, number: int, rows: pd.DataFrame) -> None:
        """Adds the rows of a case; they are on the disk when this returns."""
        write_table(self._folder / f"{number:07}.parquet", rows, self._settings)

    def finish(self, rows: pd.DataFrame, failures: Mapping[int, str]) -> None:
        """Makes the file of all cases, and removes those of single cases.

        Arguments:
            rows: All cases.
            failures: Cases that failed, and why. They are noted in the file, and the next sweep
                into it tries them again.
        """
        if any(self._folder.glob(CASE)):
            write_table(self._path, rows, self._settings, failures=failures)
        for path in self._folder.glob(f"*{CASE}*"):  # those that a killed sweep was writing, too
            path.unlink()

    def _check(self, file: Path, stored: Mapping[str, Any]) -> None:
        here = json.loads(json.dumps(self._settings))
        names = [name for name in here | stored if stored.get(name) != here.get(name)]
        if names:
            differences = "; ".join(
                f"{name} {str(stored.get(name))[:60]}, here {str(here.get(name))[:60]}"
                for name in names[:3]
            )
            raise ValueError(
                f"out: {file} belongs to another sweep ({differences}). Choose another file"
            )


def origin(problem: Problem, proposals: Proposals) -> dict[str, Any]:
    """The origin of numbers: problem, proposals with hashes of their stored weights, versions.

    Weights that no file holds have the name of their class.
    """
    card = proposals.card.get("configuration", {})
    # Proposals of another name are not those of their card.
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


def signatures(problem: Problem, proposals: Proposals) -> dict[str, float]:
    """The proposals' fingerprint: a number for each, from draws at a few cases."""
    cases = problem.check(*problem.cases(16, seed=0))
    numbers = {}
    for name, q in proposals.by_name.items():
        x, log_q = q(*cases).draw(16, torch.Generator().manual_seed(0))
        numbers[name] = signature(torch.cat([x.flatten(), log_q.flatten()]).detach())
    return numbers
