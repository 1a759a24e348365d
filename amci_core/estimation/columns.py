r"""Columns of numbers from elsewhere, checked and put in order as `Draws`."""

from __future__ import annotations

__all__ = ["MAX_DRAWS", "read_columns"]

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from amci_core._arguments import check_number
from amci_core.estimators import COMPONENTS, PROPOSALS, Draws
from amci_core.estimators.draws import Array

MAX_DRAWS = 20_000_000


def read_columns(
    log_joint: ArrayLike,
    log_q: ArrayLike | Mapping[str, ArrayLike],
    f: ArrayLike,
    component: ArrayLike | None,
    log_E2: float | None,
) -> tuple[Draws, tuple[str, ...], dict[str, int]]:
    """Draws, what the components in the proposals' places are called, and all draws' numbers.

    Arguments and errors are those of `amci_core.estimation.diagnose`.
    """
    columns = {"log_joint": _numbers("log_joint", log_joint), "f": _numbers("f", f)}
    n = len(columns["log_joint"])
    _check_length("f", columns["f"], n)
    densities, names = _densities(log_q, component, n)
    _check_values(columns, densities, names)
    slots = sorted(densities, key=_slot)
    order = np.concatenate([np.flatnonzero(names == name) for name in slots])
    there = columns["log_joint"] > -np.inf
    f_there = np.where(there, columns["f"], 0.0)
    counts = {name: int((names == name).sum()) for name in slots}
    draws = Draws(
        f=f_there[order],
        log_joint=columns["log_joint"][order],
        log_q={_slot(name): densities[name][order] for name in slots},
        counts={_slot(name): counts[name] for name in slots},
        signed=bool((f_there < 0).any()),
        log_E2=None if log_E2 is None else np.asarray(check_number("log_E2", log_E2)),
    )
    by_slot = {_slot(name): name for name in slots}
    called = tuple(by_slot.get(j, usual) for j, usual in enumerate(PROPOSALS))
    return draws, called, counts


def _slot(name: str) -> int:
    """The number of a component; a single one of another name stands in the place of q2."""
    return COMPONENTS.index(name) if name in COMPONENTS else COMPONENTS.index("q2")


def _numbers(name: str, values: ArrayLike) -> Array:
    """A column of numbers, (n,)."""
    try:
        column = np.asarray(values)
        if column.dtype.kind not in "biuf":
            raise TypeError
        column = column.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected numbers, got {type(values).__name__}") from None
    if column.ndim != 1 or not 2 <= len(column) <= MAX_DRAWS:
        raise ValueError(
            f"{name}: expected 2 to {MAX_DRAWS:,} numbers in a row, got shape {column.shape}"
        )
    return column


def _check_length(name: str, column: NDArray[Any], n: int) -> None:
    if column.shape != (n,):
        raise ValueError(f"{name}: expected {n:,} entries, as log_joint has, got {len(column):,}")


def _densities(
    log_q: ArrayLike | Mapping[str, ArrayLike], component: ArrayLike | None, n: int
) -> tuple[dict[str, Array], NDArray[np.str_]]:
    """Every component's log density at all draws, and the component of each draw."""
    given = log_q if isinstance(log_q, Mapping) else {"q": log_q}
    if not given:
        raise ValueError("log_q: expected at least one component, got none")
    alone = len(given) == 1
    densities = {}
    for name, values in given.items():
        if not alone and name not in COMPONENTS:
            known = ", ".join(COMPONENTS)
            raise ValueError(f"log_q: expected components among {known}, got {name!r}")
        called = f"log_q of {name}" if isinstance(log_q, Mapping) else "log_q"
        densities[str(name)] = _numbers(called, values)
        _check_length(called, densities[str(name)], n)
    if component is None:
        if not alone:
            raise ValueError(
                "component: expected the name of each draw's component, since there are several "
                f"({', '.join(densities)}), got None"
            )
        return densities, np.full(n, next(iter(densities)))
    names = np.asarray(component).astype(str)
    _check_length("component", names, n)
    if alone and not isinstance(log_q, Mapping) and len(set(names)) == 1:
        densities = {str(names[0]): densities["q"]}
    strange = set(names) - densities.keys()
    if strange:
        first, known = str(min(strange)), ", ".join(densities)
        raise ValueError(f"component: there is no log_q of {first!r}, only of {known}")
    without = densities.keys() - set(names)
    if without:
        raise ValueError(f"component: no draw came from {min(without)}, whose log_q is there")
    return densities, names


def _check_values(
    columns: Mapping[str, Array], densities: Mapping[str, Array], names: NDArray[np.str_]
) -> None:
    log_joint, f = columns["log_joint"], columns["f"]
    there = log_joint > -np.inf
    rules = [
        ("log_joint", log_joint, ~(log_joint < np.inf), "numbers below infinity"),
        ("f", f, there & ~np.isfinite(f), "finite numbers where the density is not zero"),
    ]
    for name, log_density in densities.items():
        own = (names == name) & (log_density == -np.inf)
        called = f"log_q of {name}" if len(densities) > 1 else "log_q"
        rules += [
            (called, log_density, ~(log_density < np.inf), "numbers below infinity"),
            (called, log_density, own, "finite numbers at its own draws"),
        ]
    for name, values, bad, expected in rules:
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(f"{name}: expected {expected}, got {values[at]} at draw {at + 1:,}")
    if not there.any():
        raise ValueError("log_joint: expected a density above zero somewhere, got -inf everywhere")
