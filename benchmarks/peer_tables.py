r"""Tables and the picture of `docs/results/peers.md` from what `peers.py` has measured."""

from __future__ import annotations

__all__ = ["asked_for", "needs", "picture", "tables"]

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]
TARGETS = (0.1, 0.01, 0.001)
# The error of the batch.
OF_MANY = 0.01
LEVELS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
OURS = ("amci", "amci-sobol", "amci-value", "amci-value-sobol", "amci-to")
# Against which it is counted what a peer needs less.
AGAINST = {
    "amci": "`estimate`",
    "amci-sobol": "it with Sobol points",
    "amci-value": "the value alone",
}
# What the numbers to reach are taken over: peers that draw points and need no training.
DRAWING = (
    *("monte-carlo", "vegas", "vegas-pdf", "sobol", "qmcpy"),
    *("nuts", "dynesty", "nautilus", "subset", "form"),
)
# By measure: what it is called, and how AMCI's gain is read.
MEASURES = {"evaluations": "density evaluations", "ms": "ms, one query", "batch": "ms, of 1,000"}


def needs(rows: Sequence[Mapping[str, float]], target: float) -> dict[str, float] | None:
    """Budget, evaluations and ms for an error, from the budget on at which it stays below."""
    first = len(rows)
    while first > 0 and rows[first - 1]["rms"] <= target:
        first -= 1
    if first == len(rows):
        return None
    here = rows[first]
    columns = ("budget", "evaluations", "ms")
    if first == 0:
        return {column: here[column] for column in columns}
    before = rows[first - 1]
    share = math.log(before["rms"] / target) / math.log(before["rms"] / max(here["rms"], 1e-300))
    return {
        column: before[column] ** (1 - share) * here[column] ** share
        if before[column] > 0 and here[column] > 0
        else here[column]
        for column in columns
    }


def asked_for(rows: Sequence[Mapping[str, float]], target: float) -> dict[str, float] | None:
    """The same for a method whose budget is the precision itself."""
    row = next((row for row in rows if row["budget"] == target), None)
    return None if row is None or row["rms"] > target else dict(row)


def median(result: Result, target: float, measure: str) -> float:
    """The median case's need; infinite where half of the cases do not reach the error."""
    if "skipped" in result:
        return math.inf
    if measure == "batch" and target != OF_MANY:
        return math.inf
    if (again := result.get("times", {}).get(str(target), {}).get(measure)) is not None:
        return float(again)
    if measure == "batch":
        return float(result["batch"].get(str(target), math.inf))
    values = [math.inf if n is None else n[measure] for n in result["needs"][str(target)]]
    return statistics.median(values)


def tables(results: Sequence[Result]) -> str:
    """Everything that `docs/results/peers.md` shows."""
    by_problem: dict[str, dict[str, Result]] = {}
    for result in results:
        by_problem.setdefault(result["problem"], {})[result["method"]] = result
    ordered = sorted(by_problem, key=lambda name: -len(by_problem[name]))
    parts = ["### Lost", _lost(by_problem), "### Numbers to reach", _reached(by_problem)]
    for name in ordered:
        parts += [f"### {name}", _table(by_problem[name])]
    return "\n\n".join(parts)


