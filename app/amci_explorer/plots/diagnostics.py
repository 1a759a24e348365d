r"""Whether an estimate can be trusted: each term's weights, their tail, the running estimate."""

from __future__ import annotations

__all__ = ["STYLES", "diagnostics", "running_estimate", "weights_histogram"]

import math
from typing import Any

import holoviews as hv
import numpy as np

from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.colours import ESTIMATORS, SHAPES
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.diagnosis import Diagnosis, TermWeights, diagnosis
from amci_explorer.plots.style import draws_ticks, framed, short_ticks
from amci_explorer.text import pretty

STYLES = {"E1_plus": SHAPES["q1"], "E1_minus": SHAPES["q1_minus"], "E2": SHAPES["q2"]}
# Half a draw: the lower end of a histogram's logarithmic axis.
LEAST_HEIGHT = 0.5
# The running estimate is scaled to its interval after this share of the draws.
SHOWN_FROM = 0.03


def diagnostics(
    problem: Problem,
    proposals: Proposals,
    y: Any = None,
    theta: Any = None,
    *,
    draws: int = 1000,
    seed: int = 0,
    dark: bool = False,
) -> hv.Layout:
    """The weights of each term as a histogram, and the running estimate.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: A single observation, (D_y,), or a number.
        theta: A single parameter of f, (D_theta,), or a number.
        draws: Draws from each proposal, at least 1,000.
        seed: Whole number >= 0.
        dark: Whether the page is dark.

    Returns:
        A HoloViews layout, a picture a term and one of the estimate.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> len(diagnostics(problem, amci.load_proposals(problem), 1.0, 3.0))
        3
    """
    found = diagnosis(CaseDraws(problem, proposals, y, theta, draws=draws, seed=seed))
    signed = not problem.nonnegative
    parts = [
        weights_histogram(term, pretty(term.name, signed=signed), dark=dark)
        for term in found.terms
    ]
    way = running_estimate(found, dark=dark)
    return hv.Layout([*parts, way]).cols(len(parts)).opts(shared_axes=False)


def weights_histogram(term: TermWeights, called: str, *, dark: bool = False) -> hv.Overlay:
    """The weights of a term, which is `called` so, in powers of ten of their mean.

    The fitted Pareto tail is drawn if there is one.
    """
    x = hv.Dimension("weight", label=f"log₁₀ weight of {called} / mean")
    left, right = term.edges[:-1], term.edges[1:]
    bottom = np.full(len(left), LEAST_HEIGHT / 100)
    bars = hv.Rectangles(
        (left, bottom, right, term.heights), [x, "bottom", "to", "draws"], label="weights"
    ).opts(
        color=STYLES[term.name].colour(dark),
        alpha=0.55,
        line_alpha=0,
        tools=["hover"],
        hover_tooltips=[("weights", "10^@weight{0.00} to 10^@to{0.00}"), ("draws", "@draws")],
    )
    tail = hv.Curve((term.tail, term.tail_heights), x, "draws", label="fitted Pareto tail").opts(
        color=SHAPES["threshold"].colour(dark), line_width=2.5
    )
    has_tail = bool((term.tail_heights > LEAST_HEIGHT).any())
    width = term.edges[-1] - term.edges[0]
    return framed(
        [bars, tail] if has_tail else [bars],
        230,
        logy=True,
        xlim=(term.edges[0] - 0.03 * width, term.edges[-1] + 0.15 * width),
        ylim=(LEAST_HEIGHT, 2 * max(float(term.heights.max()), 1.0)),
        ylabel="draws",
        xformatter=short_ticks(),
        xticks=4,
        legend_cols=2,
    )


def running_estimate(found: Diagnosis, *, dark: bool = False) -> hv.Overlay:
    """The estimate along the draws with its 95 % interval, and that of plain AMCI.

    It is shown relative to the truth, or to the final estimate if that is not known.
    """
    along, known = found.along, not math.isnan(found.mu.value)
    aim, name = (found.mu.value, found.mu.name) if known else (found.estimate, "final estimate")
    unit, units = (abs(aim) / 100, "in % of it") if aim else (1.0, "in units of f")
    columns = {n: (along[n] - aim) / unit for n in ("value", "low", "high", "plain")}
    late = along.draws >= SHOWN_FROM * found.draws
    # A wide interval on the way leaves the picture; the last one is in it.
    last = [columns[n][-1:] for n in ("low", "high")]
    ends = np.abs(np.concatenate([columns["value"][late], *last]))
    half = 1.2 * float(np.max(ends, initial=0.0, where=np.isfinite(ends))) or 1.0
    columns |= {n: np.clip(columns[n], -1e3 * half, 1e3 * half) for n in ("low", "high")}
    columns["draws"] = along.draws
    x = hv.Dimension("draws", label="draws per proposal")
    amci, plain = ESTIMATORS["amci-cv"], ESTIMATORS["amci"]
    tips = [
        ("draws", "@draws{0,0}"),
        (amci.label, "@value{0.00e+0}"),
        (plain.label, "@plain{0.00e+0}"),
        ("interval", "@low{0.00e+0} to @high{0.00e+0}"),
    ]
    band = hv.Area(columns, x, ["low", "high"], label="95 % interval")
    line = hv.Curve(columns, x, ["value", "plain", "low", "high"], label=amci.label)
    dashed = hv.Curve(columns, x, "plain", label=plain.label)
    colour, looks = amci.colour(dark), {"line_width": 2.5}
    hover = {"tools": ["hover"], "hover_tooltips": tips, "hover_mode": "vline"}
    parts = [
        band.opts(color=colour, alpha=0.2, line_alpha=0),
        hv.HLine(0).opts(color=SHAPES["threshold"].colour(dark), line_width=1.5),
        line.opts(color=colour, **looks, **hover),
        dashed.opts(color=plain.colour(dark), line_dash="dashed", **looks),
    ]
    return framed(
        parts,
        280,
        logx=True,
        xformatter=draws_ticks(),
        xlim=(4, found.draws * 1.1),
        ylim=(-half, half),
        ylabel=f"estimate − {name}, {units}",
        legend_cols=2,
        show_grid=True,
    )
