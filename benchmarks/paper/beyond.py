r"""Figures that the paper does not have: what the gain depends on.

The gain is the mean squared error of another way over that of AMCI, with as many draws in all.
"""

from __future__ import annotations

__all__ = ["dimension", "mismatch", "training"]

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from amci_explorer.colours import ESTIMATORS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import amci_core as amci
from amci_core.estimators.draws import Array
from amci_core.evaluation.cases import Cases
from amci_core.evaluation.runs import QUARTILES
from amci_core.models.tail import GaussianTail
from amci_core.parallel import run_tasks
from benchmarks.paper.drawing import Canvas, quantiles
from benchmarks.paper.studies import Studies

# Total draws at which gains are read.
DRAWS = 1000
AGAINST = ("bound", "snis-qm", "snis-q2")
PROBLEMS = {"tail-1d": "1-D tail", "tail-5d": "5-D tail", "cancer": "cancer"}
COLOURS = dict(zip(PROBLEMS, ("#0072b2", "#d55e00", "#008a63"), strict=True))
# Where the paths of the mismatch control start.
STARTS = {
    "tail-1d": ([1.0], [3.0]),
    "tail-5d": ([1.0] * 5, [1.0] * 5),
    "cancer": ([500.0, 300.0], None),
}
# Seconds at which a proposal that is not trained yet is drawn.
FIRST = 0.1
# A folder whose training ended holds this file.
WHOLE = "whole"
LEVELS, QUICK_LEVELS = 13, 4
DIMENSIONS, QUICK_DIMENSIONS = (1, 2, 5, 10, 20), (1, 2)
MINUTES, QUICK_MINUTES = 3.0, 0.05


def mismatch(studies: Studies) -> Figure:
    """Gain against the mismatch level, along each problem's path."""
    canvas = Canvas(1, len(PROBLEMS), f"Gain against the mismatch, {DRAWS} draws in all")
    for column, name in enumerate(PROBLEMS):
        problem = amci.problem(name)
        start = STARTS[name]
        low, high = problem.mismatch_range(*start)
        levels = np.linspace(low, high, QUICK_LEVELS if studies.quick else LEVELS)
        points = [problem.at_mismatch(float(level), *start) for level in levels]
        y, theta = (_stacked([point[i] for point in points]) for i in range(2))
        cases = studies.sweep(
            f"mismatch-{name}",
            problem,
            amci.load_proposals(name),
            draws=[DRAWS],
            runs=400,
            cases=(y, theta),
        )
        panel = canvas.panels[0, column]
        at = problem.mismatch(y, theta)
        own = cases.by_name["amci"]
        for other in AGAINST:
            gain, error = _gain(cases, other)
            flags = (own["determined"], cases.by_name[other]["determined"])
            _points(panel, at, gain, error, np.all(flags, axis=0)[:, 0], other)
        panel.axhline(1, color="#888888", lw=0.8)
        panel.set(title=PROBLEMS[name], xlabel="mismatch (nats)", yscale="log")
    canvas.panels[0, 0].set_ylabel("gain of AMCI (times)")
    canvas.legend(canvas.panels[0, 0])
    return canvas.figure


def dimension(studies: Studies) -> Figure:
    """Gain against the dimension of the tail integral, every proposal learnt for as long."""
    minutes = QUICK_MINUTES if studies.quick else MINUTES
    dimensions = QUICK_DIMENSIONS if studies.quick else DIMENSIONS
    title = f"Gain against dimension: {minutes:g} minutes of training each, {DRAWS} draws in all"
    canvas = Canvas(1, 2, title)
    gain, remse = canvas.panels[0]
    folders = _train(studies, dimensions, minutes)
    found: dict[float, Cases] = {}
    for dim in dimensions:
        problem = GaussianTail(dim)
        proposals = amci.load_proposals(problem, folder=folders[dim])
        found[dim] = studies.sweep(f"dimension-{dim}", problem, proposals, draws=[DRAWS], cases=50)
    for other in AGAINST:
        _bands(gain, found, lambda cases, name=other: _gain(cases, name)[0], other, "over ")
    for name in ("amci", *AGAINST):
        _bands(remse, found, lambda cases, name=name: cases.by_name[name]["remse"][:, 0], name)
    gain.axhline(1, color="#888888", lw=0.8)
    for panel, label in ((gain, "gain of AMCI (times)"), (remse, "relative mean squared error")):
        panel.set(xlabel="dimension D", ylabel=label, xscale="log", yscale="log")
        panel.set_xticks(dimensions, [str(dim) for dim in dimensions], minor=False)
        panel.minorticks_off()
        panel.legend(fontsize=8)
    return canvas.figure


