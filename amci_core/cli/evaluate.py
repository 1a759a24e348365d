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
    cases: int | None = None,
    runs: int = 100,
    draws: str = "2,10,100,1000",
    estimators: str | None = None,
    truth: Path | None = None,
    seed: terminal.SeedOption = 0,
    out: Path | None = None,
    workers: int | None = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS")] = None,
    folder: terminal.FolderOption = None,
    write: bool = False,
    form: terminal.FormatOption = "table",
) -> None:
    """Measure the relative error of estimators over many cases.

    Arguments:
        cases: Cases (y, theta) drawn from p(y) p(theta). Default: 100.
        runs: Independent runs of each case.
        draws: Total draws of an estimator, increasing, with commas.
        estimators: Names for `amci estimate` (reuse as reuse:ALPHA:BETA) and bound, with commas;
            by default those of amci,snis-q2,snis-qm,snis-qm-stratified,snis-q1,bound that the
            proposals can serve. bound is the SNIS bound, asymptotic, for independent draws from
            one proposal.
        truth: A .csv or .parquet file with the cases and their values of mu: columns y (or y1, y2,
            ...), theta, value and, where known, error, the value's standard error.
        out: A .parquet file that every case is written to as soon as it is done. The same command
            after a kill goes on where it stopped.
        workers: Processes that do the work, one core each; by default it is done in this one.
        dask: A running Dask scheduler, such as tcp://HOST:8786, whose workers do the work.
        write: Renew the card in that folder with the result, and its cases.parquet, unless a case
            fails.
    """
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
