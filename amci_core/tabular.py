r"""Tables in files: CSV as pandas reads it, and Parquet, as columns."""

from __future__ import annotations

__all__ = ["KINDS", "MAX_ROWS", "read_columns"]

from io import BytesIO
from pathlib import Path
from typing import Any

from amci_core.io import check_path

KINDS = (".csv", ".parquet")
MAX_BYTES, MAX_ROWS = 2**30, 5_000_000
# Compressed columns may be so many times as large as the file, and so many bytes anyway.
MOST_UNPACKED, SMALL = 20, 2**20


def read_columns(
    file: str | Path | bytes, *, name: str = "", max_bytes: int = MAX_BYTES
) -> dict[str, Any]:
    """Reads the columns of a table. Lines of a CSV that begin with # are passed over.

    Arguments:
        file: Its path, or its content.
        name: The name of the content's file, whose end tells the kind, one of `KINDS`.
        max_bytes: The largest file that is read.

    Raises:
        ValueError: the file is missing, too large, damaged or of another kind.

    Example:
        >>> read_columns(b"log_joint,f\\n-1.5,1\\n-2,0\\n", name="draws.csv")["log_joint"]
        array([-1.5, -2. ])
    """
    import pandas
    from pyarrow import ArrowException

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
    content = BytesIO(file if isinstance(file, bytes) else path.read_bytes())
    try:
        if path.suffix.lower() == ".parquet":
            _check_unpacked(content, size)
            frame = pandas.read_parquet(content)
        else:
            frame = pandas.read_csv(content, comment="#", skipinitialspace=True)
    except (ValueError, OSError, ArrowException) as error:
        raise ValueError(f"table: cannot be read: {error}") from None
    return {str(column): frame[column].to_numpy() for column in frame.columns}


def _check_unpacked(content: BytesIO, size: int) -> None:
    from pyarrow.parquet import ParquetFile

    stored = ParquetFile(content).metadata
    if stored.num_rows > MAX_ROWS:
        raise ValueError(f"expected at most {MAX_ROWS:,} draws, got {stored.num_rows:,}")
    unpacked = sum(stored.row_group(i).total_byte_size for i in range(stored.num_row_groups))
    if unpacked > MOST_UNPACKED * max(size, SMALL):
        raise ValueError(
            f"{size:,} bytes unpack to {unpacked:,}, more than {MOST_UNPACKED} times as many. "
            "Save it uncompressed"
        )