def training(studies: Studies) -> Figure:
    """Error of AMCI against training time, from the films that the shipped proposals keep."""
    canvas = Canvas(1, len(PROBLEMS), f"Error against training time, {DRAWS} draws in all")
    for column, name in enumerate(PROBLEMS):
        panel, problem = canvas.panels[0, column], amci.problem(name)
        found: dict[float, Cases] = {}
        for moment in amci.load_history(name):
            found[max(moment.seconds, FIRST)] = studies.sweep(
                f"training-{name}-{moment.step}",
                problem,
                moment.proposals,
                draws=[DRAWS],
                cases=50,
                estimators=("amci", "snis-q2", "bound"),
            )
        _bands(panel, found, lambda cases: cases.by_name["amci"]["remse"][:, 0], "amci")
        last = list(found.values())[-1]
        for other in ("snis-q2", "bound"):
            at = float(np.nanmedian(last.by_name[other]["remse"]))
            line = ESTIMATORS[other]
            panel.axhline(at, color=line.light, ls=(0, (4, 3)), label=line.label)
        panel.set(title=PROBLEMS[name], xlabel="seconds of training", xscale="log", yscale="log")
    canvas.panels[0, 0].set_ylabel("relative mean squared error")
    canvas.legend(canvas.panels[0, 0])
    return canvas.figure


def _train(studies: Studies, dimensions: Sequence[int], minutes: float) -> dict[int, Path]:
    """Folders with proposals that `learn` makes in so many minutes each; kept beside the data."""
    ending = "-quick" if studies.quick else ""
    folders = {dim: studies.folder / f"proposals-tail-{dim}d{ending}" for dim in dimensions}
    missing = [(dim, str(path)) for dim, path in folders.items() if not _whole(path)]
    name = f"training in {len(missing)} dimensions, {minutes:g} minutes each"
    failures: list[str] = []
    tasks = run_tasks(
        partial(_learn, minutes), missing, workers=studies.workers, dask=studies.dask
    )
    for rank, done in enumerate(tasks):
        if done.failure is not None:
            failures.append(f"training in {done.item[0]} dimensions: {done.failure}")
            continue
        for file, content in done.value.items():
            path = Path(done.item[1]) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (Path(done.item[1]) / WHOLE).touch()
        studies.tell(name, rank + 1, len(missing))
    if failures:
        raise RuntimeError("; ".join(failures))
    return folders


def _whole(folder: Path) -> bool:
    return (folder / WHOLE).exists()


def _learn(minutes: float, item: tuple[int, str]) -> dict[str, bytes]:
    """The files of a training; where it is done there may be no common folder."""
    from amci_core.training import learn

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trained"
        learn(GaussianTail(item[0]), minutes=minutes, folder=out, progress=False)
        files = [path for path in out.rglob("*") if path.is_file()]
        return {str(path.relative_to(out)): path.read_bytes() for path in files}


def _gain(cases: Cases, other: str) -> tuple[Array, Array]:
    """Error of another way over that of AMCI in each case, and its standard error, (n,) each."""
    own, of = cases.by_name["amci"], cases.by_name[other]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = of["mse"][:, 0] / own["mse"][:, 0]
        shares = [np.nan_to_num(e["mse_error"][:, 0] / e["mse"][:, 0]) for e in (own, of)]
    return gain, gain * np.hypot(*shares)


def _bands(
    panel: Axes, found: dict[float, Cases], values: Callable[..., Array], name: str, over: str = ""
) -> None:
    """Quartiles over cases of values (n,), against what the cases are by."""
    low, median, high = np.array([quantiles(values(c), QUARTILES)[0] for c in found.values()]).T
    style = ESTIMATORS[name]
    panel.plot(list(found), median, "o-", ms=3.5, color=style.light, label=f"{over}{style.label}")
    panel.fill_between(list(found), low, high, color=style.light, alpha=0.15, lw=0)


def _points(
    panel: Axes, at: Array, gain: Array, error: Array, judged: NDArray[np.bool_], other: str
) -> None:
    style = ESTIMATORS[other]
    panel.plot(at, gain, color=style.light, lw=1, label=f"over {style.label}")
    marks: dict[str, Any] = {"fmt": "o", "ms": 3.5, "lw": 0.8, "color": style.light}
    for which, face in ((judged, style.light), (~judged, "white")):
        ends = [np.minimum(error, 0.9 * gain)[which], error[which]]
        panel.errorbar(at[which], gain[which], ends, markerfacecolor=face, **marks)


def _stacked(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.stack(known) if known else None
