r"""What sharing draws between q1 and q2 does: a map over (alpha, beta), and a cut through it."""

from __future__ import annotations

__all__ = ["ReuseView", "why_not_reuse"]

import math
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import panel_material_ui as pmui
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    LogColorMapper,
    LogTicker,
    Range1d,
    Span,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from amci_core.errors import ReuseErrors
from app.colours import ESTIMATORS, SHAPES
from app.session import answer
from app.store import REUSE_GRID, Store
from app.summary import number
from app.views.figures import Painter, add_hover, add_legend, describe, pane, picture, set_range
from app.views.inputs import STILL, slider
from app.views.layout import HTML, card, column, side_by_side

FLOOR, CEILING = 1e-18, 1e6
# Cells whose runs do not settle the error.
UNSETTLED = "#8d8d8d"
# The map's darkest colour: ten times off. What is worse need not be told apart.
WORST = 1e2
ALPHAS = np.linspace(0, 1, 101)
TEXT = """
p { margin: 6px 0 0 0; font-size: 0.9rem; line-height: 1.5; min-height: 4.5em; max-width: 90ch; }
"""
SPLIT = "N : M, draws of q₁ and q₂, per cent"
LEAST_SHARE, SHARE_STEP = 0.01, 0.01
IN_PER_CENT = "const n = Math.round(100 * tick); return `${n} : ${100 - n}`"
# Whose best split is marked, and on which side of the slider's track.
MARKED = {"AMCI": "above", "u*": "below"}
CORNERS = {"x": [1.0, 0.0, 1.0], "y": [0.0, 0.0, 1.0], "text": ["AMCI", "SNIS q₂", "SNIS q₁"]}


