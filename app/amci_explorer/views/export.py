r"""What is shown, as files: tables as CSV, everything as JSON."""

from __future__ import annotations

__all__ = [
    "curves",
    "densities",
    "evaluation",
    "everything",
    "joined",
    "plane",
    "playback",
    "reuse",
    "summary",
    "table",
    "weights",
]

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from amci_core.amortization import AmortizationMap
from amci_core.evaluation import ErrorCurves, ReuseErrors
from amci_core.evaluation.cases import FIGURES
from amci_explorer.compute.results import Result
from amci_explorer.numbers.diagnosis import Diagnosis
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.numbers.line import LineDensities
from amci_explorer.numbers.plane import PlaneDensities
from amci_explorer.numbers.play import Playback
from amci_explorer.numbers.summary import Summary
from amci_explorer.state.state import State


def table(*parts: tuple[str, pd.DataFrame, Mapping[str, str]]) -> StringIO:
    """A table as CSV, with the settings that it answers in its first lines, after a hash.

    Arguments:
        parts: One, or those that are compared: a name, the table, and the settings as a link.
    """
    text = StringIO()
    for name, _, link in parts:
        text.write(f"# {f'{name}: ' * (len(parts) > 1)}{urlencode(link, safe=',')}\n")
    joined({name: frame for name, frame, _ in parts}).to_csv(text, index=False, na_rep="nan")
    text.seek(0)
    return text


def joined(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One table, or those that are compared with their names in the first column."""
    if len(frames) == 1:
        return next(iter(frames.values()))
    return pd.concat(frames, names=["case", None]).reset_index("case").reset_index(drop=True)


def densities(found: LineDensities | PlaneDensities) -> pd.DataFrame:
    """One line for every x, or every point of a plane."""
    return pd.DataFrame(found.columns)


def playback(found: Playback) -> pd.DataFrame:
    """One line for every draw: where each proposal's lies, its weight, and mu so far."""
    columns: dict[str, Any] = {"draw": np.arange(1, len(found.estimate) + 1)}
    for lane in found.lanes:
        columns |= {f"{lane.proposal}_x": lane.x, f"{lane.proposal}_weight": lane.weight}
    return pd.DataFrame(columns | {"mu": found.estimate, "standard_error": found.error})


def curves(found: ErrorCurves) -> pd.DataFrame:
    """One line for every estimator and number of draws."""
    parts = []
    for name, curve in found.by_name.items():
        columns: dict[str, Any] = {"estimator": name, "draws": found.budgets}
        for measure, mean, quartiles in (
            ("remse", curve.remse, curve.remse_quartiles),
            ("mse", curve.mse, curve.mse_quartiles),
        ):
            named = zip(("mean", "q25", "median", "q75"), (mean, *quartiles), strict=True)
            columns |= {f"{measure}_{figure}": values for figure, values in named}
        parts.append(
            pd.DataFrame(columns | {"determined": curve.determined, "failed": curve.failed})
        )
    return pd.concat(parts, ignore_index=True)


def evaluation(found: Evaluated) -> pd.DataFrame:
    """One line for every case, estimator and number of draws; without cases their summaries."""
    budgets = list(found.budgets)
    if found.cases is None:
        parts = [
            pd.DataFrame({"estimator": name, "draws": budgets, **figures})
            for name, figures in found.estimators.items()
        ]
        return pd.concat(parts, ignore_index=True)
    cases = found.cases
    points = {
        f"{name}{i + 1}": column
        for name in ("y", "theta")
        for i, column in enumerate(getattr(cases, name).T)
    }
    where = {"case": cases.number, **points}
    where |= {"truth": cases.truth, "truth_error": cases.truth_error}
    parts = [
        pd.DataFrame(
            {name: np.repeat(column, len(budgets)) for name, column in where.items()}
            | {"estimator": estimator, "draws": np.tile(budgets, len(cases))}
            | {each: np.ravel(figures[each]) for each in FIGURES}
        )
        for estimator, figures in cases.by_name.items()
    ]
    return pd.concat(parts, ignore_index=True).sort_values("case", kind="stable")


def plane(found: AmortizationMap) -> pd.DataFrame:
    """One line for every case computed so far."""
    j, i = np.nonzero(found.done)
    columns = {found.x.name: found.x.values[i], found.y.name: found.y.values[j]}
    columns["relative_variance"] = found.relative_variance[j, i]
    for name in ("relative_ess", "pareto_k"):
        of = zip(found.terms, getattr(found, name), strict=True)
        columns |= {f"{name}_{term}": values[j, i] for term, values in of}
    return pd.DataFrame(columns | {"bound_over_amci": found.bound_ratio[j, i]})


def reuse(found: ReuseErrors) -> pd.DataFrame:
    """One line for every (alpha, beta)."""
    alpha, beta = np.meshgrid(found.alphas, found.betas, indexing="ij")
    columns: dict[str, Any] = {"alpha": alpha, "beta": beta}
    columns |= {"remse_mean": found.remse, "determined": found.determined}
    return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()})


def summary(found: Summary) -> pd.DataFrame:
    """One line for every estimator."""
    names = ("name", "value", "standard_error", "relative_error", "draws", "remark")
    return pd.DataFrame(
        [[getattr(row, name) for name in names] for row in found.rows], columns=names
    )


def weights(found: Diagnosis) -> pd.DataFrame:
    """One line for every draw of every term."""
    parts = [
        pd.DataFrame(
            {"term": term.name}
            | {f"x{i + 1}": column for i, column in enumerate(term.x.T)}
            | {"log10_weight_over_mean": term.log_weights}
        )
        for term in found.terms
    ]
    return pd.concat(parts, ignore_index=True)


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