def _table(of_problem: Mapping[str, Result]) -> str:
    head = (
        "| method | evaluations: 10 % | 1 % | 0.1 % | ms, one: 10 % | 1 % | 0.1 % | "
        "ms, of 1,000: 1 % | cases at 1 % | training, s | AMCI has paid after |\n|---|"
        + "---:|"
        * 10
    )
    rows = [head]
    amci = of_problem.get("amci")
    for key, result in sorted(of_problem.items(), key=lambda item: _place(*item)):
        if "skipped" in result:
            continue
        cells = [_number(median(result, t, m)) for m in ("evaluations", "ms") for t in TARGETS]
        cells.append(_number(median(result, 0.01, "batch")))
        of_target = result["needs"]["0.01"]
        cells.append(f"{sum(need is not None for need in of_target)} of {len(of_target)}")
        cells.append(_number(result.get("training", {}).get("seconds", math.inf)))
        cells.append("" if key in OURS or amci is None else _paid(amci, result))
        rows.append(f"| {result['title']} | " + " | ".join(cells) + " |")
    skipped = [r for r in of_problem.values() if "skipped" in r]
    notes = [f"{r['title']}: not run, {r['skipped']}." for r in skipped]
    extra = [(r["title"], r["extra"]) for r in of_problem.values() if r.get("extra")]
    notes += [
        f"{title}: {e['hits']:.2%} of the draws at the first case hit f." for title, e in extra
    ]
    return "\n".join([*rows, "", " ".join(notes)])


def _place(key: str, result: Result) -> tuple[int, float]:
    """AMCI first, then by evaluations and by error."""
    return (
        OURS.index(key) if key in OURS else len(OURS),
        min(median(result, 0.01, "evaluations"), 1e200) + (key in ("cbq", "network")) * 1e100,
    )


def _paid(amci: Result, peer: Result) -> str:
    """The number of queries at 1 % after which training has cost less than the peer would."""
    ours, theirs = (median(result, 0.01, "ms") for result in (amci, peer))
    if math.isinf(theirs):
        return "peer does not in its time"
    if theirs <= ours:
        return "never"
    seconds = amci["training"]["seconds"]
    return f"{math.ceil(1e3 * seconds / (theirs - ours)):,}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "–"
    if value >= 100:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.2g}"


def _lost(by_problem: Mapping[str, Mapping[str, Result]]) -> str:
    """How many times less a peer needs than AMCI, where it does; the worst first."""
    found = []
    for name, of_problem in by_problem.items():
        ours = [of_problem[key] for key in AGAINST if key in of_problem]
        for key, result in of_problem.items():
            for measure, words in MEASURES.items():
                if key in OURS or len(ours) < len(AGAINST):
                    continue
                factors = [_factor(own, result, t, measure) for own in ours for t in TARGETS]
                worst = max(factors[:3])
                if worst > 1:
                    found.append((worst, f"{name} | {result['title']} | {words}", factors))
    found.sort(key=lambda row: -row[0])
    columns = "".join(
        f" | times less than {words}: 10 % | 1 % | 0.1 %" for words in AGAINST.values()
    )
    head = f"| problem | peer | measure{columns} |\n|---|---|---|" + "---:|" * 3 * len(AGAINST)
    rows = [
        f"| {words} | " + " | ".join(_times(f) for f in factors) + " |"
        for _, words, factors in found
    ]
    return "\n".join([head, *rows])


def _times(factor: float) -> str:
    return "" if factor <= 1 else "∞" if math.isinf(factor) else _number(factor)


def _factor(ours: Result, theirs: Result, target: float, measure: str) -> float:
    """How many times less the peer needs; 0 where it does not reach the error."""
    own, other = (median(result, target, measure) for result in (ours, theirs))
    if math.isinf(other):
        return 0.0
    return own / other if other else math.inf


# How many times less AMCI should need for 1 % than the best peer that draws.
WANTED = {
    "tail-5d": {"evaluations": 100, "ms": 1, "batch": 20},
    "cancer": {"evaluations": 50, "batch": 20},
}


