r"""Cases as rows of Arrow and Parquet: one for each case, estimator and budget."""

from __future__ import annotations

__all__ = [
    "KEY",
    "case_of",
    "cases_of",
    "noted",
    "read_sweep",
    "rows",
    "schema",
    "write",
    "write_table",
]

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amci_core.evaluation.cases import FIGURES, Case
from amci_core.io import StoredFileError, replacing
from amci_core.origin import command

if TYPE_CHECKING:
    import pyarrow as pa

KEY = b"amci"
# Batches that a Parquet file holds in a group.
TOGETHER = 100
COUNTS = ("failed",)
FLAGS = ("mean_judged", "truth_matters")


def read_sweep(path: Path) -> tuple[dict[str, Any], pa.Table]:
    """A sweep's file: what is noted in it, and one row for each case, estimator and budget.

    Raises:
        StoredFileError: it is missing, cannot be read, or is no sweep's.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Arrow itself takes paths in UTF-8 alone.
        with path.open("rb") as file:
            table = pq.read_table(file, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        raise StoredFileError(f"{path}: not a file that a sweep wrote ({error})") from None
    refused = StoredFileError(f"{path}: not a file that a sweep wrote")
    try:
        said = json.loads((table.schema.metadata or {})[KEY])
        known = table.select(schema().names).cast(schema())
    except (KeyError, ValueError, pa.ArrowException):
        raise refused from None
    if not isinstance(said, dict) or not len(known) or any(c.null_count for c in known.columns):
        raise refused
    return said, table


def cases_of(table: pa.Table) -> Iterator[Case]:
    """The cases of a sweep's table, in its order."""
    numbers = table.column("case").to_numpy()
    edges = np.flatnonzero(np.diff(numbers, prepend=-1))
    for first, end in zip(edges, [*edges[1:], len(numbers)], strict=True):
        (batch,) = table.slice(first, end - first).combine_chunks().to_batches()
        yield case_of(batch)


def write_table(path: Path, columns: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Writes numbers that are no sweep's, with what they come from, as a sweep's file has it.

    Raises:
        StoredFileError: the file cannot be written.
    """
    import pyarrow as pa

    table = pa.table(dict(columns))
    write(path, table.schema.with_metadata(noted(settings)), table.to_batches())


def noted(settings: Mapping[str, Any], **more: Any) -> dict[bytes, bytes]:
    """What a file notes of its numbers: settings, the command, and more."""
    content = {"settings": settings, "command": command(), **more}
    return {KEY: json.dumps(content).encode()}


def write(path: Path, head: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Writes a Parquet file beside, and renames it.

    Raises:
        StoredFileError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    every = iter(batches)
    with (
        replacing(path) as beside,
        beside.open("wb") as file,
        pq.ParquetWriter(file, head, compression="zstd") as writer,
    ):
        # A group of rows for each batch would be mostly its own description.
        while some := list(islice(every, TOGETHER)):
            writer.write_table(pa.Table.from_batches(some).cast(head))


def schema() -> pa.Schema:
    """The columns of a sweep's file."""
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


def rows(case: Case) -> pa.RecordBatch:
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
    return pa.RecordBatch.from_pydict(columns, schema=schema())


def case_of(batch: pa.RecordBatch) -> Case:
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
