r"""`amci estimate`: one estimate of mu(y, theta), beside the truth."""

from __future__ import annotations

__all__ = ["estimate"]

from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal


def estimate(
    problem: terminal.ProblemName,
    y: Annotated[
        str | None, typer.Option(help="Observation, if there is one: a number, or more with ,.")
    ] = None,
    theta: Annotated[str | None, typer.Option(help="Parameters of f, if there are any.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Total number of draws. Default: 128; at most 1,000,000 with --relative-error."
        ),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="amci-cv (AMCI with control variates), amci, snis-q2, reuse:ALPHA:BETA or "
            "another; a wrong name lists all."
        ),
    ] = "amci-cv",
    defensive: Annotated[
        float | None,
        typer.Option(help="Share of all draws from the defensive density. Default: 0.125."),
    ] = None,
    shift: Annotated[
        float | None,
        typer.Option(help="A constant c: f - c is split into its signs, c is added back."),
    ] = None,
    relative_error: Annotated[
        float | None,
        typer.Option(help="Draw until the 95 % interval's half-width is this share of mu."),
    ] = None,
    points: terminal.PointsOption = None,
    variant: terminal.OptionalVariant = None,
    folder: terminal.FolderOption = None,
    seed: terminal.SeedOption = 0,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Estimate mu(y, theta), with its standard error, diagnostics and a verdict."""
    from amci_core.evaluation.sweep import origin

    case = {
        name: None if text is None else terminal.split(name, text, float)
        for name, text in (("y", y), ("theta", theta))
    }
    chosen, proposals = terminal.load(problem, variant, folder)
    options: dict[str, Any] = {**case, "estimator": estimator, "points": points, "seed": seed}
    options |= _given(draws=draws, defensive=defensive)
    found: Any
    if relative_error is None:
        found = amci.estimate(chosen, proposals, **options, **_given(shift=shift))
    elif shift is not None:
        raise ValueError("shift: leave it out with --relative-error")
    else:
        found = amci.estimate_to(chosen, proposals, **options, relative_error=relative_error)
    truth = chosen.truth(case["y"], case["theta"]) if chosen.knows_truth else None
    result = {
        **origin(chosen, proposals),
        "estimator": estimator,
        **case,
        "seed": seed,
        "truth": truth,
        **found.as_dict(),
    }
    if form is terminal.Format.json:
        terminal.print_json(result)
        return
    known = "" if truth is None else f"; truth {terminal.number(truth, 6)}"
    made = f"{estimator} with {proposals.variant} proposals, {int(found.draws):,} draws"
    typer.echo(f"{chosen.name}: {made}{known}")
    typer.echo(found)
    for reason in found.verdict.reasons[1:]:
        typer.echo(f"  {reason}.")
    if "terms" in result:
        terminal.print_terms(estimator, result["terms"])


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
