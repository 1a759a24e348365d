r"""Tables in files: CSV and Parquet as pyarrow reads them, as columns."""

from __future__ import annotations

__all__ = ["KINDS", "MAX_ROWS", "read_columns"]

import re
from io import BytesIO
from pathlib import Path
from typing import Any

from amci_core.io import check_path

KINDS = (".csv", ".parquet")
MAX_BYTES, MAX_ROWS = 2**30, 5_000_000
# Compressed columns may be so many times as large as the file, and so many bytes anyway.
MOST_UNPACKED, SMALL = 20, 2**20
COMMENT = re.compile(rb"(?m)^#.*(?:\n|\Z)")


def read_columns(
    file: str | Path | bytes, *, name: str = "", max_bytes: int = MAX_BYTES
) -> dict[str, Any]:
    """Reads the columns of a table: numbers, with NaN for empty entries, or text.

    Fields of a CSV are separated by commas. Lines that begin with # are passed over.

    Arguments:
        file: Its path, or its content.
        name: The name of the content's file, whose end tells the kind, one of `KINDS`.
        max_bytes: The largest file that is read.

    Raises:
        ValueError: the file is missing, too large, damaged or of another kind; or a column is
            there twice.

    Example:
        >>> read_columns(b"log_joint,f\\n-1.5,1\\n-2,0\\n", name="draws.csv")["log_joint"]
        array([-1.5, -2. ])
    """
    from pyarrow import ArrowException, csv, parquet

    path = Path(name) if isinstance(file, bytes) else check_path("table", file)
    if path.suffix.lower() not in KINDS:
        raise ValueError(
            f"table: expected a name that ends in {' or '.join(KINDS)}, got {path.name!r}"
        )
    if not isinstance(file, bytes) and not path.is_file():
        raise ValueError(f"table: no such file: {path}")
    size = len(file) if isinstance(file, bytes) else path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"table: expected at most {max_bytes:,} bytes, got {size:,}")
    content = file if isinstance(file, bytes) else path.read_bytes()
    try:
        if path.suffix.lower() == ".parquet":
            stored = parquet.ParquetFile(BytesIO(content))
            _check_unpacked(stored.metadata, size)
            table = stored.read()
        else:
            # With one thread errors name their row.
            in_turn = csv.ReadOptions(use_threads=False)
            table = csv.read_csv(BytesIO(COMMENT.sub(b"", content)), in_turn)
        names = [name.strip() for name in table.column_names]
    except (ValueError, OSError, ArrowException) as error:
        raise ValueError(f"table: cannot be read: {error}") from None
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"table: it has the column {twice!r} twice. Rename one")
    return {name: column.to_numpy() for name, column in zip(names, table.columns, strict=True)}


def _check_unpacked(stored: Any, size: int) -> None:
    if stored.num_rows > MAX_ROWS:
        raise ValueError(f"expected at most {MAX_ROWS:,} draws, got {stored.num_rows:,}")
    unpacked = sum(stored.row_group(i).total_byte_size for i in range(stored.num_row_groups))
    if unpacked > MOST_UNPACKED * max(size, SMALL):
        raise ValueError(
            f"{size:,} bytes unpack to {unpacked:,}, more than {MOST_UNPACKED} times as many. "
            "Save it uncompressed"
        )
