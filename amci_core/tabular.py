r"""Tables in files of others: CSV, Parquet, ArviZ's NetCDF, as columns of numbers or text."""

from __future__ import annotations

__all__ = ["KINDS", "MAX_ROWS", "read_columns"]

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amci_core.io import check_path

MAX_BYTES, MAX_ROWS = 2**30, 5_000_000
# Compressed data may be so many times as large as the file, and so many bytes anyway.
MOST_UNPACKED, SMALL = 20, 2**20
# How netCDF says that values are stored scaled, and which one stands for none.
PACKING = ("scale_factor", "add_offset", "_FillValue")
TEXT = "component"
# What reading a damaged file raises, beside ValueError.
DAMAGED = OSError, EOFError, KeyError, RuntimeError, TypeError, OverflowError, zlib.error
# A field between semicolons that is a number with a decimal comma.
DECIMAL_COMMA = re.compile(rb"(?m)(?:^|;)[ +-]*\d*,\d+(?:[eE][+-]?\d+)?\s*(?:;|$)")
Wanted = Callable[[str], bool]
Columns = Iterator[tuple[str, NDArray[Any]]]


def read_columns(
    file: str | Path | bytes,
    *,
    name: str = "",
    max_bytes: int = MAX_BYTES,
    wanted: Wanted = lambda _: True,
) -> dict[str, NDArray[Any]]:
    """Reads the columns of a table: numbers, with NaN for empty entries, or text.

    Fields of a CSV are separated by commas, tabs or semicolons, the one its header has most of;
    beside semicolons numbers may have decimal commas. Lines that begin with # are passed over, as
    Stan writes them between. Of ArviZ's NetCDF the variables of all groups come in rows, chain
    after chain; of the same name, that of the posterior.

    Arguments:
        file: Its path, or its content.
        name: The name of the content's file; it tells the kind, see `KINDS`.
        max_bytes: The largest file that is read.
        wanted: Whether a column of that name is read.

    Raises:
        ValueError: the file is missing, too large, damaged or of another kind; or a column is
            there twice.

    Example:
        >>> read_columns(b"log_joint;f\\n-1,5;1\\n-2;0\\n", name="draws.csv")["log_joint"]
        array([-1.5, -2. ])
    """
    path = Path(name) if isinstance(file, bytes) else check_path("table", file)
    suffixes = [each.lower() for each in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    kind = suffixes[-1 - packed] if len(suffixes) > packed else ""
    if kind not in KINDS or (packed and KINDS[kind] is not _csv):
        raise ValueError(
            f"table: expected a name that ends in {', '.join(KINDS)} or .csv.gz, got {path.name!r}"
        )
    if not isinstance(file, bytes) and not path.is_file():
        raise ValueError(f"table: no such file: {path}")
    size = len(file) if isinstance(file, bytes) else path.stat().st_size
    if size > max_bytes:
        raise ValueError(f"table: expected at most {max_bytes:,} bytes, got {size:,}")
    try:
        content = file if isinstance(file, bytes) else path.read_bytes()
        if packed:
            with gzip.open(BytesIO(content)) as unpacked:
                content = unpacked.read(max_bytes + 1)
            if len(content) > max_bytes:
                raise ValueError(
                    f"table: expected at most {max_bytes:,} bytes once unpacked, got more"
                )
        return dict(KINDS[kind](content, wanted))
    except UnicodeError:
        raise ValueError(
            "table: expected text in UTF-8, got other bytes. Save it as UTF-8"
        ) from None
    except DAMAGED as error:
        raise ValueError(f"table: cannot be read: {error}") from None


def _csv(content: bytes, wanted: Wanted) -> Columns:
    from pyarrow import BufferReader, csv

    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        content = content.decode("utf-16").encode()
    try:
        content.partition(b"\n")[0].decode()
    except UnicodeDecodeError:  # spreadsheets of Western Europe
        content = content.decode("latin-1").encode()
    content = re.sub(rb"(?m)^#.*(?:\n|\Z)", b"", content.removeprefix(b"\xef\xbb\xbf"))
    header, _, rest = content.partition(b"\n")
    delimiter = max(b",\t;", key=header.count)
    comma = delimiter == ord(";") and DECIMAL_COMMA.search(rest[: 2**16])
    # One thread: errors then name their row.
    table = _arrow(
        csv.read_csv,
        BufferReader(content),
        csv.ReadOptions(use_threads=False),
        csv.ParseOptions(delimiter=chr(delimiter)),
        csv.ConvertOptions(decimal_point="," if comma else "."),
    )
    return _of_arrow(table, wanted)


def _parquet(content: bytes, wanted: Wanted) -> Columns:
    from pyarrow import BufferReader, parquet

    source = _arrow(parquet.ParquetFile, BufferReader(content))
    known = source.metadata
    _check_rows(known.num_rows)
    groups = range(known.num_row_groups)
    _check_unpacked(sum(known.row_group(i).total_byte_size for i in groups), content)
    # Only these are unpacked.
    return _of_arrow(_arrow(source.read, list(filter(wanted, source.schema_arrow.names))), wanted)


def _arrow(read: Callable[..., Any], *arguments: Any) -> Any:
    from pyarrow import ArrowException

    try:
        return read(*arguments)
    except ArrowException as error:
        raise OSError(error) from None


def _of_arrow(table: Any, wanted: Wanted) -> Columns:
    from pyarrow import types

    of_numbers = "floating", "integer", "boolean", "null", "decimal"
    kinds = [getattr(types, f"is_{name}") for name in of_numbers]
    names = [each.strip() for each in table.column_names]
    _check_rows(table.num_rows)
    for each, column in zip(names, table.columns, strict=True):
        if not wanted(each):
            continue
        if names.count(each) > 1:
            raise ValueError(f"{each}: the table has this column twice. Rename one")
        if each != TEXT and any(is_kind(column.type) for is_kind in kinds):
            yield each, column.cast("float64", safe=False).to_numpy()
        else:
            yield each, np.array(column.to_pylist(), dtype=str)


def _netcdf(content: bytes, wanted: Wanted) -> Columns:
    import h5py

    with h5py.File(BytesIO(content), "r") as whole:
        found: dict[str, NDArray[Any]] = {}
        # Only what lies in the file itself: its links could lead to others of this machine.
        groups = sorted(_members(h5py, whole, h5py.Group), key=lambda g: g.name != "/posterior")
        for group in [whole, *groups]:
            for data in _members(h5py, group, h5py.Dataset, wanted):
                if data.external is None and not data.is_virtual and data.dtype.kind in "fiub":
                    _check_rows(data.shape[0] * (data.shape[1] if data.ndim > 1 else 1))
                    _check_unpacked(data.nbytes, content)
                    name = data.name.rpartition("/")[2]
                    if name not in found:
                        found[name] = _unpacked(name, data)
    return iter(found.items())


def _unpacked(name: str, data: Any) -> NDArray[Any]:
    """The values of a variable of netCDF, which may be stored scaled (CF conventions, 8.1)."""
    about = {each: _number(name, each, data.attrs.get(each)) for each in PACKING}
    values = np.asarray(data)
    if set(about.values()) == {None}:
        return values
    scale, offset, fill = (about[each] for each in PACKING)
    values = values.astype(float)
    missing = values == fill
    with np.errstate(over="ignore", invalid="ignore"):
        values = values * (1.0 if scale is None else scale) + (offset or 0.0)
    values[missing] = np.nan
    return values


def _number(name: str, attribute: str, value: Any) -> float | None:
    """The number that an attribute of a variable is, if it is there."""
    if value is None:
        return None
    found = np.asarray(value)
    if found.size != 1 or found.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected a number for its {attribute}, got {value!r:.50}")
    return float(found.item())


def _members(h5py: Any, group: Any, kind: Any, wanted: Wanted = lambda _: True) -> Iterator[Any]:
    for name in filter(wanted, group):
        if isinstance(group.get(name, getlink=True), h5py.HardLink):
            member = group[name]
            if isinstance(member, kind) and (kind is h5py.Group or member.ndim):
                yield member


def _check_rows(rows: int) -> None:
    if rows > MAX_ROWS:
        raise ValueError(f"table: expected at most {MAX_ROWS:,} draws, got {rows:,}")


def _check_unpacked(size: int, content: bytes) -> None:
    if size > MOST_UNPACKED * max(len(content), SMALL):
        raise ValueError(
            f"table: {len(content):,} bytes unpack to {size / 1e6:,.0f} MB, more than "
            f"{MOST_UNPACKED} times as many. Save it uncompressed"
        )


# How each kind of file is read, by the end of its name.
KINDS: dict[str, Callable[[bytes, Wanted], Columns]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".nc": _netcdf,
}
