r"""What is shown, as files: tables as CSV, everything as JSON."""

from __future__ import annotations

__all__ = ["Answers", "everything", "file", "frame", "joined"]

import json
from collections.abc import Mapping
from functools import singledispatch
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from amci_core.amortization import AmortizationMap
from amci_core.evaluation import ErrorCurves, ReuseErrors
from amci_core.evaluation.sweep import FIGURES, origin, versions
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.diagnosis import Diagnosis
from amci_explorer.numbers.evaluated import Evaluated
from amci_explorer.numbers.play import Playback
from amci_explorer.numbers.summary import Summary
from amci_explorer.problems import registry, session_proposals
from amci_explorer.state.case import Case

# Of a case, or of those that are compared by name: the request or the result, and its table. What
# its rows come from, if the settings do not say it, is an attribute of the table.
Answers = Mapping[str, tuple[Request | Result, pd.DataFrame]]


def file(answers: Answers) -> StringIO:
    """Tables as CSV; the first lines, after a hash, say the settings, the version, the weights."""
    text = StringIO()
    for name, (answer, rows) in answers.items():
        origin = _origin(answer.asked if isinstance(answer, Result) else answer)
        hashes = ", ".join(f"{n} {found[:12]}" for n, found in origin.get("weights", {}).items())
        version = f"amci-explorer {origin['versions']['amci-explorer']}"
        notes = [*rows.attrs.values(), version, *([f"weights {hashes}"] if hashes else [])]
        label = f"{name}: " if len(answers) > 1 else ""
        link = urlencode(answer.link, safe=",")
        text.write(f"# {label}{link} ({'; '.join(notes)})\n")
    joined(answers).to_csv(text, index=False, na_rep="nan")
    text.seek(0)
    return text


def _origin(asked: Request) -> dict[str, Any]:
    """Versions, and hashes of weights unless training has replaced them since."""
    settings = asked.settings
    if settings.revision != session_proposals.revision(settings.problem, settings.variant):
        return {"versions": versions()}
    found = origin(registry.problem(settings.problem), registry.chosen(settings))
    return {name: found[name] for name in ("versions", "weights")}


def joined(answers: Answers) -> pd.DataFrame:
    """One table, or those that are compared with their names in the first column."""
    frames = {name: rows for name, (_, rows) in answers.items()}
    if len(frames) < 2:
        return next(iter(frames.values()), pd.DataFrame())
    return pd.concat(frames, names=["case", None]).reset_index("case").reset_index(drop=True)


def everything(state: Case, results: Mapping[str, Result]) -> StringIO:
    """The tables of all that is shown, each with its single figures and the settings it answers.

    Arguments:
        state: What was chosen.
        results: What there is, by the cards' names; those of the reference case end in "-a".
    """
    content: dict[str, Any] = {"state": state.as_json(), "results": {}}
    for name, found in results.items():
        figures = {n: v for n, v in vars(found.value).items() if isinstance(v, int | float | str)}
        content["results"][name] = {
            "answers": found.link,
            **_origin(found.asked),
            "complete": found.complete and not found.stopped,
            # pandas writes null for what JSON has no number for.
            **json.loads(pd.Series(figures, dtype=object).to_json()),
            "table": json.loads(frame(found.value).to_json(orient="records", double_precision=15)),
        }
    return StringIO(json.dumps(content, indent=1))


@singledispatch
def frame(found: Any) -> pd.DataFrame:
    """A result as a table: of densities one line for every x, or every point of a plane."""
    return pd.DataFrame(found.columns)


@frame.register
def _(found: Playback) -> pd.DataFrame:
    """One line for every draw: where each proposal's lies, its weight, and mu so far."""
    columns: dict[str, Any] = {"draw": np.arange(1, len(found.estimate) + 1)}
    for lane in found.lanes:
        columns |= {f"{lane.proposal}_x": lane.x, f"{lane.proposal}_weight": lane.weight}
    return pd.DataFrame(columns | {"mu": found.estimate, "standard_error": found.error})


@frame.register
def _(found: ErrorCurves) -> pd.DataFrame:
    """One line for every estimator and number of draws."""
    parts = []
    for name, curve in found.by_name.items():
        columns: dict[str, Any] = {"estimator": name, "draws": found.draws}
        squares = np.square(curve.truth.unit) * curve.quartiles
        for measure, quartiles in (("remse", curve.remse_quartiles), ("mse", squares)):
            columns[f"{measure}_mean"] = getattr(curve, measure)
            for figure, values in zip(("q25", "median", "q75"), quartiles, strict=True):
                columns[f"{measure}_{figure}"] = values
        columns |= {"determined": curve.determined, "failed": curve.failed, "runs": curve.runs}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


@frame.register
def _(found: Evaluated) -> pd.DataFrame:
    """One line for every case, estimator and number of draws; without cases their summaries."""
    draws, cases = list(found.draws), found.cases
    if cases is None:
        parts = [
            pd.DataFrame({"estimator": name, "draws": draws, **figures})
            for name, figures in found.estimators.items()
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    where: dict[str, Any] = {"case": cases.number}
    for name in ("y", "theta"):
        where |= {f"{name}{i + 1}": values for i, values in enumerate(getattr(cases, name).T)}
    where |= {"truth": cases.truth, "truth_error": cases.truth_error}
    parts = [
        pd.DataFrame(
            {name: np.repeat(column, len(draws)) for name, column in where.items()}
            | {"estimator": estimator, "draws": np.tile(draws, len(cases))}
            | {each: np.ravel(figures[each]) for each in FIGURES}
        )
        for estimator, figures in cases.by_name.items()
    ]
    return pd.concat(parts, ignore_index=True).sort_values("case", kind="stable")


@frame.register
def _(found: AmortizationMap) -> pd.DataFrame:
    """One line for every case computed so far."""
    j, i = np.nonzero(found.done)
    columns = {found.x.name: found.x.values[i], found.y.name: found.y.values[j]}
    columns["relative_variance"] = found.relative_variance[j, i]
    for name in ("relative_ess", "pareto_k"):
        of = zip(found.terms, getattr(found, name), strict=True)
        columns |= {f"{name}_{term}": values[j, i] for term, values in of}
    return pd.DataFrame(columns | {"bound_over_amci": found.bound_ratio[j, i]})


@frame.register
def _(found: ReuseErrors) -> pd.DataFrame:
    """One line for every (alpha, beta)."""
    alpha, beta = np.meshgrid(found.alphas, found.betas, indexing="ij")
    columns: dict[str, Any] = {"alpha": alpha, "beta": beta}
    columns |= {"remse_mean": found.remse, "determined": found.determined}
    return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()})


@frame.register
def _(found: Summary) -> pd.DataFrame:
    """One line for every estimator."""
    return pd.DataFrame([vars(row) for row in found.rows])


@frame.register
def _(found: Diagnosis) -> pd.DataFrame:
    """One line for every draw of every term."""
    parts = [
        pd.DataFrame(
            {"term": term.name}
            | {f"x{i + 1}": column for i, column in enumerate(term.x.T)}
            | {"log10_weight_over_mean": term.log_weights}
        )
        for term in found.terms
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows.attrs["source"] = f"rows: {found.draws:,} draws of each term"
    return rows
