r"""The kinds of stored pictures, each by the name of the part that shows the same live."""

from __future__ import annotations

__all__ = ["KINDS"]

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

import amci_core as amci
from amci_explorer.numbers.case import shown_estimators
from amci_explorer.numbers.pictures import densities as densities_of
from amci_explorer.plots.colours import ESTIMATORS, SHAPES
from amci_explorer.problems.presets import variable_labels
from amci_explorer.static.drawn import densities
from amci_explorer.static.pictures import Case, Picture, legend, line_of
from amci_explorer.text import effective, number, terms
from amci_explorer.words.curves import CEILING, FLOOR, about_curves, outside
from amci_explorer.words.plane import about_map
from amci_explorer.words.reuse import about_map as about_reuse

BUDGETS, RUNS = (10, 30, 100, 300, 1000), 200
# Points along the axes of a map, and draws at each.
SHARES, CASES, DRAWS = 33, 25, 128
REUSE_DRAWS, WEIGHTS = 64, 1000
# The least error is the brightest, as in the pictures that are served.
COLOURS = "cividis_r"


def errors(case: Case) -> Picture:
    """Errors of all estimators against total draws."""
    shown = shown_estimators(*case.given)
    found = amci.error_curves(
        *case.given, *case.pair, budgets=BUDGETS, runs=RUNS, estimators=shown
    )

    def draw(panel: Axes, dark: bool) -> None:
        for name, curve in found.by_name.items():
            style = ESTIMATORS[name]
            low, median, high = np.clip(curve.remse_quartiles, FLOOR, CEILING)
            panel.plot(found.budgets, median, **line_of(style, dark))
            panel.fill_between(
                found.budgets, low, high, color=style.colour(dark), alpha=0.13, lw=0
            )
        panel.set(xscale="log", yscale="log", xlabel="total draws T")
        panel.set_ylabel("relative squared error")
        legend(panel)

    words = f"{about_curves(found)} {outside(found, complete=True)}"
    return Picture(draw, words.strip(), f"Error against draws. {case}")


def reuse(case: Case) -> Picture:
    """The error over (alpha, beta)."""
    shares = np.linspace(0, 1, SHARES)
    grid: dict[str, Any] = {"alphas": shares.tolist(), "betas": shares.tolist()}
    found = amci.reuse_errors(*case.given, *case.pair, **grid, draws=REUSE_DRAWS, runs=RUNS)

    def draw(panel: Axes, dark: bool) -> None:
        del dark
        values = np.log10(np.maximum(found.remse, 1e-30)).T
        _coloured(panel, shares, shares, values, "log₁₀ relative squared error")
        look: dict[str, Any] = {"mec": "white", "mew": 1.0, "clip_on": False, "ls": "none"}
        panel.plot(1, 0, "o", ms=13, color=ESTIMATORS["amci"].light, label="AMCI", **look)
        panel.plot(
            *case.shares, "X", ms=9, color=ESTIMATORS["snis-q2"].light, label="chosen", **look
        )
        panel.set(xlabel="α: share of E₁ from q₁", ylabel="β: share of E₂ from q₁")
        legend(panel)

    return Picture(draw, about_reuse(found), f"Sample reuse. {case}")


def amortization(case: Case) -> Picture:
    """The quality of the proposals over a plane of (y, theta)."""
    problem, proposals = case.given
    y, theta = case.pair
    found = amci.amortization_map(problem, proposals, y=y, theta=theta, size=CASES, draws=DRAWS)
    labels = {
        v.name: variable_labels(problem, v)[0] for v in (problem.y, problem.theta) if v is not None
    }

    def draw(panel: Axes, dark: bool) -> None:
        del dark
        values = np.maximum(found.log_variance, -30)
        _coloured(panel, found.x.values, found.y.values, values, "log₁₀ variance of one draw")
        panel.set_xlabel(labels.get(found.x.name, found.x.name))
        panel.set_ylabel(labels.get(found.y.name, found.y.name))

    return Picture(draw, about_map(found, labels), f"Amortization map. {problem.title}")


def training(case: Case) -> Picture:
    """How q1 grew towards g; where x is not on the line, the errors at the end."""
    problem, _ = case.given
    if problem.x.dim > 1:
        return errors(case)
    frames = amci.load_history(case.problem)
    found: list[Any] = [densities_of(problem, f.proposals, *case.pair) for f in frames]

    def draw(panel: Axes, dark: bool) -> None:
        last, g, q1 = found[-1], SHAPES["target"], SHAPES["q1"]
        panel.fill_between(
            last.x, last.target, color=g.colour(dark), alpha=0.35, lw=0, label=g.label
        )
        for rank, each in enumerate(found):
            label = {0: "q₁ at the start", len(found) - 1: "q₁ at the end"}.get(rank)
            shade = 0.25 + 0.75 * rank / max(len(found) - 1, 1)
            panel.plot(each.x, each.q1, color=q1.colour(dark), alpha=shade, label=label)
        low, high = last.region
        room = 0.4 * (high - low)
        panel.set(xlabel="x", ylabel="density", xlim=(low - room, high + room))
        panel.set_ylim(0, 1.6 * float(last.target.max()))
        legend(panel)

    start, end = (number(each.divergence, 2) for each in (found[0], found[-1]))
    words = f"The divergence of q1 from g falls from {start} to {end} nats during training."
    return Picture(draw, words, f"Training of q₁. {case}")


def diagnostics(case: Case) -> Picture:
    """The weights of every term, largest first, and the verdict."""
    found = amci.estimate(*case.given, *case.pair, draws=2 * WEIGHTS, estimator="amci")
    names = terms(signed=not case.given[0].nonnegative)
    styles = {"E1_plus": "snis-q1", "E1_minus": "q1_minus", "E2": "snis-q2"}

    def draw(panel: Axes, dark: bool) -> None:
        highest = 1.0
        for term, seen in found.diagnostics.items():
            style = {**ESTIMATORS, **SHAPES}[styles[term]]
            shares = np.sort(seen.weights)[::-1] * seen.draws
            ranks = np.arange(1, len(shares) + 1)
            panel.plot(ranks, shares, **line_of(style, dark) | {"label": names[term]})
            highest = max(highest, shares[0])
        panel.set(xscale="log", xlabel="rank of the draw", ylabel="weight / mean weight")
        panel.set_ylim(0, 1.15 * highest)
        legend(panel)

    words = "; ".join(
        f"ESS of {names[term]}: {effective(float(seen.smallest_ess))} of {seen.draws} draws"
        for term, seen in found.diagnostics.items()
    )
    return Picture(draw, f"{words}. {found.verdict.text}", f"Weights of one run. {case}")


def _coloured(panel: Axes, x: Any, y: Any, values: Any, label: str) -> None:
    mesh = panel.pcolormesh(x, y, values, cmap=COLOURS, shading="nearest", rasterized=True)
    panel.figure.colorbar(mesh, ax=panel, label=label)
    panel.grid(visible=False)


KINDS: Mapping[str, Callable[[Case], Picture]] = {
    "errors": errors,
    "densities": densities,
    "own-f": densities,
    "evaluation": errors,
    "reuse": reuse,
    "map": amortization,
    "train": training,
    "film": training,
    "diagnostics": diagnostics,
    "play": diagnostics,
}
