r"""What is shown, as files: tables as CSV, everything as JSON."""

from __future__ import annotations

__all__ = [
    "Rows",
    "curves",
    "densities",
    "evaluation",
    "everything",
    "lines",
    "plane",
    "playback",
    "reuse",
    "summary",
    "table",
    "weights",
]

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import numpy as np

from amci_core.amortization import AmortizationMap
from amci_core.evaluation import ErrorCurves, ReuseErrors
from amci_core.evaluation.cases import FIGURES
from amci_explorer.compute.results import Result
from amci_explorer.numbers import Densities
from amci_explorer.numbers.diagnosis import Diagnosis
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.numbers.play import Playback
from amci_explorer.numbers.summary import Summary
from amci_explorer.state.state import State

Rows = list[list[Any]]


def table(*parts: tuple[str, Rows, Mapping[str, str]]) -> StringIO:
    """A table with the choices that it answers in its first lines, after a hash.

    Arguments:
        parts: One, or those that are compared: a name, the lines of the table with the names of
            its columns first, and the choice. With several the first column holds the name.
    """
    text = StringIO()
    for name, _, link in parts:
        text.write(f"# {f'{name}: ' * (len(parts) > 1)}{urlencode(link, safe=',')}\n")
    rows = lines({name: rows for name, rows, _ in parts})
    csv.writer(text, lineterminator="\n").writerows([[_plain(v) for v in row] for row in rows])
    text.seek(0)
    return text


def lines(parts: Mapping[str, Rows]) -> Rows:
    """The lines of one table, or of those that are compared, below the names of the columns."""
    if len(parts) < 2:
        return next(iter(parts.values()), [])
    (head, *_), *_ = parts.values()
    return [["case", *head], *([name, *row] for name, rows in parts.items() for row in rows[1:])]


def densities(found: Densities) -> Rows:
    """One line for every x, or every point of a plane."""
    columns = found.columns
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def playback(found: Playback) -> Rows:
    """One line for every draw: where each proposal's lies, what it weighs, and mu so far."""
    names = [f"{lane.proposal}_{what}" for lane in found.lanes for what in ("x", "weight")]
    columns = [each for lane in found.lanes for each in (lane.x, lane.weight)]
    columns += [found.estimate, found.error]
    numbered = zip(range(1, len(found.estimate) + 1), *columns, strict=True)
    return [["draw", *names, "mu", "standard_error"], *map(list, numbered)]


def curves(found: ErrorCurves) -> Rows:
    """One line for every estimator and number of draws."""
    rows: Rows = [
        ["estimator", "draws"]
        + [
            f"{e}_{figure}"
            for e in ("remse", "mse")
            for figure in ("mean", "q25", "median", "q75")
        ]
        + ["determined", "failed"]
    ]
    for name, curve in found.by_name.items():
        figures = [curve.remse, *curve.remse_quartiles, curve.mse, *curve.mse_quartiles]
        lines = zip(found.budgets, *figures, curve.determined, curve.failed, strict=True)
        rows += [[name, *line] for line in lines]
    return rows


def evaluation(found: Evaluated) -> Rows:
    """One line for every case, estimator and number of draws; without cases their summaries."""
    if found.cases is None:
        keys = list(dict.fromkeys(key for own in found.estimators.values() for key in own))
        rows: Rows = [["estimator", "draws", *keys]]
        for name, own in found.estimators.items():
            columns = [own.get(key, [None] * len(found.budgets)) for key in keys]
            lines = zip(found.budgets, *columns, strict=True)
            rows += [[name, *line] for line in lines]
        return rows
    cases = found.cases
    names = [
        f"{name}{i + 1}" for name in ("y", "theta") for i in range(getattr(cases, name).shape[1])
    ]
    rows = [["case", *names, "truth", "truth_error", "estimator", "draws", *FIGURES]]
    for rank, case in enumerate(cases.number):
        where = [case, *cases.y[rank], *cases.theta[rank]]
        where += [cases.truth[rank], cases.truth_error[rank]]
        for name, figures in cases.by_name.items():
            lines = zip(found.budgets, *(figures[each][rank] for each in FIGURES), strict=True)
            rows += [[*where, name, *line] for line in lines]
    return rows


