r"""`amci estimate`: one estimate of mu(y, theta). `amci diagnose`: from draws made elsewhere."""

from __future__ import annotations

__all__ = ["diagnose", "estimate"]

from pathlib import Path
from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal
from amci_core.io import read_columns

# The figures of a term that are printed, and their headings.
FIGURES = {
    "value": "value",
    "smallest_ess": "ESS",
    "draws": "draws",
    "largest_weight": "largest weight",
    "pareto_k": "k-hat",
    "pareto_threshold": "at most",
}


def estimate(
    problem: terminal.ProblemName,
    y: str | None = None,
    theta: str | None = None,
    draws: int | None = None,
    estimator: str = "amci-cv",
    relative_error: float | None = None,
    variant: terminal.VariantOption = None,
    folder: terminal.FolderOption = None,
    seed: terminal.SeedOption = 0,
    form: terminal.FormatOption = "table",
) -> None:
    """Estimate mu(y, theta), with its standard error, diagnostics and a verdict.

    Arguments:
        y: Observation, if there is one: a number, or more with ,.
        theta: Parameters of f, if there are any.
        draws: Total number of draws. Default: 128; at most 1,000,000 with --relative-error.
        estimator: amci-cv (AMCI with control variates), amci, snis-q2, reuse:ALPHA:BETA or
            another; a wrong name lists all.
        relative_error: Draw until the 95 % interval's half-width is this share of mu.
    """
    from amci_core.evaluation.sweep import origin

    chosen = terminal.problem_named(problem)
    proposals = amci.load_proposals(chosen, variant=variant, folder=folder)
    case = {
        "y": None if y is None else terminal.numbers("y", y, float),
        "theta": None if theta is None else terminal.numbers("theta", theta, float),
    }
    options: dict[str, Any] = {**case, "estimator": estimator, "seed": seed}
    if draws is not None:
        options["draws"] = draws
    result: Any
    if relative_error is None:
        result = amci.estimate(chosen, proposals, **options)
    else:
        result = amci.estimate_to(chosen, proposals, **options, relative_error=relative_error)
    truth = chosen.truth(**case) if chosen.knows_truth else None
    if form == "json":
        about = {"estimator": estimator, **case, "seed": seed, "truth": truth}
        terminal.print_json({**origin(chosen, proposals), **about, **result.as_dict()})
        return
    typer.echo(f"{chosen.name}: {int(result.draws):,} draws from {proposals.variant} proposals")
    if truth is not None:
        typer.echo(f"truth: {truth:.6g}")
    _print(estimator, result)


def diagnose(
    table: Annotated[Path, typer.Argument(metavar="TABLE")],
    f: str = "f",
    log_e2: float | None = None,
    r_eff: float | None = None,
    form: terminal.FormatOption = "table",
) -> None:
    """Diagnose a table of draws from elsewhere: estimates, intervals, k-hat, a verdict.

    Arguments:
        table: CSV (Stan's too) or Parquet with the columns log_joint, f, and log_q; or log_q_NAME
            for each component, and component; or log_weight. Components are q1_plus, q1_minus, q2
            and defensive.
        f: The column of f.
        log_e2: log E2 in nats, if it is known.
        r_eff: Effective number of independent draws over their number, for a Markov chain's.
    """
    from amci_core.evaluation.sweep import versions

    result = amci.estimate_from_draws(read_columns(table), f=f, log_E2=log_e2, r_eff=r_eff)
    if form == "json":
        terminal.print_json({"table": str(table), "versions": versions(), **result.as_dict()})
        return
    typer.echo(f"{table}: {', '.join(f'{n:,} of {name}' for name, n in result.counts.items())}")
    for name, estimate in result.estimates.items():
        _print(name, estimate)
    for name, why in result.missing.items():
        typer.echo(f"{name}: not estimated, {why}.")


def _print(name: str, estimate: Any) -> None:
    """Prints an estimate, the reasons of its verdict, and the diagnostics of its terms."""
    import pandas as pd

    typer.echo(f"\n{name}: {estimate}")
    for reason in estimate.verdict.reasons[1:]:
        typer.echo(f"  {reason}.")
    terms = estimate.as_dict().get("terms", {})
    drawn = {term: figures for term, figures in terms.items() if "draws" in figures}
    if drawn:
        table = pd.DataFrame(drawn).T[[*FIGURES]].astype(float).rename(columns=FIGURES)
        typer.echo(table.to_string(na_rep="-", float_format="{:.4g}".format))
