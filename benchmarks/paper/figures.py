r"""The figures of the paper, and of its appendix: paper and spline proposals side by side."""

from __future__ import annotations

__all__ = ["appendix_cases", "appendix_q1", "fig1", "fig2", "fig3"]

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from amci_explorer.colours import ESTIMATORS
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import amci_core as amci
from amci_core.estimators.draws import Array
from amci_core.evaluation import reuse_errors
from amci_core.flows import Proposals
from amci_core.models import Problem
from benchmarks.paper.drawing import Canvas, error_curves
from benchmarks.paper.studies import Studies

VARIANTS = ("paper", "spline")
MAIN = ("snis-q2", "snis-qm", "bound", "amci")
WITH_Q1 = ("snis-q1", *MAIN)
TITLES = {"tail-1d": "1-D tail", "tail-5d": "5-D tail", "cancer": "cancer"}
DRAWS, REMSE, MSE = "total draws T", "relative mean squared error", "mean squared error"
# Cases of Fig. 3: large mismatch above, small below.
FIG3 = ((1.0, 3.0), (3.0, 0.1))
FIG3_RUNS = 1000
REUSE_DRAWS = 64
GRID = 41
PAPER_COLOUR, SPLINE_COLOUR = "#d55e00", "#0072b2"


def fig1(studies: Studies) -> Figure:
    """Fig. 1: relative errors of the tail integrals in one and in five dimensions."""
    return _errors(studies, "Fig. 1: tail integrals", ("tail-1d", "tail-5d"), MAIN, "runs")


def fig2(studies: Studies) -> Figure:
    """Fig. 2: relative errors of the cancer example."""
    return _errors(studies, "Fig. 2: planning cancer treatment", ("cancer",), MAIN, "runs")


def appendix_cases(studies: Studies) -> Figure:
    """The appendix's spread over cases, with a band for the bound too."""
    title = "Appendix: spread over cases (quartiles)"
    return _errors(studies, title, tuple(TITLES), MAIN, "cases")


def appendix_q1(studies: Studies) -> Figure:
    """The appendix's errors with SNIS q1 among them: relative above, absolute below."""
    canvas = Canvas(2, 6, "Appendix: with SNIS q₁, and mean squared errors")
    for column, (problem, variant) in enumerate(_pairs(tuple(TITLES))):
        draws, cases = studies.shipped(problem, variant)
        for row, figure in enumerate(("remse", "mse")):
            panel = canvas.panels[row, column]
            error_curves(panel, draws, cases, WITH_Q1, figure=figure)
            if figure == "remse":
                panel.set_title(f"{TITLES[problem]}, {variant}")
                panel.set_ylim(top=1e6)
            else:
                panel.set_xlabel(DRAWS)
    for row, name in enumerate((REMSE, MSE)):
        canvas.panels[row, 0].set_ylabel(name)
    canvas.legend(canvas.panels[0, 0])
    return canvas.figure


def _errors(
    studies: Studies, title: str, problems: Sequence[str], names: Sequence[str], band: str
) -> Figure:
    canvas = Canvas(1, 2 * len(problems), title)
    for column, (problem, variant) in enumerate(_pairs(problems)):
        panel = canvas.panels[0, column]
        draws, cases = studies.shipped(problem, variant)
        error_curves(panel, draws, cases, names, band=band)
        panel.set_title(f"{TITLES[problem]}, {variant}")
        panel.set_xlabel(DRAWS)
    for column in range(0, 2 * len(problems), 2):
        both = canvas.panels[0, column : column + 2]
        low, high = np.array([panel.get_ylim() for panel in both]).T
        for panel in both:
            panel.set_ylim(low.min(), high.max())
            panel.set_xlim(right=1.2 * max(studies.draws))
    canvas.panels[0, 0].set_ylabel(REMSE)
    canvas.legend(canvas.panels[0, 0])
    return canvas.figure


def _pairs(problems: Sequence[str]) -> list[tuple[str, str]]:
    return [(problem, variant) for problem in problems for variant in VARIANTS]


def _draws(studies: Studies) -> Array:
    return np.array(studies.draws, dtype=np.float64)


