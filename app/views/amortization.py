r"""Where amortization works: the quality of the proposals over a plane of (y, theta)."""

from __future__ import annotations

__all__ = ["AmortizationView"]

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel_material_ui as pmui
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    HoverTool,
    LinearColorMapper,
    Range1d,
)
from bokeh.palettes import Cividis256, interp_palette
from bokeh.plotting import figure

from amci_core.amortization import AmortizationMap
from amci_core.estimators.draws import Array
from app.colours import ESTIMATORS
from app.session import answer
from app.summary import number
from app.views.figures import add_legend, describe, pane, picture, set_range
from app.views.inputs import progress, select
from app.views.layout import HTML, card, column, hide, row, side_by_side

NAMES = {"E1_plus": "E₁", "E1_minus": "E₁⁻", "E2": "E₂"}
# What lies beyond is drawn in the last colour; hover and file give it all the same.
LOWEST, HIGHEST = -12.0, 4.0
RATIO = 8.0
GREY = "#9a9a9a"
WON = tuple(
    interp_palette([ESTIMATORS["snis-q2"].light, "#f2f2f2", ESTIMATORS["amci"].light], 255)
)
STATUS = "p { margin: 0; font-size: 0.85rem; font-variant-numeric: tabular-nums; }"
TEXT = """
p { margin: 6px 0 0 0; font-size: 0.9rem; line-height: 1.5; min-height: 3em; max-width: 90ch; }
"""


@dataclass(frozen=True)
class Layer:
    """One quantity that the map can show.

    Arguments:
        label: Its name in the list.
        title: Its name at the colour bar.
        values: Takes it from a map, (m, n).
        logarithmic: Whether colours follow its logarithm.
        ends: What the first and the last colour stand for, at most.
        palette: Its colours.
        fixed: Whether the colours always span all of `ends`.
    """

    label: str
    title: str
    values: Callable[[AmortizationMap], Array]
    logarithmic: bool
    ends: tuple[float, float]
    palette: tuple[str, ...]
    fixed: bool = True

    def shown(self, found: AmortizationMap) -> Array:
        """What is coloured: the values or their logarithms, within the ends."""
        values = self.values(found)
        if self.logarithmic:
            with np.errstate(divide="ignore"):
                values = np.log10(values)
        return np.clip(values, *self.ends)


