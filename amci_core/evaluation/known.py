r"""Cases (y, theta) with values of mu from elsewhere, to count errors from; read from a file."""

from __future__ import annotations

__all__ = ["KnownCases", "read_cases"]

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amci_core.estimators.draws import Array
from amci_core.io import StoredFileError, read_json
from amci_core.models import Problem, Variable
from amci_core.models.base import check_problem

VALUE, ERROR = "value", "error"


@dataclass(frozen=True)
class KnownCases:
    """n cases and what is taken for mu there.

    Arguments:
        y: Observations (n, D_y); None where the problem has none.
        theta: Parameters of f (n, D_theta), or None.
        value: mu, (n,), in units of f.
        standard_error: Its standard error, (n,), in units of f; zeros where it counts as exact.
    """

    y: Array | None
    theta: Array | None
    value: Array
    standard_error: Array


def read_cases(file: str | Path, problem: Problem) -> KnownCases:
    """Reads cases and their values of mu from a CSV or JSON file.

    A CSV file has a header with the columns `y` (`y1`, `y2`, ... in several dimensions), `theta`
    likewise, `value` and, where it is known, `error`, the standard error of the value. A JSON
    file has an object of such columns, in which y and theta may be lists of lists, or a list of
    objects, one for each case.

    Arguments:
        file: The file, whose name ends with .csv or .json.
        problem: The problem, whose y and theta are looked for.

    Raises:
        ValueError: the file is missing, of another kind or damaged; a column is missing, unknown,
            of another length or no numbers; or a case is out of range.
    """
    check_problem(problem)
    path = Path(file)
    readers = {".csv": _csv, ".json": _json}
    if path.suffix.lower() not in readers:
        raise ValueError(f"truth: expected a file that ends with .csv or .json, got {str(path)!r}")
    columns = readers[path.suffix.lower()](path)
    variables = [each for each in (problem.y, problem.theta) if each is not None]
    wanted = [name for each in variables for name in _names(each, columns)] + [VALUE]
    missing = [name for name in wanted if name not in columns]
    unknown = [name for name in columns if name not in (*wanted, ERROR)]
    if missing or unknown:
        got = f"no column {missing[0]!r}" if missing else f"an unknown column {unknown[0]!r}"
        raise ValueError(
            f"{path}: expected the columns {', '.join(wanted)} and, if known, {ERROR}, got {got}"
        )
    arrays = {name: _numbers(path, name, column) for name, column in columns.items()}
    value = arrays[VALUE]
    error = arrays.get(ERROR, np.zeros_like(value))
    n = {name: len(column) for name, column in arrays.items()}
    if len(set(n.values())) != 1 or not len(value):
        raise ValueError(f"{path}: expected columns of one length above zero, got {n}")
    if value.ndim != 1 or error.shape != value.shape or (error < 0).any():
        raise ValueError(f"{path}: expected one {VALUE}, and one {ERROR} >= 0, for each case")
    y, theta = (
        None if each is None else _points(path, each, arrays)
        for each in (problem.y, problem.theta)
    )
    return KnownCases(y, theta, value, error)


def _names(variable: Variable, columns: Mapping[str, Any]) -> list[str]:
    """The columns of a variable: one of its name, or one for each coordinate."""
    if variable.name in columns or variable.dim == 1:
        return [variable.name]
    return [f"{variable.name}{i + 1}" for i in range(variable.dim)]


def _points(path: Path, variable: Variable, arrays: Mapping[str, Array]) -> Array:
    parts = [arrays[name] for name in _names(variable, arrays)]
    try:
        points = variable.check(parts[0] if parts[0].ndim > 1 else np.stack(parts, -1))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return np.asarray(points.numpy())


def _csv(path: Path) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(path)
    except (OSError, pa.ArrowException) as error:
        raise StoredFileError(f"{path}: not a CSV file ({error})") from None
    return {name.strip(): table[name].to_pylist() for name in table.column_names}


def _json(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if isinstance(content, list) and content:
        return {name: [each.get(name) for each in content] for name in content[0]}
    if not isinstance(content, dict):
        raise StoredFileError(f"{path}: expected an object of columns, or a list of cases")
    return content


def _numbers(path: Path, name: str, column: Any) -> Array:
    try:
        found = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {name}: expected numbers ({error})") from None
    if not found.ndim or not np.isfinite(found).all():
        raise ValueError(f"{path}: {name}: expected a list of finite numbers")
    return found