def fig3(studies: Studies) -> Figure:
    """Fig. 3 with its third column: densities, errors and (alpha, beta) at two mismatches."""
    problem = amci.problem("tail-1d")
    y = np.array([[y] for y, _ in FIG3])
    theta = np.array([[theta] for _, theta in FIG3])
    canvas = Canvas(2, 5, "Fig. 3: tail-1d with a large (above) and a small mismatch (below)")
    for rank, variant in enumerate(VARIANTS):
        proposals = amci.load_proposals(problem, variant=variant)
        cases = studies.sweep(
            f"fig3-{variant}", problem, proposals, runs=FIG3_RUNS, cases=(y, theta)
        )
        for row in range(2):
            one = cases.only(row)
            panel = canvas.panels[row, 1 + rank]
            error_curves(panel, _draws(studies), one, MAIN)
            panel.set_title(f"errors, {variant}")
            _density(studies, canvas.panels[row, 0], problem, proposals, row, rank)
            _reuse(studies, canvas, canvas.panels[row, 3 + rank], problem, proposals, row)
    for row, (at_y, at_theta) in enumerate(FIG3):
        canvas.panels[row, 0].set_title(f"y = {at_y:g}, θ = {at_theta:g}")
        canvas.panels[row, 0].set_ylabel("density")
        canvas.panels[row, 1].set_ylabel(REMSE)
        canvas.panels[row, 3].set_ylabel("β")
    for column, name in enumerate(("x", DRAWS, DRAWS, "α", "α")):
        canvas.panels[1, column].set_xlabel(name)
    # What is not judged with one variant may be with the other.
    canvas.legend(*canvas.panels[0, [0, 1, 3, 4]])
    return canvas.figure


def _density(
    studies: Studies, panel: Axes, problem: Problem, proposals: Proposals, row: int, rank: int
) -> None:
    """q1, and f p(x | y) over mu, on the part of the line where the latter lies."""
    y, theta = problem.check(*FIG3[row])
    low = FIG3[row][1]
    # The posterior is N(y / 2, 1 / 2).
    high = max(low, FIG3[row][0] / 2) + (1.2 if low > 1 else 3.0)
    x = torch.linspace(low - 0.15 * (high - low), high, 801, dtype=torch.float64)[:, None]
    with torch.no_grad():
        q1 = proposals.at(y, theta)[0].log_prob(x).exp().numpy()
    points = x[:, 0].numpy()
    posterior = np.exp(-np.square(points - FIG3[row][0] / 2)) / np.sqrt(np.pi)
    mu = float(problem.truth(*FIG3[row]))
    target = np.where(points > low, posterior / mu, 0.0)
    columns = {"x": points, "q1": q1, "target": target, "posterior": posterior}
    studies.table(f"fig3-density-{proposals.variant}-{row}", columns, problem, proposals)
    if rank == 0:
        panel.fill_between(points, target, color="#c4cad0", lw=0, label="f p(x | y) / μ")
        panel.plot(points, posterior, color="#9aa4ae", lw=1, label="p(x | y)")
    colour, dash = (PAPER_COLOUR, SPLINE_COLOUR)[rank], ("--", "-")[rank]
    panel.plot(points, q1, lw=1.3, label=f"q₁, {proposals.variant}", color=colour, ls=dash)


def _reuse(
    studies: Studies,
    canvas: Canvas,
    panel: Axes,
    problem: Problem,
    proposals: Proposals,
    row: int,
) -> None:
    """The error over (alpha, beta), with the paper's optimum and ours."""
    grid: Array = np.linspace(0, 1, 11 if studies.quick else GRID)
    runs = FIG3_RUNS // (10 if studies.quick else 1)
    found = reuse_errors(
        problem,
        proposals,
        *FIG3[row],
        alphas=grid.tolist(),
        betas=grid.tolist(),
        draws=REUSE_DRAWS,
        runs=runs,
    )
    alpha, beta = np.meshgrid(grid, grid, indexing="ij")
    columns = {"alpha": alpha, "beta": beta, "remse": found.remse, "determined": found.determined}
    marks = {"AMCI (1, 0)": ((1.0, 0.0), "o", ESTIMATORS["amci"].light)}
    # Draws so rare that no run meets them can rule both: then the runs say nothing of them.
    if found.prediction_holds:
        marks["the paper's α*, β*"] = (found.paper, "s", "#d55e00")
        marks["optimum with covariances"] = (found.optimum, "*", "#cc79a7")
    name = f"fig3-reuse-{proposals.variant}-{row}"
    places = {label: place for label, (place, *_) in marks.items()}
    studies.table(name, columns, problem, proposals, marks=places)
    known = np.where(found.determined, np.log10(np.maximum(found.remse, 1e-30)), np.nan)
    picture = panel.pcolormesh(grid, grid, known.T, cmap="viridis", shading="nearest")
    canvas.figure.colorbar(picture, ax=panel, label="log₁₀ ReMSE (white: not judged)")
    looks: dict[str, Any] = {"mec": "white", "mew": 0.6, "clip_on": False, "ls": "none"}
    # Each smaller than the one below it, which shows around it where they meet.
    for (label, (at, marker, colour)), size in zip(marks.items(), (15, 11, 9), strict=False):
        panel.plot(*np.clip(at, 0, 1), marker, color=colour, ms=size, label=label, **looks)
    ending = "" if found.prediction_holds else " (optima: not judged)"
    panel.set_title(f"sharing, {proposals.variant}{ending}")
    panel.grid(False)
