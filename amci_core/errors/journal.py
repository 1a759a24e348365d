r"""A sweep's file: one case after another is added, and a sweep that was killed goes on.

Cases are added to an Arrow stream beside the file, FILE.part. When all are there it becomes the
Parquet file, in the order of the cases. A last case that was cut off is dropped and done again.
"""

from __future__ import annotations

__all__ = ["Journal", "cases_of", "read_sweep", "write_table"]

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import filelock
import numpy as np

from amci_core.errors.cases import FIGURES, Case
from amci_core.files import StoredFileError, check_path, make_folder

if TYPE_CHECKING:
    import pyarrow as pa

KEY = b"amci"
COUNTS = ("failed",)
FLAGS = ("mean_judged", "truth_matters")


class Journal:
    """Creates, or goes on with, the file of a sweep; to be used in a `with` statement.

    Arguments:
        path: The Parquet file that is wanted.
        settings: What the numbers depend on, ready for JSON. A file with others is refused.

    Raises:
        ValueError: another sweep is writing the file; or it is there with other settings, or is
            no sweep's.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = check_path("out", path)
        if self.path.suffix != ".parquet":
            raise ValueError(f"out: expected a file that ends in .parquet, got {path}")
        make_folder("out", self.path.parent)
        self._part = self.path.with_name(self.path.name + ".part")
        self._settings = json.loads(json.dumps(settings))
        self._lock = filelock.FileLock(self.path.with_name(self.path.name + ".lock"))
        self._places: dict[int, tuple[int, int]] = {}
        self._file: BinaryIO | None = None

    def __enter__(self) -> Journal:
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise ValueError(f"out: another sweep is writing {self.path}") from None
        except OSError as error:
            raise ValueError(f"out: {self.path} cannot be written ({error.strerror})") from None
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the cases that are there."""
        return frozenset(self._places)

    def cases(self) -> Iterator[Case]:
        """The cases that are there, in their order, one in memory at a time."""
        for number in sorted(self._places):
            yield _case(self._batch(number))

    def add(self, case: Case) -> None:
        """Adds a case; it is on the disk when this returns."""
        content = memoryview(_rows(case).serialize())
        file = self._opened
        place = file.seek(0, os.SEEK_END)
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise StoredFileError(
                f"{self._part}: cannot be written ({error.strerror}); what was there is kept"
            ) from None
        self._places[case.number] = (place, len(content))

    def finish(self, failures: Mapping[int, str]) -> None:
        """Makes the Parquet file of all cases that are there, in their order.

        Arguments:
            failures: Cases that failed, and why; they are noted in the file, and tried again by
                the next sweep into it.
        """
        if not self._places:
            return
        schema = _schema().with_metadata(
            _noted(self._settings, failures={str(n): why for n, why in failures.items()})
        )
        batches = (self._batch(number) for number in sorted(self._places))
        _write(self.path, schema, batches)
        self._opened.close()
        self._part.unlink(missing_ok=True)

    @property
    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise RuntimeError("a journal is used in a with statement")
        return self._file

    def _open(self) -> None:
        if not self._part.exists():
            self._begin()
        self._file = self._part.open("r+b")
        self._look()

    def _begin(self) -> None:
        """Begins a new stream, with the cases that the Parquet file has already."""
        before: list[Case] = []
        if self.path.exists():
            noted, table = read_sweep(self.path)
            self._check(noted.get("settings"))
            before = list(cases_of(table))
        beside = self._part.with_name(f".{self._part.name}.new")
        with beside.open("wb") as file:
            metadata = {KEY: json.dumps({"settings": self._settings}).encode()}
            file.write(memoryview(_schema().with_metadata(metadata).serialize()))
            for case in before:
                file.write(memoryview(_rows(case).serialize()))
        os.replace(beside, self._part)

    def _look(self) -> None:
        """Finds where each case lies, and drops what was cut off."""
        import pyarrow as pa

        file = self._opened
        size = os.fstat(file.fileno()).st_size
        try:
            reader = pa.ipc.MessageReader.open_stream(pa.PythonFile(file, mode="r"))
            schema = pa.ipc.read_schema(reader.read_next_message())
        except (pa.ArrowInvalid, OSError, StopIteration):
            raise ValueError(f"out: {self._part} is not the beginning of a sweep") from None
        self._check(json.loads((schema.metadata or {}).get(KEY, b"{}")).get("settings"))
        place = file.tell()
        while place < size:
            try:
                batch = pa.ipc.read_record_batch(reader.read_next_message(), schema)
            except (pa.ArrowInvalid, OSError, StopIteration):
                file.truncate(place)
                return
            number = int(batch.column("case")[0].as_py())
            self._places[number] = (place, file.tell() - place)
            place = file.tell()

    def _batch(self, number: int) -> pa.RecordBatch:
        import pyarrow as pa

        place, length = self._places[number]
        self._opened.seek(place)
        return pa.ipc.read_record_batch(pa.py_buffer(self._opened.read(length)), _schema())

    def _check(self, settings: Any) -> None:
        if settings == self._settings:
            return
        known = settings if isinstance(settings, dict) else {}
        every = (*self._settings, *known)
        names = [n for n in dict.fromkeys(every) if known.get(n) != self._settings.get(n)]
        said = "; ".join(
            f"{name} {_short(known.get(name))}, here {_short(self._settings.get(name))}"
            for name in names[:3]
        )
        raise ValueError(f"out: {self.path} belongs to another sweep: {said}")

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._lock.release()
        Path(self._lock.lock_file).unlink(missing_ok=True)


