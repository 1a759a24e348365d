r"""Cases (y, theta) with values of mu from elsewhere, to count errors from; read from a file."""

from __future__ import annotations

__all__ = ["KnownCases", "read_cases"]

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from amci_core.estimators.draws import Array
from amci_core.io import check_path, read_json
from amci_core.models import Problem, check_problem
from amci_core.tabular import read_columns

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

    def __repr__(self) -> str:
        low, high = self.value.min(), self.value.max()
        return f"KnownCases: {len(self.value):,} cases with mu from {low:.3g} to {high:.3g}"


def read_cases(file: str | Path, problem: Problem | str) -> KnownCases:
    """Reads cases and their values of mu from a table or a JSON file.

    A CSV or Parquet file has the columns `y` and `theta` (`y1`, `y2`, ... in several dimensions),
    `value` and, where it is known, `error`, the standard error of the value. A JSON file has an
    object of such columns, in which y and theta may be lists of lists, or a list of objects, one
    for each case.

    Arguments:
        file: The file, whose name ends with .csv, .parquet or .json.
        problem: The problem whose cases these are, or the name of a shipped one.

    Returns:
        `KnownCases`: y (n, D_y), theta (n, D_theta), `value` and `standard_error` (n,).

    Raises:
        ValueError: the file is missing, of another kind or damaged; a column is missing, unknown,
            of another length or no numbers; or a case is out of range.
    """
    problem = check_problem(problem)
    path = check_path("file", file)
    columns = _json(path) if path.suffix == ".json" else read_columns(path)
    names: dict[str, list[str]] = {}
    for name in ("y", "theta"):
        variable = getattr(problem, name)
        if variable is not None:
            whole = name in columns or variable.dim == 1
            names[name] = [name] if whole else [f"{name}{i + 1}" for i in range(variable.dim)]
    wanted = [each for parts in names.values() for each in parts] + [VALUE]
    if not set(wanted) <= set(columns) <= {*wanted, ERROR}:
        raise ValueError(
            f"{file}: expected the columns {', '.join(wanted)} and, if known, {ERROR}, "
            f"got {', '.join(columns)}"
        )
    try:
        arrays = {name: np.asarray(each, dtype=np.float64) for name, each in columns.items()}
        value = arrays[VALUE]
        error = arrays.get(ERROR, np.zeros_like(value))
        if value.ndim != 1 or {each.shape[:1] for each in arrays.values()} != {value.shape}:
            raise ValueError(f"expected one {VALUE} for each case, and columns of one length")
        y, theta = (
            np.column_stack([arrays[each] for each in names[name]]) if name in names else None
            for name in ("y", "theta")
        )
        problem.check(y, theta)
    except (TypeError, ValueError, OverflowError) as wrong:
        raise ValueError(f"{file}: {wrong}") from None
    return KnownCases(y, theta, value, error)


def _json(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if isinstance(content, list) and content and all(isinstance(each, dict) for each in content):
        return {name: [each.get(name) for each in content] for name in content[0]}
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object of columns, or a list of cases")
    return content