class ReuseView:
    """Creates both pictures and the sliders of alpha and beta, empty; `show` fills them.

    Arguments:
        again: Called when draws are asked for in another way: split or correlated.
    """

    def __init__(self, again: Callable[[], Any]) -> None:
        self._painter = Painter()
        self._latest: ReuseErrors | None = None
        self._at = (1.0, 0.0)
        self.image = ColumnDataSource({"remse": [], "shown": []}, name="reuse-image")
        marks: dict[str, list[float]] = {"alpha": [], "beta": []}
        self.marks = {
            name: ColumnDataSource(dict(marks), name=f"reuse-{name}")
            for name in ("best", "paper", "optimum", "current")
        }
        self.cut = ColumnDataSource(
            {name: [] for name in ("alpha", "low", "median", "high", "mean")}, name="reuse-cut"
        )
        self._mapper = LogColorMapper(
            palette=Cividis256[::-1], low=1e-6, high=1, nan_color=UNSETTLED
        )
        self._here = Span(location=1.0, dimension="height", line_width=1.5, line_dash=[4, 4])
        self.map = self._map()
        self.curve = self._curve()
        low, high = float(REUSE_GRID[0]), float(REUSE_GRID[-1])
        self.alpha = slider("α: share of E₁ from q₁", value=1, start=low, end=high, step=0.01)
        self.beta = slider("β: share of E₂ from q₁", value=0, start=low, end=high, step=0.01)
        ends = (LEAST_SHARE, 1 - LEAST_SHARE)
        self.share = slider(SPLIT, value=0.5, start=ends[0], end=ends[1], step=SHARE_STEP)
        self.share.format = CustomJSTickFormatter(code=IN_PER_CENT)
        self.share.param.update(sx=STILL | _places({}), margin=(10, 0, 2, 0))
        self._best: dict[str, float] = {}
        self.take = {name: self._button(name) for name in MARKED}
        self.common = pmui.Switch(
            label="common random numbers",
            value=False,
            description="Both proposals transport the same random numbers, as many draws each.",
            margin=(2, 0),
        )
        self._split = HTML("<p></p>", TEXT)
        self._again = again
        self.share.param.watch(answer(lambda _: again()), "value_throttled")
        self.common.param.watch(answer(self._correlate), "value")
        self._text = HTML("<p></p>", TEXT)
        self.panel = card(
            "Sample reuse",
            side_by_side(pane(self.map), pane(self.curve), least=340),
            side_by_side(self.alpha, self.beta, least=340),
            self._text,
            side_by_side(
                self.share,
                column(self.common, side_by_side(*self.take.values(), least=200, gap=8), gap=8),
                least=340,
            ),
            self._split,
            help_text=(
                "Draws of q₁ may also serve E₂, and draws of q₂ serve E₁. α is the share of E₁, "
                "β the share of E₂ that comes from q₁: (1, 0) is AMCI, (0, 0) is SNIS with q₂, "
                "(1, 1) is SNIS with q₁. Shares below 0 or above 1 are allowed: they remove "
                "noise that the two terms have in common. The curve is the cut through the map "
                "at your β; at β = 0 it is the third column of the paper's figure. The paper's "
                "(α*, β*) take E₁ and E₂ for uncorrelated; u* is the optimum by their full "
                "covariance. What is predicted comes from the covariances of f w and w alone, to "
                "first order in 1/N. Grey cells are not settled by these runs: a few of many more "
                "would decide the error there, as the draws of both proposals and of a broad "
                "reference show. With common random numbers the errors of E₁ and E₂ go "
                "together: that helps AMCI, whose ratio loses them, and takes away what sharing "
                "lives off."
            ),
        )

    def open(self) -> None:
        """Makes ready for a problem."""
        self._latest = None
        self.forget()
        for source in (self.image, *self.marks.values(), self.cut):
            source.data = {name: [] for name in source.data}
        self._text.object = "<p></p>"

    def forget(self) -> None:
        """Takes away what holds for another case: its best splits."""
        self._split.object = "<p></p>"
        self._mark_splits({})

    def show(self, found: ReuseErrors) -> None:
        """Draws the map and its cut over the runs so far."""
        self._latest = found
        remse = np.clip(found.remse, FLOOR, CEILING)
        shown = np.where(found.judged, remse, np.nan)
        if np.isfinite(shown).any():
            low, high = float(np.nanmin(shown)), min(float(np.nanmax(shown)), WORST)
            self._mapper.update(low=low, high=max(high, 10 * low))
        # Rows of an image go up the y axis: beta.
        self.image.data = {"remse": [remse.T], "shown": [shown.T]}
        best = [] if found.best is None else [found.best]
        self.marks["best"].data = {"alpha": [a for a, _ in best], "beta": [b for _, b in best]}
        for name, at in (("paper", found.paper), ("optimum", found.optimum)):
            alpha, beta = np.clip(at, REUSE_GRID[0], REUSE_GRID[-1])
            settled = bool(found.mean_along([at[0]], beta=at[1])[1][0])
            self.marks[name].data = {"alpha": [alpha][:settled], "beta": [beta][:settled]}
        self.move(*self._at)
        self._show_cut(found, self._at[1])

    def move(self, alpha: float, beta: float) -> None:
        """Moves the user's mark, and says what the error is there."""
        cut_moves, self._at = beta != self._at[1], (alpha, beta)
        self.marks["current"].data = {"alpha": [alpha], "beta": [beta]}
        self._here.location = alpha
        if self._latest is not None:
            self._text.object = f"<p>{_sentence(self._latest, alpha, beta)}</p>"
            if cut_moves:
                self._show_cut(self._latest, beta)

    def _show_cut(self, found: ReuseErrors, beta: float) -> None:
        low, median, high = np.clip(found.quartiles_along(ALPHAS, beta=beta), FLOOR, CEILING)
        mean, settled = found.mean_along(ALPHAS, beta=beta)
        mean = np.clip(np.where(settled, mean, np.nan), FLOOR, CEILING)
        self.cut.data = {"alpha": ALPHAS, "low": low, "median": median, "high": high, "mean": mean}
        values = np.concatenate([low, high, mean])
        values = values[np.isfinite(values)]
        if values.size:
            ends = np.log10([values.min(), values.max()])
            set_range(self.curve.y_range, 10 ** np.floor(ends[0]), 10 ** np.ceil(ends[1]))
        self.curve.xaxis.axis_label = f"α, at β = {beta:.2f}"

    def describe(self, found: ReuseErrors) -> None:
        """Renews the text alternatives, when the map is complete."""
        about = f"Relative error over alpha and beta, {_counted(found)}."
        describe(self.map, f"{about} {_least(found)[0]}")
        self._mark_splits(_best_splits(found))
        self._split.object = f"<p>{_about_split(found)}</p>"

    def complain(self, message: str) -> None:
        """Says in the card why there is nothing to show."""
        self._text.object = f'<p role="alert">{escape(message)}</p>'

    def _correlate(self, event: Any) -> None:
        # A pair of draws needs one of each.
        self.share.param.update(disabled=event.new, **({"value": 0.5} if event.new else {}))
        self._again()

    def _button(self, name: str) -> pmui.Button:
        """A button that gives q1 its best share of the draws."""
        button = pmui.Button(
            label=f"Use the best split for {name}",
            size="small",
            variant="outlined",
            disabled=True,
            sizing_mode="stretch_width",
            margin=0,
        )
        button.on_click(answer(lambda _: self._split_at(self._best[name])))
        return button

    def _split_at(self, share: float) -> None:
        self.share.value = share
        self._again()

    def _mark_splits(self, best: dict[str, float]) -> None:
        """Marks the best splits on the slider, and offers to go there."""
        self._best = best
        marks = [
            {"value": share, "label": f"best for {name}, {_in_per_cent(share)}"}
            for name, share in best.items()
        ]
        self.share.param.update(marks=marks or False, sx=STILL | _places(best))
        for name, button in self.take.items():
            button.disabled = name not in best

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme."""
        self._painter.paint(dark)

    def _map(self) -> figure:
        low, high = float(REUSE_GRID[0]), float(REUSE_GRID[-1])
        step = float(REUSE_GRID[1] - REUSE_GRID[0])
        shown = picture(
            "reuse-map",
            alternative="Relative error over alpha and beta.",
            x_label="α: share of E₁ from q₁",
            y_label="β: share of E₂ from q₁",
            height=360,
            x_range=Range1d(low - step / 2, high + step / 2),
            y_range=Range1d(low - step / 2, high + step / 2),
        )
        extent = high - low + step
        image = shown.image(
            "shown",
            x=low - step / 2,
            y=low - step / 2,
            dw=extent,
            dh=extent,
            source=self.image,
            color_mapper=self._mapper,
        )
        add_hover(shown, image, [("α, β", "$x{0.00}, $y{0.00}"), ("ReMSE", "@remse{0.00e+0}")])
        shown.grid.visible = False
        shown.text(
            "x",
            "y",
            "text",
            source=ColumnDataSource(CORNERS),
            y_offset=-12,
            text_align="center",
            text_font_size="12px",
            text_color="white",
            background_fill_color="black",
            background_fill_alpha=0.5,
            padding=3,
            border_radius=3,
        )
        best = self._mark(shown, "best", "star", 17)
        paper = self._mark(shown, "paper", "diamond", 13)
        optimum = self._mark(shown, "optimum", "square", 11)
        current = self._mark(shown, "current", "circle", 13)
        current.glyph.update(fill_alpha=0, line_width=3)
        unsettled = shown.scatter(
            [math.nan], [math.nan], marker="square", size=11, color=UNSETTLED
        )
        items = [
            ("least error", [self._symbol(shown, best)]),
            ("α*, β* of the paper", [self._symbol(shown, paper)]),
            ("u*, the optimum", [self._symbol(shown, optimum)]),
            ("yours", [current]),
            ("not settled by the runs", [unsettled]),
        ]
        add_legend(shown, items)
        bar = ColorBar(
            color_mapper=self._mapper,
            ticker=LogTicker(desired_num_ticks=6),
            width=12,
            padding=4,
        )
        shown.add_layout(bar, "right")
        return shown

    def _symbol(self, shown: figure, mark: Any) -> Any:
        """The mark as the legend has it, without the outline that the map asks for."""
        # Of no point at all a legend shows nothing.
        nowhere = [math.nan]
        symbol = shown.scatter(nowhere, nowhere, marker=mark.glyph.marker, line_alpha=0)
        self._painter.follow(symbol.glyph, SHAPES["threshold"], "fill_color")
        return symbol

    def _mark(self, shown: figure, name: str, marker: str, size: int) -> Any:
        return shown.scatter(
            "alpha",
            "beta",
            source=self.marks[name],
            marker=marker,
            size=size,
            fill_color="#ffffff",
            line_color="#000000" if name != "current" else "#e8000b",
            line_width=1.5,
        )

    def _curve(self) -> figure:
        shown = picture(
            "reuse-cut",
            alternative="Relative error along alpha at your beta.",
            x_label="α, at your β",
            y_label="ReMSE: squared error / μ²",
            height=360,
            y_axis_type="log",
            x_range=Range1d(-0.02, 1.02),
            y_range=Range1d(1e-6, 1),
        )
        style = ESTIMATORS["amci"]
        band = shown.varea("alpha", "low", "high", source=self.cut, fill_alpha=0.2)
        line = shown.line("alpha", "median", source=self.cut, line_width=2.5)
        mean = shown.line("alpha", "mean", source=self.cut, line_width=1.5, line_dash=[2, 3])
        self._painter.follow(band.glyph, style, "fill_color")
        self._painter.follow(line.glyph, style, "line_color")
        self._painter.follow(mean.glyph, style, "line_color")
        shown.add_layout(self._painter.follow(self._here, SHAPES["threshold"], "line_color"))
        tips = [("α", "@alpha{0.00}"), ("median", "@median{0.00e+0}"), ("mean", "@mean{0.00e+0}")]
        add_hover(shown, line, tips, mode="vline")
        items = [("median", [line]), ("25–75 %", [band]), ("mean", [mean])]
        add_legend(shown, items)
        return shown


def why_not_reuse(store: Store) -> str:
    """Why there is nothing to share for a problem, in a sentence; empty where there is."""
    if store.shares_samples:
        return ""
    why = (
        "E₂ is known and has no draws of its own"
        if store.problem.nonnegative
        else "f takes both signs, and each has a proposal of its own"
    )
    return f"There is no sample reuse for this problem: {why}."


def _sentence(found: ReuseErrors, alpha: float, beta: float) -> str:
    if np.isnan(found.truth_error):
        return "μ is 0 here, so that there is no relative error."

    def error(a: float, b: float) -> str:
        (mean,), (settled,) = found.mean_along([a], beta=b)
        return number(mean, 2) + ("" if settled else " (not settled by the runs)")

    def both(at: tuple[float, float]) -> str:
        there = f"({at[0]:.3f}, {at[1]:.3f}): {error(*at)}"
        predicted = number(found.predicted(*at), 2)
        return there if found.common else f"{there}, predicted {predicted}"

    failed = int(found.failed.max())
    return (
        f"With {_counted(found)}: at your (α, β) = ({alpha:.2f}, {beta:.2f}) the ReMSE is "
        f"<b>{error(alpha, beta)}</b>. Plain AMCI has {error(1.0, 0.0)}; {_least(found)[1]} "
        f"The paper's formula, (α*, β*) = {both(found.paper)}. "
        f"The optimum by the full covariance, u* = {both(found.optimum)}."
        + (f" Estimates failed in up to {failed:,} of {found.runs:,} runs." if failed else "")
    )


def _least(found: ReuseErrors) -> tuple[str, str]:
    """Where the map's error is least, in words for a picture and within a sentence."""
    if found.best is None:
        none = "no cell of this map has an error below 1 that the runs settle."
        return f"{none[0].upper()}{none[1:]}", none
    alpha, beta = found.best
    least = number(float(found.remse[found.judged].min()), 2)
    return (
        f"It is least at alpha {alpha:.2f}, beta {beta:.2f}, with {least}.",
        f"the least on this map is {least}, at ({alpha:.2f}, {beta:.2f}).",
    )


