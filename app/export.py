r"""What is shown, as files: tables as CSV, everything as JSON."""

from __future__ import annotations

__all__ = ["curves_csv", "densities_csv", "everything_json", "map_csv"]

import csv
import json
from dataclasses import asdict
from io import StringIO
from typing import Any

import numpy as np

from amci_core.amortization import AmortizationMap
from amci_core.errors import ErrorCurves, ReuseErrors
from app.amortization import Plane
from app.diagnosis import Diagnosis
from app.numbers import Numbers
from app.state import Choice
from app.summary import Summary


def curves_csv(found: ErrorCurves) -> StringIO:
    """One line for every estimator and budget."""
    lines: list[list[Any]] = [
        ["estimator", "draws", "remse_mean", "remse_q25", "remse_median", "remse_q75", "mse_mean"]
    ]
    for name, curve in found.by_name.items():
        table = zip(found.budgets, curve.remse, *curve.remse_quartiles, curve.mse, strict=True)
        lines += [[name, *map(_plain, row)] for row in table]
    return _csv(lines)


def densities_csv(found: Numbers) -> StringIO:
    """One line for every x."""
    columns = found.columns
    rows = [list(map(_plain, row)) for row in zip(*columns.values(), strict=True)]
    return _csv([list(columns), *rows])


def map_csv(found: AmortizationMap) -> StringIO:
    """One line for every case computed so far."""
    names = [f"{name}_{term}" for name in ("effective_share", "pareto_k") for term in found.terms]
    lines: list[list[Any]] = [
        [found.x.name, found.y.name, "relative_variance", *names, "bound_over_amci"]
    ]
    for j, i in np.argwhere(found.done):
        values = (
            found.x.values[i],
            found.y.values[j],
            found.relative_variance[j, i],
            *found.effective_share[:, j, i],
            *found.pareto_k[:, j, i],
            found.bound_ratio[j, i],
        )
        lines.append(list(map(_plain, values)))
    return _csv(lines)


def everything_json(
    choice: Choice,
    *,
    densities: Any,
    curves: ErrorCurves | None,
    reuse: ReuseErrors | None,
    summary: Summary | None,
    diagnosis: Diagnosis | None = None,
    amortization: AmortizationMap | None = None,
    plane: Plane | None = None,
) -> StringIO:
    """All that is shown, with the choices that lead to it; null for what is not there yet.

    Arguments:
        choice: What the user chose.
        densities: What the pictures of densities show.
        curves: Errors against draws.
        reuse: Errors over (alpha, beta).
        summary: The figures of the strip.
        diagnosis: What the draws say of every term.
        amortization: The map as far as it is computed.
        plane: What it is a map of, which may no longer be what was chosen.
    """
    content: dict[str, Any] = {"choice": asdict(choice), "densities": None, "error_curves": None}
    if densities is not None:
        content["densities"] = asdict(densities)
    if curves is not None:
        content["error_curves"] = {
            "runs": curves.runs,
            "draws": curves.budgets,
            "estimators": {
                name: {
                    "remse_mean": curve.remse,
                    "remse_quartiles": curve.remse_quartiles,
                    "mse_mean": curve.mse,
                    "mean_settled": curve.mean_judged,
                    "median_settled": curve.median_judged,
                    "failed": curve.failed,
                }
                for name, curve in curves.by_name.items()
            },
        }
    content["reuse"] = None if reuse is None else _reuse(reuse)
    content["summary"] = summary and asdict(summary)
    content["diagnosis"] = diagnosis and asdict(diagnosis)
    content["amortization_map"] = amortization and {
        "proposals": plane and _proposals(plane),
        "done_cases": amortization.cases,
        **asdict(amortization),
    }
    return StringIO(json.dumps(_jsonable(content), indent=1, allow_nan=False))


def _reuse(reuse: ReuseErrors) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "runs": reuse.runs,
        "alphas": reuse.alphas,
        "betas": reuse.betas,
        "remse": reuse.remse,
        "settled": reuse.judged,
        "draws_q1_q2": reuse.counts,
        "common_random_numbers": reuse.common,
        "paper_optimum": reuse.paper,
        "optimum": reuse.optimum,
        "best": reuse.best,
        "predicted_remse": None,
        "best_draws_q1_q2": None,
    }
    # What is predicted takes the draws of both proposals for independent.
    if not reuse.common:
        at = {"amci": (1.0, 0.0), "paper_optimum": reuse.paper, "optimum": reuse.optimum}
        of_q1 = {"amci": reuse.best_split_alone, "optimum": reuse.best_split}
        total = sum(reuse.counts)
        shown["predicted_remse"] = {name: reuse.predicted(*pair) for name, pair in at.items()}
        shown["best_draws_q1_q2"] = {name: (n, total - n) for name, n in of_q1.items()}
    return shown


def _proposals(plane: Plane) -> dict[str, Any]:
    """The proposals that are mapped, and the case where the axes do not move it."""
    names = ("problem", "variant", "snapshot", "y", "theta")
    return {name: getattr(plane.choice, name) for name in names}


def _csv(lines: list[list[Any]]) -> StringIO:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    text.seek(0)
    return text


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_jsonable(item) for item in np.asarray(value, dtype=object).tolist()]
    value = _plain(value)
    return None if isinstance(value, float) and not np.isfinite(value) else value
