r"""The case in numbers: tiles, and one run of every estimator."""

from __future__ import annotations

__all__ = ["SummaryCard"]

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result
from amci_explorer.numbers.known import Level, Mu, exact
from amci_explorer.numbers.summary import ROUNDING, Row, Summary, proposal_of
from amci_explorer.plots.colours import ESTIMATORS
from amci_explorer.state.state import State
from amci_explorer.text import doubt, number, ratio
from amci_explorer.text import effective as effective_size
from amci_explorer.views import export
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML
from amci_explorer.words import HELP

# Equal columns in one row; where that is too narrow two, of which the last takes what is left.
TILES = """
:host { container-type: inline-size; }
.tiles { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); gap: 12px; }
.tile { border-left: 3px solid var(--line); padding: 0 0 0 10px; min-width: 0; }
.tile .name { font-size: var(--small); color: var(--muted); line-height: 1.3; }
.tile .figure { font-size: var(--title); font-weight: 600; line-height: 1.5;
                font-variant-numeric: tabular-nums; }
.tile .words { font-size: var(--small); line-height: 1.4; min-height: 2.8em; }
@container (max-width: 639.95px) {
  .tiles { grid-auto-flow: row; grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tile:last-child:nth-child(odd) { grid-column: 1 / -1; }
}
"""
TABLE = """
.wide { overflow-x: auto; container-type: inline-size; }
table { border-collapse: collapse; font-size: var(--text); width: 100%;
        font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; font-size: var(--small); color: var(--muted); }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line);
         white-space: nowrap; line-height: 1.4; }
td:last-child { white-space: normal; min-width: 150px; width: 40%; }
tr:last-child td { border-bottom: none; }
svg { vertical-align: middle; margin-right: 6px; }
@container (max-width: 560px) {
  tr { display: grid; grid-template-columns: 1.1fr 1.1fr 1.1fr 0.8fr;
       border-bottom: 1px solid var(--line); padding: 3px 0; }
  table th, table td { border: none; padding: 2px 6px 2px 0; white-space: normal; }
  table td:last-child { grid-column: 1 / -1; width: auto; color: var(--muted); }
  td:last-child:empty, th:last-child:empty { display: none; }
}
"""
NAMES = ("estimator", "estimate", "± standard error", "relative error")
# What is not known yet.
AWAITED = "–"
ESTIMATE, SIZE = "Estimate of μ", "Effective sample size"
# Where the error comes from, where one term has all of it and where both have some.
SOURCE, KAPPA = "Error comes from", "κ: relative error of E₁ / E₂"
# An error of so many times that of the truth is told.
CLEAR = 10
# What is shown beside each estimator's own figures while a case is kept for comparison.
AGAINST = ("A", "relative standard error, B / A")


