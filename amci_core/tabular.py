r"""Tables of draws in files: CSV, and Parquet where pyarrow is there.

Columns are `log_joint`, `f`, and `log_q`, or `log_q_q1_plus`, `log_q_q2` and so on for several
components; with several, `component` names the one that each draw came from. Others are ignored.
"""

from __future__ import annotations

__all__ = ["MAX_BYTES", "MAX_ROWS", "read_table"]

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core._arguments import check_count
from amci_core.files import check_path

MAX_BYTES, MAX_ROWS = 2**30, 5_000_000
# The most columns of a file, read or not.
MAX_COLUMNS = 1000
ONE, SEVERAL = "log_q", "log_q_"
# Parquet's data may be so many times as large as the file.
MOST_UNPACKED = 20
ROWS_AT_A_TIME = 65_536

Column = NDArray[Any]


def read_table(
    file: str | Path | bytes,
    *,
    name: str = "",
    max_bytes: int = MAX_BYTES,
    max_rows: int = MAX_ROWS,
) -> dict[str, Any]:
    """Reads a table of draws, as the arguments of `amci_core.diagnose`.

    Arguments:
        file: Its path, or its content.
        name: What the content's file is called: `.csv` or `.parquet` at its end says what it is.
        max_bytes: The largest file that is read.
        max_rows: The most draws.

    Raises:
        ValueError: the file is missing, too large or of another kind; a column is missing or
            there twice; an entry is no number. Messages name the column and the line.

    Example:
        >>> read_table(b"log_joint,log_q,f\\n-1,-2,1\\n-1.5,-2,0\\n", name="draws.csv")["f"]
        array([1., 0.])
    """
    check_count("max_bytes", max_bytes, low=1, high=2**40)
    if not isinstance(file, bytes):
        path = check_path("table", file)
        name = path.name
        if not path.is_file():
            raise ValueError(f"table: there is no file {path}")
        size = path.stat().st_size
        content = path.read_bytes() if size <= max_bytes else b""
    else:
        size, content = len(file), file
    if size > max_bytes:
        raise ValueError(
            f"table: expected at most {max_bytes / 1e6:,.0f} MB, got {size / 1e6:,.1f} MB"
        )
    kind = name.lower().rpartition(".")[2]
    if kind not in ("csv", "parquet"):
        raise ValueError(
            f"table: expected a name that ends in .csv or .parquet, got {name[:80]!r}"
        )
    read = _parquet if kind == "parquet" else _csv
    return _arguments(read(content, max_rows))


def _arguments(columns: Mapping[str, Column]) -> dict[str, Any]:
    of_several = {n.removeprefix(SEVERAL): c for n, c in columns.items() if n.startswith(SEVERAL)}
    if of_several and ONE in columns:
        raise ValueError(
            f"{ONE}: expected it alone, or {SEVERAL}NAME for each component, got both"
        )
    for wanted in ("log_joint", "f"):
        if wanted not in columns:
            raise ValueError(f"{wanted}: the table has no such column")
    if not of_several and ONE not in columns:
        raise ValueError(f"{ONE}: the table has no such column, nor {SEVERAL}NAME for a component")
    found = {"log_joint": columns["log_joint"], "f": columns["f"]}
    if "component" in columns:
        found["component"] = columns["component"]
    return found | {"log_q": of_several or columns[ONE]}


def _wanted(header: list[str]) -> dict[str, int]:
    """The columns that matter, and where they stand."""
    if len(header) > MAX_COLUMNS:
        raise ValueError(f"table: expected at most {MAX_COLUMNS} columns, got {len(header):,}")
    names = [name.strip() for name in header]
    known = ("log_joint", "f", "component", ONE)
    found = {n: i for i, n in enumerate(names) if n in known or n.startswith(SEVERAL)}
    for name in found:
        if names.count(name) > 1:
            raise ValueError(f"{name}: the table has this column twice")
    return found


def _csv(content: bytes, max_rows: int) -> dict[str, Column]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"table: expected text in UTF-8, got byte {error.start:,}") from None
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        return _rows(lines, max_rows)
    except csv.Error as error:
        raise ValueError(f"table: line {lines.line_num:,} is no CSV: {error}") from None


def _rows(lines: Any, max_rows: int) -> dict[str, Column]:
    # Lines of ours that name what a table answers begin with a hash.
    rows: Iterator[list[str]] = (row for row in lines if row and not row[0].startswith("#"))
    header = next(rows, [])
    wanted = _wanted(header)
    entries: dict[str, list[Any]] = {name: [] for name in wanted}
    for count, row in enumerate(rows, 1):
        if count > max_rows:
            raise ValueError(f"table: expected at most {max_rows:,} draws")
        if len(row) != len(header):
            raise ValueError(
                f"table: expected {len(header)} entries in line {lines.line_num:,}, got {len(row)}"
            )
        for name, place in wanted.items():
            entry = row[place].strip()
            if name != "component":
                try:
                    entries[name].append(float(entry))
                except ValueError:
                    raise ValueError(
                        f"{name}: expected a number in line {lines.line_num:,}, got {entry[:40]!r}"
                    ) from None
            else:
                entries[name].append(entry)
    return {name: np.array(values) for name, values in entries.items()}


def _parquet(content: bytes, max_rows: int) -> dict[str, Column]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(
            "table: Parquet needs pyarrow, which is not installed (pip install pyarrow); "
            "CSV needs nothing"
        ) from None
    try:
        source = pq.ParquetFile(pa.BufferReader(content))
        known = source.metadata
        if known.num_rows > max_rows:
            raise ValueError(f"table: expected at most {max_rows:,} draws, got {known.num_rows:,}")
        wanted = list(_wanted(list(source.schema_arrow.names)))
        groups = range(known.num_row_groups)
        unpacked = sum(known.row_group(i).total_byte_size for i in groups)
        if unpacked > MOST_UNPACKED * max(len(content), 2**20):
            raise ValueError(f"table: it would unpack to {unpacked / 1e6:,.0f} MB")
        for name in wanted:
            kind = source.schema_arrow.field(name).type
            text = pa.types.is_dictionary(kind) or pa.types.is_string(kind)
            text = text or pa.types.is_large_string(kind)
            number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
            if not (text if name == "component" else number or pa.types.is_boolean(kind)):
                expected = "text" if name == "component" else "numbers"
                raise ValueError(f"{name}: expected {expected}, got a column of {kind}")
        parts = list(source.iter_batches(ROWS_AT_A_TIME, columns=wanted))
        table = pa.Table.from_batches(parts) if parts else source.schema_arrow.empty_table()
        # A missing number is NaN, which is then refused with the draw's number.
        return {
            name: np.array(table[name].to_pylist(), dtype=str)
            if name == "component"
            else table[name].cast(pa.float64()).to_numpy()
            for name in wanted
        }
    except (pa.ArrowException, OSError, MemoryError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"table: it cannot be read as Parquet: {reason[:200]}") from None
