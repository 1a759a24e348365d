r"""`amci diagnose`: whether a table of draws from elsewhere can be believed."""

from __future__ import annotations

__all__ = ["diagnose"]

from pathlib import Path
from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal


def diagnose(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="CSV (also .tsv, .csv.gz, Stan's), Parquet or ArviZ's .nc, at most 1 GB and "
            "5,000,000 draws, with the columns log_joint, f, and log_q; or log_q_NAME for each "
            "component, and component; or log_weight. Components are q1_plus, q1_minus, q2 and "
            "defensive.",
        ),
    ],
    f: Annotated[str, typer.Option("--f", help="The column of f.")] = "f",
    log_e2: Annotated[
        float | None, typer.Option("--log-e2", help="log E2 in nats, if it is known.")
    ] = None,
    r_eff: Annotated[
        float | None,
        typer.Option(
            help="Effective number of independent draws over their number, for a Markov chain's."
        ),
    ] = None,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Diagnose a table of draws from elsewhere: estimates, intervals, k-hat, a verdict."""
    from amci_core.estimation.table import is_column
    from amci_core.evaluation.sweep import versions
    from amci_core.tabular import read_columns

    columns = read_columns(table, wanted=lambda name: is_column(name, f))
    found = amci.diagnose(columns, f=f, log_E2=log_e2, r_eff=r_eff)
    result = {"table": str(table), "versions": versions(), **found.as_dict()}
    if form is terminal.Format.json:
        terminal.print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    number = terminal.number
    draws = ", ".join(f"{count:,} of {name}" for name, count in result["draws"].items())
    terminal.print_table(
        f"{result['table']}: {draws}",
        ("estimator", "estimate", "standard error", "95 % interval", "verdict"),
        [
            (
                name,
                number(found["value"], 8),
                number(found["standard_error"]),
                " to ".join(number(end, 6) for end in found["interval_95"]),
                str(found["verdict"]["level"]),
            )
            for name, found in result["estimates"].items()
        ],
    )
    terminal.print_table(
        "Terms",
        ("estimator", "term", "ESS", "largest weight", "uncovered", "k-hat", "at most"),
        [
            (
                name,
                term,
                f"{seen['smallest_ess']:,.1f} of {seen['draws']:,}",
                *(number(seen[figure], 3) for figure in ("largest_weight", "uncovered_mass")),
                *(number(seen[figure], 2) for figure in ("pareto_k", "pareto_threshold")),
            )
            for name, found in result["estimates"].items()
            for term, seen in found["terms"].items()
            if "draws" in seen
        ],
    )
    for name, found in result["estimates"].items():
        typer.echo(f"{name}: {found['verdict']['text']}.")
        for reason in found["verdict"]["reasons"][1:]:
            typer.echo(f"  {reason}.")
    for name, why in result["missing"].items():
        typer.echo(f"{name}: not estimated, {why}.")