class SummaryCard(Card):
    """The figures of the case, and one run of every estimator."""

    name = "summary"
    title = "This case in numbers"
    unit = ""
    is_table = True
    help = HELP["summary"]

    def content(self) -> list[Any]:
        self._tiles = HTML("", TILES)
        self._rows = HTML("", TABLE, margin=(12, 0, 0, 0))
        # What is known without a draw follows the sliders.
        self.faded = (self._rows,)
        return [self._tiles, self._rows]

    def asked(self, case: State) -> Request:
        return Request("summary", case.settings)

    def progress(self, found: Summary) -> tuple[int, int]:
        del found
        return 1, 1

    def clear(self) -> None:
        # What is to come has its place: nothing below jumps when it does.
        answers = (name for name in self.store.estimators if name != "bound")
        awaited = dict.fromkeys(answers, [AWAITED] * 3 + [""])
        self._tabulate("One run of every estimator", NAMES, awaited)

    def redraw(self) -> None:
        """Shows what is known without a draw, which follows the sliders; and what is not."""
        pair = self.state.settings.pair
        here = self.shown is not None and self.shown.asked.settings.pair == pair
        found: Summary | None = self.shown.value if self.shown and here else None
        kept: Summary | None = None if self.kept is None else self.kept.value
        mu = exact(self.state.problem, *pair)
        if found is not None and math.isnan(mu.value):
            mu = found.mu
        level = Level(self.state.level, self.state.level_error)
        tiles = [
            _estimate_tile(found, kept, self._about_mu(mu)),
            _level_tile(level, kept, self.state.problem.y is not None)
            if level.error == 0 or found is not None
            else _tile("Mismatch, estimated", AWAITED, ""),
            *self._term_tiles(found, kept),
        ]
        self._tiles.object = f'<div class="tiles">{"".join(tiles)}</div>'

    def _about_mu(self, mu: Mu) -> str:
        """What the estimate is compared with, in words."""
        if math.isnan(mu.value):
            return "truth not known"
        if mu.error:
            value = f"{number(mu.value, 4)} ± {number(abs(mu.value) * mu.error, 1)}"
            return f"reference value {value}, by another computation"
        return f"truth {number(mu.value, 4)}"

    def _term_tiles(self, found: Summary | None, kept: Summary | None) -> list[str]:
        signed, terms = "E1_minus" in self.store.terms, self.store.terms
        if found is None:
            names = [f"{SIZE}, {proposal_of(term, signed=signed)}" for term in terms]
            return [_tile(name, AWAITED, "") for name in (SOURCE, *names)]
        tiles = [_source_tile(found, kept)]
        for term, effective in found.effective.items():
            name = f"{SIZE}, {proposal_of(term, signed=signed)}"
            figure = f"{effective_size(effective)} of {found.seen:,}"
            beside = (None if kept is None else kept.effective.get(term), effective)
            tiles.append(_tile(name, figure, found.about(term), beside))
        return tiles

    def draw(self, found: Summary, *, complete: bool) -> None:
        del complete
        if self.shown is not None:
            self.state.learn(self.shown.asked.settings, found.level)
        self.redraw()
        kept: Summary | None = None if self.kept is None else self.kept.value
        of_a = {} if kept is None else {row.name: row for row in kept.rows}
        self._tabulate(
            f"One run of every estimator, {found.total:,} draws from proposals and "
            f"{found.judging:,} from the defensive density",
            (*NAMES, *(AGAINST if kept is not None else ())),
            {row.name: _cells(row, of_a.get(row.name), found.mu.error) for row in found.rows},
        )

    def frame(self, found: Summary) -> pd.DataFrame:
        return export.summary(found)

    def recolour(self, dark: bool) -> None:
        super().recolour(dark)
        if self.shown is not None:
            self.draw(self.shown.value, complete=True)

    def draw_kept(self, result: Result | None) -> None:
        """Puts the figures of the kept case beside its own."""
        self.kept = result
        self.redraw()
        if self.shown is not None:
            self.draw(self.shown.value, complete=True)

    def _tabulate(self, label: str, names: Sequence[str], cells: Mapping[str, list[str]]) -> None:
        """Fills the table: every estimator's cells, under these names and none for remarks."""
        head = "".join(f'<th scope="col">{name}</th>' for name in names) + "<td></td>"
        rows = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in (self._swatch(name), *more)) + "</tr>"
            for name, more in cells.items()
        )
        self._rows.object = (
            f'<div class="wide"><table aria-label="{label}"><tr>{head}</tr>{rows}</table></div>'
        )

    def _swatch(self, name: str) -> str:
        """An estimator's name, after a piece of its line."""
        style = ESTIMATORS[name]
        dash = f'stroke-dasharray="{" ".join(map(str, style.dash))}"' if style.dash else ""
        return (
            f'<svg width="26" height="6" aria-hidden="true"><line x1="0" y1="3" x2="26" y2="3" '
            f'stroke="{style.colour(self.dark)}" stroke-width="3" {dash}/></svg>{style.label}'
        )


def _cells(row: Row, kept: Row | None, of_mu: float) -> list[str]:
    own = doubt(row.standard_error, row.f_width)
    cells = [number(row.value, 4), own, _relative(row.relative_error, of_mu)]
    if kept is not None:
        of_a = doubt(kept.standard_error, kept.f_width)
        spread = "" if math.isnan(kept.standard_error) else f" ± {of_a}"
        cells += [f"{number(kept.value, 4)}{spread}", _times(kept, row)]
    return [*cells, escape(row.remark)]