class AmortizationView:
    """Creates the map with its progress, empty; `show` fills it.

    Arguments:
        click: Called with a point of the plane that was clicked on.
        turn: Called when another plane was chosen.
        press: Called when the button is pressed that cancels, or runs again.
    """

    def __init__(
        self,
        *,
        click: Callable[[float, float], None],
        turn: Callable[[Any], None],
        press: Callable[[Any], None],
    ) -> None:
        self._latest: AmortizationMap | None = None
        self._started = 0.0
        self._at, self._inside = (0.0, 0.0), True
        self._layers = _layers(("E1_plus", "E2"))
        self._axes: dict[str, str] = {}
        self.along = ("y", "theta")
        self._turn = turn
        self._opening = False
        image: dict[str, list[Any]] = {
            name: [] for name in ("shown", "value", "x", "y", "dw", "dh")
        }
        self.image = ColumnDataSource(image, name="amortization-image")
        self.current = ColumnDataSource({"x": [], "y": []}, name="amortization-current")
        self._mapper = LinearColorMapper(
            palette=Cividis256, low=0, high=1, nan_color=GREY, name="amortization-colours"
        )
        self._bar = ColorBar(
            color_mapper=self._mapper, ticker=BasicTicker(desired_num_ticks=6), width=12, padding=4
        )
        self.map = self._map(click)
        self.layer = select(
            "Shown", {layer.label: name for name, layer in self._layers.items()}, margin=(6, 0)
        )
        self.across, self.upwards = (
            select(label, {}, margin=(6, 0)) for label in ("Across", "Upwards")
        )
        self.layer.param.watch(answer(lambda _: self._draw()), "value")
        for axis in (self.across, self.upwards):
            axis.param.watch(answer(self._chose), "value")
        self._planes = side_by_side(self.across, self.upwards, least=240)
        self.progress = progress()
        self.status = HTML("<p></p>", STATUS, styles={"flex": "1 1 auto"})
        self.button = pmui.Button(label="Cancel", size="small", variant="outlined", margin=0)
        self.button.on_click(press)
        self._text = HTML("<p></p>", TEXT)
        self.panel = card(
            "Amortization map",
            column(self.layer, self._planes, gap=4),
            pane(self.map),
            self._text,
            self.progress,
            row(self.status, self.button),
            help_text=HELP,
        )

    def open(self, terms: tuple[str, ...], axes: dict[str, str], along: tuple[str, str]) -> None:
        """Makes ready for a problem.

        Arguments:
            terms: The terms that have proposals.
            axes: The axes a plane can have: label and name.
            along: The names of those that are looked at first.
        """
        self._latest = None
        self._axes = {name: label for label, name in axes.items()}
        self._layers = _layers(terms)
        self._opening = True
        options = {layer.label: name for name, layer in self._layers.items()}
        kept = self.layer.value if self.layer.value in self._layers else "variance"
        self.layer.param.update(options=options, value=kept)
        self._set_axes(along)
        self._opening = False
        hide(self._planes, len(axes) <= 2)
        self._clear()

    def mark(self, across: float, upwards: float, *, inside: bool) -> None:
        """Moves the mark of the case that is looked at, and says what the map has there."""
        self._at, self._inside = (across, upwards), inside
        self.current.data = {"x": [across], "y": [upwards]}
        self._say()

    def begin(self) -> None:
        """A computation has started."""
        self._started = time.monotonic()
        self.progress.value = 0
        self.status.object = "<p>starting</p>"
        self.button.param.update(label="Cancel", disabled=False)

    def show(self, found: AmortizationMap) -> None:
        """Draws the map so far, and says how far that is."""
        self._latest = found
        share = found.cases / found.done.size
        left = (time.monotonic() - self._started) * (1 / share - 1)
        self.progress.value = round(100 * share)
        self.status.object = (
            f"<p>{found.cases:,} of {found.done.size:,} cases, {left:.0f} s left</p>"
        )
        self._draw()

    def stop(self) -> None:
        """The computation was called off."""
        after = f" after {self._latest.cases:,} cases" if self._latest else ""
        self.status.object = f"<p>cancelled{after}</p>"
        self.button.param.update(label="Run again", disabled=False)

    def end(self) -> None:
        """The computation is over."""
        self.button.disabled = True
        if self._latest is not None:
            seconds = time.monotonic() - self._started
            self.status.object = f"<p>{self._latest.cases:,} cases in {seconds:.1f} s</p>"
            self._describe(self._latest)

    def recolour(self, dark: bool) -> None:
        """Draws everything for a page of that theme: the map's own colours serve both."""

    def _map(self, click: Callable[[float, float], None]) -> figure:
        shown = picture(
            "amortization-map",
            alternative="Quality of the proposals over y and theta.",
            x_label="",
            y_label="",
            height=440,
            x_range=Range1d(0, 1),
            y_range=Range1d(0, 1),
        )
        image = shown.image(
            "shown", "x", "y", "dw", "dh", source=self.image, color_mapper=self._mapper
        )
        shown.add_tools(
            HoverTool(
                renderers=[image],
                tooltips=[("at", "$x{0.00}, $y{0.00}"), ("value", "@value{%.3g}")],
                formatters={"@value": "printf"},
                visible=False,
            )
        )
        shown.grid.visible = False
        current = shown.scatter(
            "x",
            "y",
            source=self.current,
            marker="circle",
            size=14,
            fill_alpha=0,
            line_color="#e8000b",
            line_width=3,
        )
        add_legend(shown, [("your case: click to move it", [current])], ncols=1)
        shown.add_layout(self._bar, "right")
        shown.on_event("tap", lambda event: click(event.x, event.y))
        return shown

    def _set_axes(self, along: tuple[str, str]) -> None:
        """Turns to a plane, and offers the axes that can go with its first."""
        self.along = along
        options = {label: name for name, label in self._axes.items()}
        self.across.param.update(options=options, value=along[0])
        allowed = {label: name for label, name in options.items() if _independent(name, along[0])}
        self.upwards.param.update(options=allowed, value=along[1])
        labels = (self._axes.get(name, name) for name in along)
        self.map.xaxis.axis_label, self.map.yaxis.axis_label = labels

    def _chose(self, _: Any) -> None:
        along = (self.across.value, self.upwards.value)
        if self._opening or None in along or along == self.along:
            return
        if not _independent(*along):
            old = next(
                name for name in (self.along[0], *self._axes) if _independent(name, along[0])
            )
            along = (along[0], old)
        self._opening = True
        self._set_axes(along)
        self._opening = False
        self._latest = None
        self._clear()
        self._turn(None)

    def _clear(self) -> None:
        self.image.data = {name: [] for name in self.image.data}
        self._text.object = self.status.object = "<p></p>"
        self.progress.value = 0

    def _draw(self) -> None:
        found = self._latest
        if found is None or self._opening or self.layer.value not in self._layers:
            return
        layer = self._layers[self.layer.value]
        shown, values = layer.shown(found), layer.values(found)
        low, high = layer.ends
        if not layer.fixed and np.isfinite(shown).any():
            # Whole powers of ten, so that colours do not flicker while the map is refined.
            low, high = np.floor(np.nanmin(shown)), np.ceil(np.nanmax(shown))
        self._mapper.update(palette=layer.palette, low=low, high=max(high, low + 1))
        self._bar.title = layer.title
        edges = [_edges(axis.values) for axis in (found.x, found.y)]
        for axis, (start, end) in zip((self.map.x_range, self.map.y_range), edges, strict=True):
            # Within one plane the user may have zoomed in.
            if (axis.reset_start, axis.reset_end) != (start, end):
                set_range(axis, start, end)
        self.image.data = {
            "shown": [shown],
            "value": [values],
            "x": [edges[0][0]],
            "y": [edges[1][0]],
            "dw": [edges[0][1] - edges[0][0]],
            "dh": [edges[1][1] - edges[1][0]],
        }
        self._say()

    def _say(self) -> None:
        if self._latest is not None:
            self._text.object = f"<p>{self._sentence(self._latest)}</p>"

    def _sentence(self, found: AmortizationMap) -> str:
        i = int(np.abs(found.x.values - self._at[0]).argmin())
        j = int(np.abs(found.y.values - self._at[1]).argmin())
        variance, ratio = found.relative_variance[j, i], found.bound_ratio[j, i]
        if np.isnan(variance):
            return ""
        names = NAMES if len(found.terms) < 3 else LONG_NAMES
        shares = ", ".join(
            f"one for {names[term]} has {_percent(float(share))}"
            for term, share in zip(found.terms, found.effective_share[:, j, i], strict=True)
        )
        about = "" if self._inside else " (its coordinates are not alike: their mean is marked)"
        won = (
            f"the bound on the error of SNIS is {_figure(float(ratio))} times AMCI's error"
            if ratio >= 1
            else f"AMCI's error is {_figure(float(1 / ratio))} times the bound on that of SNIS"
        )
        return (
            f"Near your case{about} the relative variance of one draw is "
            f"<b>{_figure(float(variance))}</b>. Of what a perfect draw is worth, {shares}. "
            f"With many draws {won}."
        )

    def _describe(self, found: AmortizationMap) -> None:
        variance = found.relative_variance
        j, i = np.unravel_index(int(np.nan_to_num(variance).argmax()), variance.shape)
        labels = [self._axes.get(axis.name, axis.name) for axis in (found.x, found.y)]
        middle, top = (_figure(float(v)) for v in (np.median(variance), variance[j, i]))
        at = [number(float(v), 3) for v in (found.x.values[i], found.y.values[j])]
        describe(
            self.map,
            f"Relative variance of one draw over {labels[0]} and {labels[1]}, "
            f"{found.cases:,} cases. Its median is {middle}; it is largest, {top}, at {at[0]} and "
            f"{at[1]}. AMCI is ahead of the bound of self-normalised importance sampling in "
            f"{np.mean(found.bound_ratio > 1):.0%} of the cases.",
        )


