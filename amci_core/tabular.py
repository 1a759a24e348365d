r"""Tables in CSV and Parquet files, as columns of numbers."""

from __future__ import annotations

__all__ = ["read_columns", "read_table"]

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BYTES, MAX_ROWS = 2**30, 5_000_000
ONE, SEVERAL, TEXT = "log_q", "log_q_", "component"
# Parquet's data may be so many times as large as the file.
MOST_UNPACKED = 20


def read_table(
    file: str | Path | bytes,
    *,
    name: str = "",
    max_bytes: int = MAX_BYTES,
    max_rows: int = MAX_ROWS,
) -> dict[str, Any]:
    """Reads a table of draws, as the arguments of `amci_core.diagnose`.

    Its columns are `log_joint`, `f`, and `log_q`; or for several components `log_q_q1_plus`,
    `log_q_q2` and so on, and `component`, which names the one that each draw came from. Others are
    ignored.

    Arguments:
        file: Its path, or its content.
        name: The name of the content's file, which ends with .csv or .parquet.
        max_bytes: The largest file that is read.
        max_rows: The most draws.

    Raises:
        ValueError: see `read_columns`; or a column is missing.

    Example:
        >>> read_table(b"log_joint,log_q,f\\n-1,-2,1\\n-1.5,-2,0\\n", name="draws.csv")["f"]
        array([1., 0.])
    """
    columns = read_columns(file, name=name, max_bytes=max_bytes, max_rows=max_rows)
    several = {n.removeprefix(SEVERAL): c for n, c in columns.items() if n.startswith(SEVERAL)}
    for wanted in ("log_joint", "f", *(() if several else (ONE,))):
        if wanted not in columns:
            also = f", nor {SEVERAL}NAME for a component" if wanted == ONE else ""
            raise ValueError(f"{wanted}: the table has no such column{also}")
    if several and ONE in columns:
        raise ValueError(f"{ONE}: expected it or {SEVERAL}NAME for each component, got both")
    found = {key: columns[key] for key in ("log_joint", "f", TEXT) if key in columns}
    return found | {"log_q": several or columns[ONE]}


def read_columns(
    file: str | Path | bytes,
    *,
    name: str = "",
    max_bytes: int = MAX_BYTES,
    max_rows: int = MAX_ROWS,
) -> dict[str, NDArray[Any]]:
    """Reads the columns of a table: numbers, with NaN for empty entries, or text.

    Lines of a CSV file above its header may begin with #.

    Arguments:
        file: As for `read_table`.
        name: As for `read_table`.
        max_bytes: As for `read_table`.
        max_rows: As for `read_table`.

    Raises:
        ValueError: the file is missing, too large, damaged or of another kind; or a column is
            there twice.
    """
    from pyarrow import ArrowException
    from pyarrow.types import is_boolean, is_floating, is_integer, is_null

    path = Path(name if isinstance(file, bytes) else file)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(
            f"table: expected a name that ends in .csv or .parquet, got {path.name!r}"
        )
    if not isinstance(file, bytes) and not path.is_file():
        raise ValueError(f"table: there is no file {path}")
    size = len(file) if isinstance(file, bytes) else path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"table: expected at most {max_bytes:,} bytes, got {size:,}")
    content = file if isinstance(file, bytes) else path.read_bytes()
    try:
        table = (_csv if path.suffix.lower() == ".csv" else _parquet)(content, max_rows)
    except (ArrowException, OSError) as error:
        raise ValueError(f"table: it cannot be read: {error}") from None
    names = [each.strip() for each in table.column_names]
    for each in names:
        if names.count(each) > 1:
            raise ValueError(f"{each}: the table has this column twice")
    if table.num_rows > max_rows:
        raise ValueError(f"table: expected at most {max_rows:,} draws, got {table.num_rows:,}")
    columns: dict[str, NDArray[Any]] = {}
    for each, column in zip(names, table.columns, strict=True):
        kind = column.type
        number = any(is_kind(kind) for is_kind in (is_floating, is_integer, is_boolean, is_null))
        columns[each] = (
            column.cast("float64").to_numpy()
            if number and each != TEXT
            else np.array(column.to_pylist(), dtype=str)
        )
    return columns


def _csv(content: bytes, max_rows: int) -> Any:
    from pyarrow import BufferReader, csv

    lines, above = content.split(b"\n", 100), 0
    while above < len(lines) and lines[above].startswith(b"#"):
        above += 1
    # One thread: errors then name their row.
    return csv.read_csv(BufferReader(content), csv.ReadOptions(skip_rows=above, use_threads=False))


def _parquet(content: bytes, max_rows: int) -> Any:
    from pyarrow import BufferReader, parquet

    source = parquet.ParquetFile(BufferReader(content))
    known = source.metadata
    unpacked = sum(known.row_group(i).total_byte_size for i in range(known.num_row_groups))
    if known.num_rows > max_rows or unpacked > MOST_UNPACKED * max(len(content), 2**20):
        raise ValueError(
            f"table: expected at most {max_rows:,} draws, got {known.num_rows:,}, which unpack to "
            f"{unpacked / 1e6:,.0f} MB"
        )
    return source.read()