def plane(found: AmortizationMap) -> Rows:
    """One line for every case computed so far."""
    names = [f"{name}_{term}" for name in ("relative_ess", "pareto_k") for term in found.terms]
    rows: Rows = [[found.x.name, found.y.name, "relative_variance", *names, "bound_over_amci"]]
    rows += [
        [
            found.x.values[i],
            found.y.values[j],
            found.relative_variance[j, i],
            *found.relative_ess[:, j, i],
            *found.pareto_k[:, j, i],
            found.bound_ratio[j, i],
        ]
        for j, i in np.argwhere(found.done)
    ]
    return rows


def reuse(found: ReuseErrors) -> Rows:
    """One line for every (alpha, beta)."""
    determined = found.determined
    rows: Rows = [["alpha", "beta", "remse_mean", "determined"]]
    rows += [
        [alpha, beta, found.remse[i, j], bool(determined[i, j])]
        for i, alpha in enumerate(found.alphas)
        for j, beta in enumerate(found.betas)
    ]
    return rows


def summary(found: Summary) -> Rows:
    """One line for every estimator."""
    names = ("name", "value", "standard_error", "relative_error", "draws", "remark")
    return [list(names), *([getattr(row, name) for name in names] for row in found.rows)]


def weights(found: Diagnosis) -> Rows:
    """One line for every draw of every term."""
    dim = found.terms[0].x.shape[1]
    rows: Rows = [["term", *(f"x{i + 1}" for i in range(dim)), "log10_weight_over_mean"]]
    for term in found.terms:
        rows += [[term.name, *x, w] for x, w in zip(term.x, term.log_weights, strict=True)]
    return rows


def everything(state: State, results: Mapping[str, Result]) -> StringIO:
    """All that is shown, each with the choice that it answers.

    Arguments:
        state: What the visitor chose.
        results: What there is, by the cards' names; those of the kept case end in "-a".
    """
    content = {
        "state": state.as_json(),
        "results": {
            found.asked.what + ("-a" if name.endswith("-a") else ""): {
                "answers": found.asked.link,
                "complete": found.complete,
                **_content(found.value),
            }
            for name, found in results.items()
        },
    }
    return StringIO(json.dumps(_jsonable(content), indent=1, allow_nan=False))


def _content(found: Any) -> dict[str, Any]:
    if isinstance(found, ErrorCurves):
        return {
            "runs": found.runs,
            "draws": found.budgets,
            "estimators": {
                name: {
                    "remse_mean": curve.remse,
                    "remse_quartiles": curve.remse_quartiles,
                    "mse_mean": curve.mse,
                    "mse_quartiles": curve.mse_quartiles,
                    "determined": curve.determined,
                    "failed": curve.failed,
                }
                for name, curve in found.by_name.items()
            },
        }
    if isinstance(found, ReuseErrors):
        return _reuse(found)
    if isinstance(found, Evaluated):
        names = ("runs", "seed", "left_out", "estimators")
        shares = {
            name: dict(zip(("below", "surely_below", "undecided"), of, strict=True))
            for name, of in found.against_bound.items()
        }
        content = {name: getattr(found, name) for name in names}
        content["cases"] = found.wanted
        return content | {"draws": found.budgets, "against_bound": shares}
    return asdict(found) if is_dataclass(found) else {"value": found}  # type: ignore[arg-type]


def _reuse(found: ReuseErrors) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "runs": found.runs,
        "alphas": found.alphas,
        "betas": found.betas,
        "remse": found.remse,
        "determined": found.determined,
        "draws_q1_q2": found.counts,
        "common_random_numbers": found.common,
        "paper_optimum": found.paper,
        "optimum": found.optimum,
        "best": found.best,
        "predicted_remse": None,
        "best_draws_q1_q2": None,
    }
    # What is predicted takes the draws of both proposals for independent.
    if not found.common and found.prediction_holds:
        at = {"amci": (1.0, 0.0), "paper_optimum": found.paper, "optimum": found.optimum}
        of_q1 = {"amci": found.best_split_alone, "optimum": found.best_split}
        total = sum(found.counts)
        shown["predicted_remse"] = {name: found.predicted(*pair) for name, pair in at.items()}
        shown["best_draws_q1_q2"] = {name: (n, total - n) for name, n in of_q1.items()}
    return shown


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_jsonable(item) for item in np.asarray(value, dtype=object).tolist()]
    value = _plain(value)
    return None if isinstance(value, float) and not np.isfinite(value) else value