LONG_NAMES = NAMES | {"E1_plus": "E₁⁺"}
HELP = (
    "A proposal is learnt once, for every case. This map shows where that worked: each point is "
    "a case, and the colour says how good AMCI's draws are there. The relative variance of one "
    "draw, divided by the number of draws, is the ReMSE to be expected; at 1 a single draw is as "
    "far off as the answer 0. Effective draws say what a draw for a term is worth beside a "
    "perfect one, k̂ how heavy the tail of its weights is: above 0.7 the largest are still to "
    "come. The bound is the least error of any self-normalised importance sampling: where it is "
    "above AMCI's, sharing one proposal cannot win. The map also draws from broad densities "
    "that surely reach everything, so it sees what a proposal misses and its own draws cannot "
    "show. Click anywhere to go there; the sliders do the same."
)


def _layers(terms: tuple[str, ...]) -> dict[str, Layer]:
    names = NAMES if len(terms) < 3 else LONG_NAMES
    found = {
        "variance": Layer(
            "Relative variance of one draw",
            "log₁₀",
            lambda m: m.relative_variance,
            True,
            (LOWEST, HIGHEST),
            Cividis256[::-1],
            fixed=False,
        ),
    }
    for t, term in enumerate(terms):
        found[f"effective-{term}"] = Layer(
            f"Effective share of draws for {names[term]}",
            "share",
            _of_term("effective_share", t),
            False,
            (0.0, 1.0),
            Cividis256,
        )
    for t, term in enumerate(terms):
        found[f"pareto-{term}"] = Layer(
            f"Pareto k̂ for {names[term]}",
            "k̂",
            _of_term("pareto_k", t),
            False,
            (-0.5, 1.0),
            Cividis256[::-1],
        )
    found["bound"] = Layer(
        "Bound of SNIS over AMCI's error",
        "log₁₀",
        lambda m: m.bound_ratio,
        True,
        (-RATIO, RATIO),
        WON,
    )
    return found


def _of_term(name: str, t: int) -> Callable[[AmortizationMap], Array]:
    """Takes a field (T, m, n) of a map for one of its terms."""

    def values(found: AmortizationMap) -> Array:
        array: Array = getattr(found, name)[t]
        return array

    return values


def _independent(first: str, second: str) -> bool:
    """Whether two axes move no coordinate together."""
    (a, _, i), (b, _, j) = first.partition("["), second.partition("[")
    return a != b or (i != j and bool(i) and bool(j))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 10_000 else number(value, 2)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{number(100 * share, 2)} %"


def _edges(values: Array) -> tuple[float, float]:
    """Half a step beyond the first and the last case."""
    half = float(values[1] - values[0]) / 2
    return float(values[0]) - half, float(values[-1]) + half
