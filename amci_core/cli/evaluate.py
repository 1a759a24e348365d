r"""`amci evaluate`: errors over cases drawn from p(y) p(theta)."""

from __future__ import annotations

__all__ = ["evaluate"]

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal

FAILED = 1
CASES, NEW_CASES = "cases.parquet", "cases.new.parquet"


def evaluate(
    problem: terminal.ProblemName,
    variant: terminal.VariantOption = None,
    cases: Annotated[
        int | None, typer.Option(help="Cases (y, theta) drawn from p(y) p(theta). Default: 100.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Independent runs of each case.")] = 100,
    draws: Annotated[
        str, typer.Option(help="Total draws of an estimator, increasing, with commas.")
    ] = "2,10,100,1000",
    estimators: Annotated[
        str | None,
        typer.Option(
            help="Names for `amci estimate` (reuse as reuse:ALPHA:BETA) and bound, with commas; "
            "by default those of amci,snis-q2,snis-qm,snis-qm-stratified,snis-q1,bound that the "
            "proposals can serve. bound is the SNIS bound, asymptotic, for independent draws from "
            "one proposal."
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="A .csv or .parquet file with the cases and their values of mu: columns y "
            "(or y1, y2, ...), theta, value and, where known, error, the value's standard error."
        ),
    ] = None,
    seed: terminal.SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .parquet file that every case is written to as soon as it is done. The same "
            "command after a kill goes on where it stopped."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that do the work, one core each; by default it is done in this one."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A running Dask scheduler, such as tcp://HOST:8786, whose workers do the work.",
        ),
    ] = None,
    folder: terminal.FolderOption = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Renew the card in that folder with the result, and its cases.parquet, unless a "
            "case fails.",
        ),
    ] = False,
    form: terminal.FormatOption = "table",
) -> None:
    """Measure the relative error of estimators over many cases."""
    from amci_core.evaluation import read_cases
    from amci_core.evaluation.sweep import origin
    from amci_core.progress import Bars
    from amci_core.training import write_card

    if write and (folder is None or out is not None):
        raise ValueError(
            "--write: needs --folder DIR, the proposals whose evaluation.json is replaced, "
            "and no --out"
        )
    if truth is not None and cases is not None:
        raise ValueError("--cases: leave it out with --truth, whose file has the cases")
    chosen = terminal.problem_named(problem)
    proposals = amci.load_proposals(chosen, variant=variant, folder=folder)
    options: dict[str, Any] = {} if cases is None else {"cases": cases}
    if truth is not None:
        known = read_cases(truth, chosen)
        options = {"truth": known, "cases": (known.y, known.theta)}
    if write and folder is not None:
        out = folder / NEW_CASES  # the cases there stay until all of the new ones are done
    try:
        with Bars() as bars:
            result = amci.evaluate(
                chosen,
                proposals,
                **options,
                runs=runs,
                draws=terminal.numbers("draws", draws, int),
                estimators=None if estimators is None else estimators.split(","),
                seed=seed,
                out=out,
                workers=workers,
                dask=dask,
                progress=partial(bars.update, "cases"),
            )
    except RuntimeError as error:
        typer.echo(f"amci: {error}", err=True)
        raise typer.Exit(FAILED) from None
    if write and folder is not None and not result.failures:
        write_card(folder, result, chosen)
        os.replace(folder / NEW_CASES, folder / CASES)
    if form == "json":
        terminal.print_json({**origin(chosen, proposals), **result.as_dict()})
    else:
        typer.echo(result)
    for number, why in result.failures.items():
        typer.echo(f"amci: case {number} failed: {why}", err=True)
    if result.failures:
        raise typer.Exit(FAILED)
