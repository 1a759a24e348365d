r"""Bring your draws: what a table from elsewhere says, read once and not stored."""

from __future__ import annotations

__all__ = ["TableCard"]

from collections.abc import Callable
from functools import partial
from html import escape
from types import SimpleNamespace
from typing import Any

import pandas as pd
import panel_material_ui as pmui

from amci_core.tabular import KINDS, MAX_ROWS
from amci_explorer.colours import ESTIMATORS, VERDICTS
from amci_explorer.compute.results import Result
from amci_explorer.compute.uploads import (
    MAX_BYTES,
    TableResult,
    read_draws,
    sample_table,
)
from amci_explorer.state.state import State
from amci_explorer.text import doubt, number, percent
from amci_explorer.views.card import Card
from amci_explorer.views.export import frame
from amci_explorer.views.inputs import Upload
from amci_explorer.views.layout import HTML, row
from amci_explorer.views.status import VERDICT, verdict
from amci_explorer.words import CARDS, HELP
from amci_explorer.words.diagnosis import pretty, sentence

EXPECTED = (
    "Draws from sbi, Stan, PyMC or your own program, as <b>CSV or Parquet</b> (at most "
    f"{MAX_BYTES / 1e6:.0f} MB and {MAX_ROWS:,} draws). The columns are <code>log_joint</code>, "
    "<code>f</code> and <code>log_q</code>, or <code>log_weight</code> and <code>f</code>; with "
    "several components, <code>component</code> and one <code>log_q_…</code> for each of "
    "<code>q1_plus</code>, <code>q1_minus</code>, <code>q2</code> and <code>defensive</code> that "
    "is used. The file is read once and not stored."
)
NAMES = {name: ESTIMATORS[name].label for name in ("amci-cv", "amci")}
NAMES |= {"snis-qm": "SNIS, all draws", "snis-q2": "SNIS"}
RESULT = """
table { border-collapse: collapse; }
th, td { padding: 3px 14px 3px 0; text-align: right; white-space: nowrap; font-weight: 400; }
thead th { border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
"""


class TableCard(Card):
    """What draws from elsewhere say: estimates, intervals, k-hat, a verdict."""

    name = "table"
    title = CARDS["table"]
    unit = "draws"
    is_table = True
    help = HELP["table"]
    drawn = ()

    def content(self) -> list[Any]:
        self.upload = Upload(
            self.take_file, MAX_BYTES, accept=",".join(KINDS), label="Choose a file"
        )
        self.f = pmui.TextInput(label="Column of f", value="f", size="small", width=140, margin=0)
        download = pmui.FileDownload(
            callback=sample_table,
            filename="draws.csv",
            label="Example CSV",
            size="small",
            variant="outlined",
            margin=0,
        )
        self.result = HTML("", VERDICT, RESULT)
        return [
            HTML(f"<p>{EXPECTED}</p>", VERDICT),
            row(self.upload, self.f, download, gap=8),
            self.upload.message,
            self.result,
        ]

    def take_file(self, name: str, content: bytes) -> None:
        """Has a worker estimate from a file."""
        self.upload.message.say()
        f = self.f.value.strip() or "f"
        self.results.call(partial(self.show, name), read_draws, name, content, f)

    def show(self, name: str, found: TableResult | Exception) -> None:
        """Shows what the file of that name holds, or what is wrong with it."""
        if isinstance(found, Exception):
            self.upload.message.say(f"{name}: {str(found) or type(found).__name__}")
            return
        asked = SimpleNamespace(what="table", link={"table": found.name})
        result = self.results.all[self.name] = Result(asked, found, 0.0, complete=True)
        self.take(result)

    def asked(self, case: State) -> None:
        """Nothing: it shows files."""

    def open(self) -> None:
        """Keeps what is there: draws from elsewhere are of no problem on the page."""
        if self.shown is None:
            super().open()
        else:
            self.results.all[self.name] = self.shown

    def progress(self, found: TableResult) -> tuple[int, int]:
        return found.draws, found.draws

    def draw(self, found: TableResult, *, complete: bool) -> None:
        self.result.object = about_table(found, dark=self.dark)


def about_table(result: TableResult, *, dark: bool) -> str:
    """The verdict on the first estimate, then all estimates, then the weights of each term."""
    found = result.found["estimates"]
    first = next(iter(found))
    judged = found[first]["verdict"]
    reasons = dict.fromkeys([judged["text"].partition(": ")[2], *judged["reasons"]])
    items = "".join(f"<li>{sentence(reason)}</li>" for reason in reasons)
    why = f'<ul aria-label="Why">{items}</ul>'
    counts = ", ".join(f"{n:,} of {escape(name)}" for name, n in result.found["draws"].items())
    missing = "".join(
        f"<p>{NAMES[name]} is not available. {sentence(why)}</p>"
        for name, why in result.found["missing"].items()
    )
    estimates = [
        {
            "Estimator": NAMES[name],
            "Estimate": _known(each["value"], partial(number, digits=6)),
            "Standard error": _known(each["standard_error"], partial(doubt, width=result.f_width)),
            "95 % interval": " to ".join(
                _known(end, partial(number, digits=4)) for end in each["interval_95"]
            ),
            "Draws": f"{each['draws']:,}",
            "Verdict": VERDICTS[each["verdict"]["level"]].label,
        }
        for name, each in found.items()
    ]
    terms = [
        {
            "Term": f"{NAMES[name]}, {pretty(term, signed='E1_minus' in each['terms'])}",
            "Proposal": seen["proposal"],
            "ESS": f"{number(seen['smallest_ess'], 3)} of {seen['draws']:,}",
            "k̂": _known(seen["pareto_k"], partial(number, digits=2)),
            "Limit of k̂": _known(seen["pareto_threshold"], partial(number, digits=2)),
            "Largest weight": _known(seen["largest_weight"], percent),
            "Uncovered mass": _known(seen["uncovered_mass"], percent),
        }
        for name, each in found.items()
        for term, seen in _diagnosed(each).items()
    ]
    return (
        f"{verdict(judged['level'], why, dark=dark, of=f'{NAMES[first]}: ')}"
        f"<p>{escape(result.name)}: {counts} draws.</p>"
        f"{_table('Estimates', estimates)}{_table('Weights of each term', terms)}{missing}"
    )


@frame.register
def _(result: TableResult) -> pd.DataFrame:
    """One line for every term of every estimate."""
    per_estimate = ("value", "standard_error")
    per_term = (
        *("proposal", "draws", "ess", "largest_weight", "uncovered_mass"),
        *("pareto_k", "pareto_threshold"),
    )
    return pd.DataFrame(
        {"estimator": name}
        | {n: each[n] for n in per_estimate}
        | dict(zip(("low_95", "high_95"), each["interval_95"], strict=True))
        | {"verdict": each["verdict"]["level"], "term": term}
        | {n: seen[n] for n in per_term}
        for name, each in result.found["estimates"].items()
        for term, seen in _diagnosed(each).items()
    )


def _diagnosed(each: dict[str, Any]) -> dict[str, Any]:
    """The terms that come from draws."""
    return {name: term for name, term in each["terms"].items() if "draws" in term}


def _known(value: float | None, write: Callable[[float], str]) -> str:
    return "–" if value is None else write(value)


def _table(title: str, lines: list[dict[str, str]]) -> str:
    html = pd.DataFrame(lines).to_html(index=False, border=0)
    around = f'class="wide" tabindex="0" role="region" aria-label="{title}"'
    return f"<div {around}><p><b>{title}</b></p>{html}</div>"