def _times(kept: Row, row: Row) -> str:
    """The relative standard error over that of the kept case: values may be far apart."""
    before, now = (each.relative_standard_error for each in (kept, row))
    # Of two that are rounding there is no ratio.
    return ratio(before, now, 2) if max(before, now) > ROUNDING else ""


def _tile(
    name: str, figure: str, words: str, beside: tuple[float | None, float] = (None, 0.0)
) -> str:
    """A figure with its words; and that of the kept case, if there is one."""
    kept, own = beside
    of_a = ""
    if kept is not None:
        times = ratio(kept, own)
        of_a = "not known" if math.isnan(kept) else number(kept, 3)
        of_a = f"A: {of_a}{f', B / A: {times}' if times else ''}<br>"
    return (
        f'<div class="tile"><div class="name">{escape(name)}</div>'
        f'<div class="figure">{escape(figure)}</div>'
        f'<div class="words">{of_a}{escape(words)}</div></div>'
    )


def _source_tile(found: Summary, kept: Summary | None) -> str:
    """Where AMCI's error comes from: kappa, or the only term that has any."""
    if math.isnan(found.kappa):
        return _tile(SOURCE, "no proposal", found.about_kappa)
    if not found.judged:
        return _tile(SOURCE, "not judged", found.about_kappa)
    if math.isinf(found.kappa):
        alone = "" if "E1_minus" in found.effective else " alone"
        return _tile(SOURCE, found.of_E1 + alone, found.about_kappa)
    beside = (None if kept is None else kept.kappa, found.kappa)
    return _tile(KAPPA, number(found.kappa, 2), found.about_kappa, beside)


def _estimate_tile(found: Summary | None, kept: Summary | None, about: str) -> str:
    """AMCI's estimate, and what it should be."""
    row, of_a = (
        next((row for row in each.rows if row.name == "amci"), None) if each else None
        for each in (found, kept)
    )
    if row is None:
        return _tile(ESTIMATE, AWAITED, about)
    error = doubt(row.standard_error, row.f_width)
    words = f"± {error}; {about}" if math.isfinite(row.standard_error) else about
    return _tile(ESTIMATE, number(row.value, 4), words, (of_a.value if of_a else None, row.value))


def _level_tile(level: Level, of_a: Summary | None, observed: bool) -> str:
    """The mismatch; with its error where it is estimated."""
    kept = None if of_a is None else of_a.level.value
    if math.isnan(level.value):
        return _tile("Mismatch, estimated", "not judged", "too few draws reach both densities")
    if level.error == 0:
        about = _about_level(level.value, observed)
        return _tile("Mismatch", f"{number(level.value)} nats", about, (kept, level.value))
    figure = f"{number(level.value)} ± {number(level.error, 1)} nats"
    about = _about_level(level.value, observed)
    return _tile("Mismatch, estimated", figure, about, (kept, level.value))


def _about_level(level: float, observed: bool) -> str:
    of = "posterior" if observed else "prior"
    if level < 0.1:
        return f"g is close to the {of}"
    if level < 2:
        return f"g differs moderately from the {of}"
    if level < 6:
        return f"g lies at the edge of the {of}"
    return f"g lies far in the tail of the {of}"


def _relative(error: float, of_mu: float) -> str:
    """An error relative to mu, which is known to `of_mu` of itself."""
    if not math.isfinite(error):
        return "μ is 0" if math.isinf(error) else "not known"
    if abs(error) < CLEAR * of_mu:
        return f"below {number(100 * CLEAR * of_mu, 1)} %"
    if abs(error) < 1e-12:
        return "0"
    if abs(error) < 0.1:
        return f"{number(100 * error, 2)} %"
    if abs(error) < 100:
        return f"{100 * error:,.0f} %".replace("-", "−")
    # The estimate over mu.
    size = abs(error + 1)
    times = f"{float(f'{size:.2g}'):,.0f}" if size < 1e6 else number(size, 2)
    return f"{times} times too large" + (", wrong sign" if error < 0 else "")
