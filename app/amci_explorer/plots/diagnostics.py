r"""Whether an estimate can be trusted: each term's weights, their tail, the running estimate."""

from __future__ import annotations

__all__ = ["STYLES", "diagnostics", "running_estimate", "weights_against_x", "weights_histogram"]

import math
from typing import Any

import holoviews as hv
import numpy as np

from amci_core.estimators.draws import Array
from amci_core.flows import Proposals
from amci_core.models import Problem
from amci_explorer.colours import ESTIMATORS, SHAPES
from amci_explorer.numbers.diagnosis import Diagnosis, TermWeights, diagnosis
from amci_explorer.plots.style import axis, draws_ticks, frame, short_ticks
from amci_explorer.text import terms

STYLES = {"E1_plus": SHAPES["q1"], "E1_minus": SHAPES["q1_minus"], "E2": SHAPES["q2"]}
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
    coordinate: int = 0,
    seed: int = 0,
    dark: bool = False,
) -> hv.Layout:
    """The weights of each term as a histogram and against x, and AMCI's running estimate.

    Arguments:
        problem: The problem.
        proposals: Proposals for it.
        y: A single observation, (D_y,), or a number.
        theta: A single parameter of f, (D_theta,), or a number.
        draws: Draws from each proposal, at least 1,000.
        coordinate: Which coordinate of x the weights are shown against, from 0.
        seed: Whole number >= 0.
        dark: Whether the page is dark.

    Returns:
        A HoloViews layout, two pictures a term.

    Example:
        >>> import amci_core as amci
        >>> problem = amci.problem("tail-1d")
        >>> len(diagnostics(problem, amci.load_proposals(problem), 1.0, 3.0))
        5
    """
    checked = problem.check(y, theta)
    found = diagnosis(problem, proposals, y=checked[0], theta=checked[1], draws=draws, seed=seed)
    signed = any(term.name == "E1_minus" for term in found.terms)
    called = [(term, terms(signed=signed)[term.name]) for term in found.terms]
    parts = [weights_histogram(*each, dark=dark) for each in called]
    parts += [weights_against_x(*each, coordinate, dark=dark) for each in called]
    parts.append(running_estimate(found, dark=dark))
    return hv.Layout(parts).cols(len(found.terms)).opts(shared_axes=False)


def weights_histogram(
    term: TermWeights, called: str, *, height: int = 230, dark: bool = False
) -> hv.Overlay:
    """The weights of a term in powers of ten of their mean, with the fitted Pareto tail if any.

    Its axis has what the term is `called`.
    """
    x = axis("weight", f"log₁₀ weight of {called} / mean")
    left, right = term.edges[:-1], term.edges[1:]
    least = np.full(len(left), LEAST_HEIGHT / 100)
    bars = hv.Rectangles(
        (left, least, right, term.heights), [x, "least", "to", "draws"], label="weights"
    )
    tail = hv.Curve(
        (term.tail, np.maximum(term.tail_heights, 1e-3)), x, "draws", label="fitted Pareto tail"
    )
    has_tail = bool((term.tail_heights > LEAST_HEIGHT).any())
    width = term.edges[-1] - term.edges[0]
    tips = [("weights", "10^@weight{0.00} to 10^@to{0.00}"), ("draws", "@draws")]
    return hv.Overlay(
        [
            bars.opts(
                color=STYLES[term.name].colour(dark),
                alpha=0.55,
                line_alpha=0,
                tools=["hover"],
                hover_tooltips=tips,
            ),
            *([tail.opts(color=SHAPES["threshold"].colour(dark), line_width=2.5)] * has_tail),
        ]
    ).opts(
        hv.opts.Overlay(
            logy=True,
            xlim=(term.edges[0] - 0.03 * width, term.edges[-1] + 0.15 * width),
            ylim=(LEAST_HEIGHT, 2 * max(float(term.heights.max()), 1.0)),
            ylabel="draws",
            xformatter=short_ticks(),
            xticks=4,
            legend_cols=2,
            **frame(height),
        )
    )


