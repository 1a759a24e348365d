r"""Cases (y, theta) with values of mu from elsewhere, to count errors from; read from a file."""

from __future__ import annotations

__all__ = ["KnownCases", "read_cases"]

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amci_core.estimators.draws import Array
from amci_core.io import StoredFileError, read_json, read_text
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
    if path.suffix.lower() not in (".csv", ".json"):
        raise ValueError(f"truth: expected a file that ends with .csv or .json, got {str(path)!r}")
    columns = _csv(path) if path.suffix.lower() == ".csv" else _json(path)
    variables = [each for each in (problem.y, problem.theta) if each is not None]
    wanted = [name for each in variables for name in _names(each, columns)] + [VALUE]
    missing = [name for name in wanted if name not in columns]
    unknown = [name for name in columns if name not in (*wanted, ERROR)]
    if missing or unknown:
        what = f"no column {missing[0]!r}" if missing else f"an unknown column {unknown[0]!r}"
        raise ValueError(f"{path}: expected the columns {', '.join(wanted)} and, where known, "
                         f"{ERROR}, got {what}")  # fmt: skip
    arrays = {name: _numbers(path, name, column) for name, column in columns.items()}
    lengths = {name: len(column) for name, column in arrays.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(f"{path}: expected columns of one length above zero, got {lengths}")
    for name in (VALUE, ERROR):
        if name in arrays and arrays[name].ndim != 1:
            raise ValueError(f"{path}: {name}: expected one number for each case")
    error = arrays.get(ERROR, np.zeros(len(arrays[VALUE])))
    if (error < 0).any():
        raise ValueError(f"{path}: {ERROR}: expected numbers >= 0, got {error[error < 0][0]:g}")
    y, theta = (
        None if each is None else _gathered(path, each, arrays)
        for each in (problem.y, problem.theta)
    )
    return KnownCases(y, theta, arrays[VALUE], error)


def _names(variable: Variable, columns: Mapping[str, Any]) -> list[str]:
    """The columns of a variable: one of its name, or one for each coordinate."""
    if variable.name in columns or variable.dim == 1:
        return [variable.name]
    return [f"{variable.name}{i + 1}" for i in range(variable.dim)]


def _gathered(path: Path, variable: Variable, arrays: Mapping[str, Array]) -> Array:
    parts = [arrays[name] for name in _names(variable, arrays)]
    points = parts[0] if parts[0].ndim > 1 else np.stack(parts, -1)
    try:
        return np.asarray(variable.check(points).numpy())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _csv(path: Path) -> dict[str, list[Any]]:
    rows = [row for row in csv.reader(io.StringIO(read_text(path))) if any(map(str.strip, row))]
    header = [name.strip() for name in rows[0]] if rows else []
    if len(set(header)) < len(header):
        raise ValueError(f"{path}: expected columns of different names, got {', '.join(header)}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise ValueError(
                f"{path}: row {number}: expected {len(header)} entries, got {len(row)}"
            )
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(header)}


def _json(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if isinstance(content, dict):
        return content
    if isinstance(content, list) and content and all(isinstance(each, dict) for each in content):
        names = list(dict.fromkeys(name for each in content for name in each))
        for number, each in enumerate(content, 1):
            lacking = [name for name in names if name not in each]
            if lacking:
                raise ValueError(f"{path}: case {number}: there is no {lacking[0]!r}")
        return {name: [each[name] for each in content] for name in names}
    raise StoredFileError(f"{path}: expected an object of columns, or a list of cases")


def _numbers(path: Path, name: str, column: Any) -> Array:
    if isinstance(column, Sequence) and not isinstance(column, str):
        for number, entry in enumerate(column, 1):
            try:
                fine = not isinstance(entry, bool) and np.isfinite(np.asarray(entry, float)).all()
            except (TypeError, ValueError, OverflowError):
                fine = False
            if not fine:
                said = repr(entry)[:40]
                raise ValueError(f"{path}: {name}: expected finite numbers, got {said} in case "
                                 f"{number}")  # fmt: skip
        try:
            return np.asarray(column, dtype=np.float64)
        except ValueError:
            raise ValueError(f"{path}: {name}: expected as many numbers in every case") from None
    raise ValueError(f"{path}: {name}: expected a list of numbers, one for each case")