def _counted(found: ReuseErrors) -> str:
    n, m = found.counts
    return f"N = M = {n:,} draws" if n == m else f"N = {n:,} and M = {m:,} draws"


def _best_splits(found: ReuseErrors) -> dict[str, float]:
    """The share of the draws that q1 should get, where it can be chosen, by what combines them."""
    if found.common:
        return {}
    total = sum(found.counts)
    counts = zip(MARKED, (found.best_split_alone, found.best_split), strict=True)
    return {
        name: min(max(round(count / total, 2), LEAST_SHARE), 1 - LEAST_SHARE)
        for name, count in counts
    }


def _in_per_cent(share: float) -> str:
    of_q1 = round(100 * share)
    return f"{of_q1} : {100 - of_q1}"


def _places(best: dict[str, float]) -> dict[str, Any]:
    """Where the marks of a slider and their labels stand: a tick and its words on either side.

    A label is shifted by as much of its width as its mark is along the track, so that it stays
    within the track wherever the mark is.
    """
    places: dict[str, Any] = {
        # As much room without marks as with them: nothing below may jump when they come.
        "& .MuiSlider-root": {"marginTop": "18px", "marginBottom": "22px"},
        "& .MuiSlider-mark": {
            "width": "3px",
            "height": "14px",
            "borderRadius": "1px",
            "opacity": 1,
            "backgroundColor": "text.primary",
        },
        "& .MuiSlider-markLabel": {
            "pointerEvents": "none",
            "fontSize": "0.78rem",
            "lineHeight": 1.4,
            "color": "text.primary",
        },
    }
    for i, (name, share) in enumerate(best.items()):
        above = MARKED[name] == "above"
        along = 100 * (share - LEAST_SHARE) / (1 - 2 * LEAST_SHARE)
        places[f"& .MuiSlider-mark[data-index='{i}']"] = {
            "transform": f"translate(-50%, {'-100%' if above else '0'})"
        }
        places[f"& .MuiSlider-markLabel[data-index='{i}']"] = {
            "top": "calc(50% - 32px)" if above else "calc(50% + 15px)",
            "transform": f"translateX(-{along:.1f}%)",
        }
    return places


def _about_split(found: ReuseErrors) -> str:
    total = sum(found.counts)
    if found.common:
        return "Common random numbers come in pairs: as many draws from q₁ as from q₂."
    alone, shared = found.best_split_alone, found.best_split
    at_best = found.predicted(1.0, 0.0, counts=(alone, total - alone))
    return (
        f"Of {total:,} draws, AMCI without sharing should give q₁ {alone:,} "
        f"({100 * alone / total:.0f} %): predicted ReMSE {number(at_best, 2)}, against "
        f"{number(found.predicted(1.0, 0.0), 2)} with this split. With the optimal shares q₁ "
        f"should get {shared:,} ({100 * shared / total:.0f} %)."
    )
