r"""`amci diagnose`: estimates from a table of draws made elsewhere, with verdicts."""

from __future__ import annotations

__all__ = ["diagnose"]

from pathlib import Path
from typing import Annotated

import typer

import amci_core as amci
from amci_core.cli import terminal


def diagnose(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="CSV (Stan's too) or Parquet with the columns log_joint, f, and log_q; or "
            "log_q_NAME for each component, and component; or log_weight. Components are "
            "q1_plus, q1_minus, q2 and defensive.",
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
    from amci_core.evaluation.sweep import versions
    from amci_core.tabular import read_columns

    found = amci.estimate_from_draws(read_columns(table), f=f, log_E2=log_e2, r_eff=r_eff)
    figures = found.as_dict()
    if form is terminal.Format.json:
        terminal.print_json({"table": str(table), "versions": versions(), **figures})
        return
    typer.echo(f"{table}: {', '.join(f'{n:,} of {name}' for name, n in found.counts.items())}")
    for name, estimate in found.estimates.items():
        typer.echo(f"\n{name}: {estimate}")
        for reason in estimate.verdict.reasons[1:]:
            typer.echo(f"  {reason}.")
        terminal.print_terms(name, figures["estimates"][name]["terms"])
    for name, why in found.missing.items():
        typer.echo(f"{name}: not estimated, {why}.")