def read_sweep(path: Path) -> tuple[dict[str, Any], pa.Table]:
    """A sweep's file: what is noted in it, and one row for each case, estimator and budget.

    Raises:
        StoredFileError: it is missing, cannot be read, or is no sweep's.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoredFileError(f"{path}: not a file that a sweep wrote ({error})") from None
    noted = (table.schema.metadata or {}).get(KEY)
    if noted is None or not set(_schema().names) <= set(table.column_names):
        raise StoredFileError(f"{path}: not a file that a sweep wrote")
    return json.loads(noted), table


def cases_of(table: pa.Table) -> Iterator[Case]:
    """The cases of a sweep's table, in its order."""
    numbers = table.column("case").to_numpy()
    edges = np.flatnonzero(np.diff(numbers, prepend=-1))
    for first, end in zip(edges, [*edges[1:], len(numbers)], strict=True):
        (batch,) = table.slice(first, end - first).combine_chunks().to_batches()
        yield _case(batch)


def write_table(path: Path, columns: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Writes numbers that are no sweep's, with what they come from, as a sweep's file has it.

    Raises:
        StoredFileError: the file cannot be written.
    """
    import pyarrow as pa

    table = pa.table(dict(columns))
    _write(path, table.schema.with_metadata(_noted(settings)), table.to_batches())


def _noted(settings: Mapping[str, Any], **more: Any) -> dict[bytes, bytes]:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {KEY: json.dumps({"settings": settings, "command": command, **more}).encode()}


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """A Parquet file, beside and then renamed."""
    import pyarrow.parquet as pq

    beside = path.with_name(f".{path.name}.new")
    try:
        with pq.ParquetWriter(beside, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        os.replace(beside, path)
    except OSError as error:
        raise StoredFileError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        beside.unlink(missing_ok=True)


def _schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {name: pa.float64() for name in FIGURES}
    kinds |= {name: pa.int64() for name in COUNTS} | {name: pa.bool_() for name in FLAGS}
    return pa.schema(
        {
            "case": pa.int64(),
            "y": pa.list_(pa.float64()),
            "theta": pa.list_(pa.float64()),
            "truth": pa.float64(),
            "truth_error": pa.float64(),
            "estimator": pa.string(),
            "draws": pa.int64(),
            **kinds,
            "points": pa.int64(),
            "seconds": pa.float64(),
        }
    )


def _rows(case: Case) -> pa.RecordBatch:
    """A row for each estimator and budget."""
    import pyarrow as pa

    of_all = [(name, rank) for name in case.by_name for rank in range(len(case.budgets))]
    n = len(of_all)
    columns: dict[str, Any] = {
        "case": [case.number] * n,
        "y": [case.y.tolist()] * n,
        "theta": [case.theta.tolist()] * n,
        "truth": [case.truth] * n,
        "truth_error": [case.truth_error] * n,
        "estimator": [name for name, _ in of_all],
        "draws": [int(case.budgets[rank]) for _, rank in of_all],
        "points": [case.points] * n,
        "seconds": [case.seconds] * n,
    }
    for figure in FIGURES:
        columns[figure] = np.concatenate([figures[figure] for figures in case.by_name.values()])
    return pa.RecordBatch.from_pydict(columns, schema=_schema())


def _case(batch: pa.RecordBatch) -> Case:
    """The case of its rows."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    names = columns["estimator"].to_pylist()
    draws = columns["draws"].to_numpy()
    figures = {name: columns[name].to_numpy(zero_copy_only=False) for name in FIGURES}
    rows = {name: [i for i, of in enumerate(names) if of == name] for name in dict.fromkeys(names)}
    first = {name: columns[name][0].as_py() for name in columns}
    return Case(
        number=first["case"],
        y=np.array(first["y"], dtype=np.float64),
        theta=np.array(first["theta"], dtype=np.float64),
        truth=first["truth"],
        truth_error=first["truth_error"],
        budgets=draws[next(iter(rows.values()))],
        points=first["points"],
        seconds=first["seconds"],
        by_name={name: {f: figures[f][at] for f in FIGURES} for name, at in rows.items()},
    )


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