def _reached(by_problem: Mapping[str, Mapping[str, Result]]) -> str:
    """How many times less AMCI needs for 1 % than the best peer that draws."""
    head = "| problem | measure | best peer | its need | `estimate` | times less | value alone | "
    head += "times less | wanted |\n|---|---|---|" + "---:|" * 6
    rows = [head]
    for name, wanted in WANTED.items():
        of_problem = by_problem.get(name, {})
        peers = [result for key, result in of_problem.items() if key in DRAWING]
        if not peers or not {"amci", "amci-value"} <= set(of_problem):
            continue
        for measure, times in wanted.items():
            best = min(peers, key=lambda result: median(result, 0.01, measure))
            theirs = median(best, 0.01, measure)
            cells = [_number(theirs)]
            for key in ("amci", "amci-value"):
                own = median(of_problem[key], 0.01, measure)
                cells += [_number(own), _number(theirs / own)]
            rows.append(
                f"| {name} | {MEASURES[measure]} | {best['title']} | "
                + " | ".join([*cells, f"{times}"])
                + " |"
            )
    return "\n".join(rows)


COLOURS = {
    "amci": "#d55e00",
    "amci-value": "#e8000b",
    "amci-sobol": "#8f6a00",
    "amci-value-sobol": "#ff7f7f",
    "amci-to": "#8b2b00",
    "monte-carlo": "#999999",
    "vegas": "#0072b2",
    "vegas-pdf": "#56b4e9",
    "sobol": "#009e73",
    "qmcpy": "#66c2a5",
    "quadrature": "#000000",
    "sbi": "#cc79a7",
    "nuts": "#9467bd",
    "dynesty": "#8c564b",
    "nautilus": "#c49c94",
    "subset": "#bcbd22",
    "form": "#e0b000",
    "cbq": "#17becf",
    "network": "#7f7f7f",
    "network-told": "#444444",
}


def picture(results: Sequence[Result], place: Path) -> None:
    """Evaluations, and below them ms, against the error, a column of panels a problem."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    names = list(dict.fromkeys(result["problem"] for result in results))
    across = math.ceil(len(names) / 2) if len(names) > 5 else len(names)
    down = math.ceil(len(names) / across)
    figure = Figure(figsize=(3.1 * across, 5.2 * down + 0.9), facecolor="white")
    panels = figure.subplots(2 * down, across, squeeze=False, sharex=True)
    lines: dict[str, Any] = {}
    for i, name in enumerate(names):
        for row, measure in enumerate(("evaluations", "ms")):
            axes = panels[2 * (i // across) + row, i % across]
            for result in results:
                if result["problem"] != name or "skipped" in result:
                    continue
                line = _curve(axes, result, measure)
                if line is not None:
                    lines.setdefault(result["title"].replace("`", ""), line)
            axes.set(xscale="log", yscale="log", xlim=(0.45, 0.0007))
            axes.set_xticks([0.1, 0.01, 0.001], ["10 %", "1 %", "0.1 %"])
            axes.tick_params(labelbottom=True, labelsize=8)
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.grid(alpha=0.3)
            axes.set_title(name if row == 0 else "", fontsize=10)
            axes.set_ylabel("density evaluations" if row == 0 else "ms a query", fontsize=9)
            if row == 1:
                axes.set_xlabel("relative error", fontsize=9)
    for i in range(len(names), across * down):
        for row in range(2):
            panels[2 * (i // across) + row, i % across].axis("off")
    figure.legend(lines.values(), lines.keys(), loc="lower center", ncols=5, fontsize=8)
    figure.tight_layout(rect=(0, 0.9 / (5.2 * down + 0.9), 1, 1))
    figure.savefig(place, dpi=66)


def _curve(axes: Any, result: Result, measure: str) -> Any:
    """The median need against the error; None where nothing is reached."""
    read = asked_for if result["method"] == "amci-to" else needs
    points = []
    for level in LEVELS:
        found = [read(rows, level) for rows in result["cases"]]
        value = statistics.median([math.inf if n is None else n[measure] for n in found])
        if math.isfinite(value) and value > 0:
            points.append((level, value))
    if not points:
        return None
    ours = result["method"] in OURS
    style = {"lw": 2.2 if ours else 1.1, "zorder": 3 if ours else 2, "ms": 4 if ours else 3}
    return axes.plot(*zip(*points, strict=True), "o-", color=COLOURS[result["method"]], **style)[0]