def weights_against_x(
    term: TermWeights,
    called: str,
    coordinate: int = 0,
    *,
    label: str = "x",
    height: int = 230,
    dark: bool = False,
) -> hv.Points:
    """The weights of a term, which is `called` so, against a coordinate of x, from 0."""
    x, weight = term.x[:, coordinate], term.log_weights
    inside = weight >= term.edges[0] - 1e-12
    x, weight = x[inside], weight[inside]
    width = term.edges[-1] - term.edges[0]
    return hv.Points(
        (x, weight),
        [axis("x", label), axis("weight", f"log₁₀ weight of {called} / mean")],
        label=term.name,
    ).opts(
        color=STYLES[term.name].colour(dark),
        size=4,
        alpha=0.45,
        line_alpha=0,
        tools=["hover"],
        hover_tooltips=[("x", "@x{0.000}"), ("weight / mean", "10^@weight{0.000}")],
        xlim=_ends(x),
        ylim=(term.edges[0] - 0.05 * width, term.edges[-1] + 0.05 * width),
        xformatter=short_ticks(),
        yformatter=short_ticks(),
        xticks=4,
        **frame(height),
    )


def running_estimate(found: Diagnosis, *, height: int = 280, dark: bool = False) -> hv.Overlay:
    """AMCI's estimate along the draws with its 95 % interval, and with control variates.

    It is shown relative to the truth, or to the final estimate if that is not known.
    """
    along = found.along
    known = not math.isnan(found.mu.value)
    aim = found.mu.value if known else found.estimate
    unit, words = (abs(aim) / 100, "in % of") if aim else (1.0, "in units of f")
    value, control, low, high = (
        (each - aim) / unit for each in (along.value, along.control, along.low, along.high)
    )
    late = along.draws >= SHOWN_FROM * found.draws
    late |= ~late.any()
    wide = np.abs(np.concatenate([low[late], high[late], value[late]]))
    wide = wide[np.isfinite(wide)]
    half = 1.2 * float(wide.max()) if len(wide) and wide.max() > 0 else 1.0
    low, high = (np.clip(end, -1e3 * half, 1e3 * half) for end in (low, high))
    of, name = ("μ", found.mu.name) if known else ("the latter", "final estimate")
    words += f" {of}" if aim else ""
    x, amci, other = axis("draws", "draws per proposal"), ESTIMATORS["amci"], ESTIMATORS["amci-cv"]
    columns = {"draws": along.draws, "value": value, "low": low, "high": high}
    columns["control"] = control
    tips = [
        ("draws", "@draws{0,0}"),
        (amci.label, "@value{0.00e+0}"),
        (other.short, "@control{0.00e+0}"),
        ("interval", "@low{0.00e+0} to @high{0.00e+0}"),
    ]
    band = hv.Area(columns, x, ["low", "high"], label="95 % interval")
    line = hv.Curve(columns, x, ["value", "control", "low", "high"], label=amci.label)
    dashed = hv.Curve(columns, x, "control", label=other.short)
    aimed = hv.HLine(0).opts(
        color=SHAPES["threshold"].colour(dark), line_width=1.5, line_dash="dashed"
    )
    return hv.Overlay(
        [
            band.opts(color=amci.colour(dark), alpha=0.2, line_alpha=0),
            aimed,
            line.opts(
                color=amci.colour(dark),
                line_width=2.5,
                tools=["hover"],
                hover_tooltips=tips,
                hover_mode="vline",
            ),
            dashed.opts(color=other.colour(dark), line_width=2.5, line_dash="dashed"),
        ]
    ).opts(
        hv.opts.Overlay(
            logx=True,
            xformatter=draws_ticks(),
            xlim=(4, found.draws * 1.1),
            ylim=(-half, half),
            ylabel=f"estimate − {name}, {words}",
            legend_cols=3,
            show_grid=True,
            **frame(height),
        )
    )


def _ends(x: Array) -> tuple[float, float]:
    if len(x) == 0:
        return -1.0, 1.0
    low, high = float(x.min()), float(x.max())
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin
