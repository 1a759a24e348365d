r"""What a table of draws says, in words and as a table."""

from __future__ import annotations

__all__ = ["EXPECTED", "about_table", "frame"]

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from amci_explorer.compute.uploads import MAX_BYTES, MAX_DRAWS, TableResult
from amci_explorer.plots.colours import ESTIMATORS
from amci_explorer.text import doubt, number, percent
from amci_explorer.words.diagnosis import pretty, sentence

EXPECTED = (
    "Draws from sbi, PyMC or your own program, as <b>CSV or Parquet</b> (at most "
    f"{MAX_BYTES / 1e6:.0f} MB and {MAX_DRAWS:,} draws). The columns are <code>log_joint</code>, "
    "<code>f</code> and <code>log_q</code>; with several components, <code>component</code> and "
    "one <code>log_q_…</code> for each of <code>q1_plus</code>, <code>q1_minus</code>, "
    "<code>q2</code> and <code>defensive</code> that is used. The file is read once and not "
    "stored."
)
NAMES = {name: ESTIMATORS[name].label for name in ("amci-cv", "amci")}
NAMES |= {"snis-qm": "SNIS, all draws", "snis": "SNIS"}


def about_table(result: TableResult, colours: dict[str, tuple[str, str]]) -> str:
    """The verdict on the first estimate, then all estimates, then the weights of each term.

    Arguments:
        result: The result.
        colours: For each level of a verdict, what it is called and its colour.
    """
    found = result.found["estimates"]
    first = next(iter(found))
    verdict = found[first]["verdict"]
    label, colour = colours[verdict["level"]]
    reasons = dict.fromkeys([verdict["text"].partition(": ")[2], *verdict["reasons"]])
    why = "".join(f"<li>{sentence(reason)}</li>" for reason in reasons)
    counts = ", ".join(f"{n:,} of {escape(name)}" for name, n in result.found["draws"].items())
    missing = "".join(
        f"<p>{NAMES[name]} is not available. {sentence(why)}</p>"
        for name, why in result.found["missing"].items()
    )
    return (
        f'<div class="verdict" role="status" style="--level: {colour}">'
        f'<div class="level">{NAMES[first]}: {label}</div><ul aria-label="Why">{why}</ul></div>'
        f"<p>{escape(result.name)}: {counts} draws.</p>"
        f"{_estimates(found, result.f_width, colours)}"
        f"{_terms(found)}{missing}"
    )


def _estimates(found: dict[str, Any], f_width: float, colours: dict[str, tuple[str, str]]) -> str:
    lines = [
        (
            NAMES[name],
            _number(each["value"], 6),
            "–" if each["standard_error"] is None else doubt(each["standard_error"], f_width),
            " to ".join(_number(end, 4) for end in each["interval_95"]),
            f"{each['draws']:,}",
            colours[each["verdict"]["level"]][0],
        )
        for name, each in found.items()
    ]
    head = ("Estimator", "Estimate", "Standard error", "95 % interval", "Draws", "Verdict")
    return _table("Estimates", head, lines)


def _terms(found: dict[str, Any]) -> str:
    lines = []
    for name, each in found.items():
        signed = "E1_minus" in each["terms"]
        for term, seen in _diagnosed(each).items():
            missed = seen["uncovered_mass"]
            lines.append(
                (
                    f"{NAMES[name]}, {pretty(term, signed=signed)}",
                    escape(seen["proposal"]),
                    f"{_draws(seen['smallest_ess'])} of {seen['draws']:,}",
                    _k_hat(seen),
                    percent(seen["largest_weight"]) if seen["largest_weight"] is not None else "–",
                    "not known" if missed is None else percent(missed),
                )
            )
    head = ("Term", "Proposal", "ESS", "k̂ (limit)", "Largest weight", "Missed mass")
    return _table("Weights of each term", head, lines)


def frame(result: TableResult) -> pd.DataFrame:
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


def _k_hat(seen: dict[str, Any]) -> str:
    if seen["pareto_k"] is None:
        return "–"
    k, most = seen["pareto_k"], seen["pareto_threshold"]
    return f"{k:.2f} ({most:.2f})".replace("-", "−")


def _draws(effective: float) -> str:
    return f"{effective:,.0f}" if effective >= 100 else f"{effective:.3g}"


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or math.isnan(value) else number(value, digits)


def _table(title: str, head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in lines
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>'
        f"<caption>{title}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
