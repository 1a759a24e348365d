r"""Cases (y, theta) with values of mu from elsewhere, to count errors from; read from a file."""

from __future__ import annotations

__all__ = ["KnownCases", "read_cases"]

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from amci_core._arguments import check_numbers
from amci_core.estimators.draws import Array
from amci_core.io import check_path
from amci_core.models import Problem, Variable, check_problem
from amci_core.printing import Printed
from amci_core.tabular import read_columns

VALUE, ERROR = "value", "error"


@dataclass(frozen=True, repr=False)
class KnownCases(Printed):
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


def read_cases(file: str | Path, problem: Problem | str) -> KnownCases:
    """Reads cases and their values of mu from a CSV or Parquet file.

    Its columns are `y` and `theta` (`y1`, `y2`, ... in several dimensions), `value` and, if it is
    known, `error`, the standard error of the value.

    Arguments:
        file: The file, whose name ends with .csv or .parquet.
        problem: The problem whose cases these are, or the name of a shipped one.

    Returns:
        `KnownCases`: y (n, D_y), theta (n, D_theta), `value` and `standard_error` (n,).

    Raises:
        ValueError: the file is missing, of another kind or damaged; a column is missing, unknown
            or no numbers; or a case is out of range.
    """
    problem = check_problem(problem)
    columns = read_columns(check_path("file", file))
    of_y, of_theta = _columns("y", problem.y), _columns("theta", problem.theta)
    wanted = [*of_y, *of_theta, VALUE]
    if not set(wanted) <= set(columns) <= {*wanted, ERROR}:
        raise ValueError(
            f"{file}: expected the columns {', '.join(wanted)} and, if known, {ERROR}, "
            f"got {', '.join(columns)}"
        )
    try:
        arrays = {name: check_numbers(name, column) for name, column in columns.items()}
        if not np.isfinite(arrays[VALUE]).all():
            raise ValueError(f"expected finite numbers as {VALUE}")
        y, theta = (
            np.column_stack([arrays[name] for name in names]) if names else None
            for names in (of_y, of_theta)
        )
        problem.check(y, theta)
    except ValueError as wrong:
        raise ValueError(f"{file}: {wrong}") from None
    value = arrays[VALUE]
    return KnownCases(y, theta, value, arrays.get(ERROR, np.zeros_like(value)))


def _columns(name: str, variable: Variable | None) -> list[str]:
    dim = 0 if variable is None else variable.dim
    return [name] if dim == 1 else [f"{name}{i + 1}" for i in range(dim)]
