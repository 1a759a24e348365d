r"""A sweep's file: one case after another is added, and a sweep that was killed goes on.

Cases are added to FILE.part beside the file: Arrow messages, each behind its length and checksum.
When all are there it becomes the Parquet file, in the order of the cases. What comes after a
message that was cut off or damaged is dropped and done again.
"""

from __future__ import annotations

__all__ = ["Journal", "part_of"]

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import filelock

from amci_core.evaluation.cases import Case
from amci_core.evaluation.rows import (
    KEY,
    case_of,
    cases_of,
    noted,
    read_sweep,
    rows,
    schema,
    write,
)
from amci_core.io import StoredFileError, replacing

if TYPE_CHECKING:
    import pyarrow as pa


# Before each message: its length in bytes, and its CRC-32.
FRAME = struct.Struct("<QI")


def part_of(path: Path) -> Path:
    """Where a sweep keeps the cases that it has done, until its file is whole."""
    return path.with_name(path.name + ".part")


class Journal:
    """Creates, or goes on with, the file of a sweep; to be used in a `with` statement.

    Arguments:
        path: The Parquet file that is wanted.
        settings: What the numbers depend on, ready for JSON. A file with others is refused.

    Raises:
        ValueError: another sweep is writing the file; or it is there with other settings, or is
            no sweep's, or no file; or its folder takes no lock.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        if Path(path).suffix != ".parquet":
            raise ValueError(f"out: expected a file that ends in .parquet, got {path}")
        # What a link leads to is written, and the link stays.
        self.path = Path(os.path.realpath(path))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._part = part_of(self.path)
        self._settings = json.loads(json.dumps(settings))
        self._lock = filelock.FileLock(self.path.with_name(self.path.name + ".lock"))
        self._places: dict[int, tuple[int, int]] = {}
        self._file: BinaryIO | None = None
        self._added = False

    def __enter__(self) -> Journal:
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            # Where no file can be made, such as in /proc, there is no lock either.
            if not Path(self._lock.lock_file).exists():
                raise ValueError(f"out: no file can be written in {self.path.parent}") from None
            raise ValueError(f"out: another sweep is writing {self.path}") from None
        except OSError as error:
            raise ValueError(f"out: {self.path} cannot be written ({error.strerror})") from None
        except NotImplementedError:
            raise ValueError(
                f"out: expected a folder whose files can be locked, got {self.path.parent}; "
                "without a lock two sweeps could write one file"
            ) from None
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # A sweep that did nothing is in no other's way.
        self._close(drop=not self._places)

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the cases that are there."""
        return frozenset(self._places)

    def cases(self) -> Iterator[Case]:
        """The cases that are there, in their order, one in memory at a time."""
        for number in sorted(self._places):
            yield case_of(self._batch(number))

    def add(self, case: Case) -> None:
        """Adds a case; it is on the disk when this returns."""
        content = _framed(rows(case).serialize())
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
        self._added = True

    def finish(self, failures: Mapping[int, str]) -> None:
        """Makes the Parquet file of all cases that are there, in their order.

        Arguments:
            failures: Cases that failed, and why; they are noted in the file, and tried again by
                the next sweep into it.
        """
        if not self._places:
            return
        if self._added or not self.path.exists():
            self._write(failures)
        self._opened.close()
        self._part.unlink(missing_ok=True)

    def _write(self, failures: Mapping[int, str]) -> None:
        said = noted(self._settings, failures={str(n): why for n, why in failures.items()})
        batches = (self._batch(number) for number in sorted(self._places))
        write(self.path, schema().with_metadata(said), batches)

    @property
    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise RuntimeError("a journal is used in a with statement")
        return self._file

    def _open(self) -> None:
        for path in (self.path, self._part):
            if path.exists() and not path.is_file():
                raise ValueError(f"out: expected a regular file, got {path}")
        if not self._part.exists():
            self._begin()
        self._file = self._part.open("r+b")
        self._look()

    def _begin(self) -> None:
        """Begins a new stream, with the cases that the Parquet file has already."""
        before: list[Case] = []
        if self.path.exists():
            there, table = read_sweep(self.path)
            self._check(there.get("settings"))
            before = list(cases_of(table))
        with replacing(self._part) as beside, beside.open("wb") as file:
            metadata = {KEY: json.dumps({"settings": self._settings}).encode()}
            file.write(_framed(schema().with_metadata(metadata).serialize()))
            for case in before:
                file.write(_framed(rows(case).serialize()))

    def _look(self) -> None:
        """Finds where each case lies, and drops what was cut off."""
        import pyarrow as pa

        file = self._opened
        content = _read(file)
        try:
            if content is None:
                raise ValueError
            head = pa.ipc.read_schema(pa.py_buffer(content))
            said = json.loads((head.metadata or {})[KEY])["settings"]
        except (KeyError, TypeError, ValueError, pa.ArrowException):
            raise ValueError(f"out: {self._part} is not the beginning of a sweep") from None
        self._check(said)
        place = file.tell()
        while (content := _read(file)) is not None:
            batch = pa.ipc.read_record_batch(pa.py_buffer(content), schema())
            self._places[int(batch.column("case")[0].as_py())] = (place, file.tell() - place)
            place = file.tell()
        file.truncate(place)

    def _batch(self, number: int) -> pa.RecordBatch:
        import pyarrow as pa

        self._opened.seek(self._places[number][0])
        content = _read(self._opened)
        if content is None:
            raise StoredFileError(f"{self._part}: damaged; the same command does its end again")
        return pa.ipc.read_record_batch(pa.py_buffer(content), schema())

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

    def _close(self, *, drop: bool = False) -> None:
        # What could not be written cannot be flushed either, and was told already.
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
                if drop:
                    self._part.unlink(missing_ok=True)
        # Where an open file cannot be deleted it stays, and does no harm.
        with suppress(OSError):
            Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()


def _framed(content: Any) -> bytes:
    message = bytes(memoryview(content))
    return FRAME.pack(len(message), zlib.crc32(message)) + message


def _read(file: BinaryIO) -> bytes | None:
    """The next message; None at the end, and where it was cut off or damaged."""
    start = file.read(FRAME.size)
    if len(start) < FRAME.size:
        return None
    length, checksum = FRAME.unpack(start)
    left = os.fstat(file.fileno()).st_size - file.tell()
    content = file.read(length) if length <= left else b""
    whole = len(content) == length and zlib.crc32(content) == checksum
    return content if whole else None


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
