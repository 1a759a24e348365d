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
    variant: terminal.OptionalVariant = None,
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
    device: terminal.DeviceOption = "auto",
    workers: terminal.WorkersOption = None,
    dask: terminal.DaskOption = None,
    folder: terminal.FolderOption = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Renew the card in that folder with the result, and its cases.parquet, unless a "
            "case fails.",
        ),
    ] = False,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Measure the relative error of estimators over many cases."""
    from amci_core.progress import Bars

    if write and folder is None:
        raise ValueError(
            "--write: needs --folder DIR, the proposals whose evaluation.json is replaced"
        )
    if truth is not None and cases is not None:
        raise ValueError("cases: leave it out with --truth, whose file has the cases")
    totals = terminal.split("draws", draws, int)
    names = None if estimators is None else terminal.split("estimators", estimators, str)
    chosen, proposals = terminal.load(problem, variant, folder)
    if write and folder is not None:
        if out is not None:
            raise ValueError("out: leave it out with --write, which writes cases.parquet")
        # What is there stays until all of the new cases are.
        out = folder / NEW_CASES
    known: dict[str, Any] = {"cases": 100 if cases is None else cases}
    if truth is not None:
        from amci_core.evaluation import read_cases

        read = read_cases(truth, chosen)
        known = {"truth": read, "cases": (read.y, read.theta)}
    elif not chosen.knows_truth:
        raise ValueError(f"--truth: {problem} has no known mu. Pass a file of reference values")
    try:
        with Bars() as bars:
            found = amci.evaluate(
                chosen,
                proposals,
                **known,
                runs=runs,
                draws=totals,
                estimators=names,
                seed=seed,
                device=device,
                out=out,
                workers=workers,
                dask=dask,
                progress=partial(bars.update, "cases"),
            )
    except RuntimeError as error:
        typer.echo(f"amci: {error}", err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        if out is not None:
            typer.echo(f"amci: the same command resumes the sweep into {out}", err=True)
        raise
    if write and folder is not None and not found.failures:
        from amci_core.training import write_card

        write_card(folder, found, chosen)
        os.replace(folder / NEW_CASES, folder / CASES)
    if form is terminal.Format.json:
        from amci_core.evaluation.sweep import origin

        terminal.print_json({**origin(chosen, proposals), **found.as_dict()})
    else:
        typer.echo(found)
    for number, why in found.failures.items():
        typer.echo(f"amci: case {number} failed: {why}", err=True)
    if found.failures:
        raise typer.Exit(FAILED)
