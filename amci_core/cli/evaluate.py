r"""`amci evaluate`: errors over cases drawn from p(y) p(theta)."""

from __future__ import annotations

__all__ = ["evaluate"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal

if TYPE_CHECKING:
    from amci_core.errors import Evaluation


def evaluate(
    problem: terminal.ProblemName,
    variant: terminal.OptionalVariant = None,
    pairs: Annotated[
        int | None, typer.Option(help="Cases (y, theta) drawn from p(y) p(theta). Default: 100.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Independent runs of each case.")] = 100,
    budgets: Annotated[
        str, typer.Option(help="Total draws of an estimator, increasing, with commas.")
    ] = "2,10,100,1000",
    estimators: Annotated[
        str | None,
        typer.Option(
            help="Names for `amci estimate` (reuse as reuse:ALPHA:BETA) and bound, with commas; "
            "by default those of amci,snis-q2,snis-qm,snis-q1,bound that the proposals can serve."
        ),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="A .csv or .json file with the cases and their values of mu: columns y (or y1, "
            "y2, ...), theta, value and, where known, error, the value's standard error."
        ),
    ] = None,
    seed: terminal.SeedOption = 0,
    folder: terminal.FolderOption = None,
    write: Annotated[
        bool, typer.Option("--write", help="Renew the card in that folder with the result.")
    ] = False,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Measure the relative error of estimators over many cases."""
    if write and folder is None:
        raise ValueError("write: expected --folder too, whose card is to be renewed")
    if truth is not None and pairs is not None:
        raise ValueError("pairs: cannot be combined with --truth, whose file has the cases")
    totals = terminal.split("budgets", budgets, int)
    names = None if estimators is None else terminal.split("estimators", estimators, str)
    chosen, proposals = terminal.load(problem, variant, folder)
    if write and names is None:
        from amci_core.training import card_estimators

        names = list(card_estimators(chosen, proposals))
    known: dict[str, Any] = {"pairs": 100 if pairs is None else pairs}
    if truth is None and not chosen.knows_truth:
        raise ValueError(f"--truth: expected a file of reference values, {problem} knows no truth")
    if truth is not None:
        from amci_core.errors import read_cases

        read = read_cases(truth, chosen)
        known = {"truth": read, "cases": (read.y, read.theta)}

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    screen = Console(stderr=True)
    columns = ("cases", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
    with bar:
        task = bar.add_task("cases", total=None)
        found = amci.evaluate(
            chosen,
            proposals,
            **known,
            runs=runs,
            budgets=totals,
            estimators=names,
            seed=seed,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if write and folder is not None:
        from amci_core.training import write_card

        write_card(folder, found)
    if form is terminal.Format.json:
        terminal.print_json(found.as_dict())
    else:
        _print(found)


def _print(found: Evaluation) -> None:
    title = (
        f"{found.problem} with {found.variant} proposals: relative mean squared error over "
        f"{found.runs} runs, median over {found.pairs} cases (quartiles)"
    )
    rows = []
    for name, errors in found.estimators.items():
        quartiles = zip(
            errors["remse_median"], errors["remse_q25"], errors["remse_q75"], strict=True
        )
        cells = [
            f"{terminal.number(median, 2)} ({terminal.number(q25, 2)}, {terminal.number(q75, 2)})"
            for median, q25, q75 in quartiles
        ]
        rows.append((name, *cells))
    terminal.print_table(title, ("draws", *(str(total) for total in found.budgets)), rows)
    for name, errors in found.estimators.items():
        for total, failed in zip(found.budgets, errors["failed"], strict=True):
            if failed:
                all_runs = found.pairs * found.runs
                typer.echo(f"{name} failed in {failed:,} of {all_runs:,} runs at {total} draws")
    for name, errors in found.estimators.items():
        for total, share in zip(found.budgets, errors["truth_matters"], strict=True):
            if share:
                cases = f"{round(share * found.pairs):,} of {found.pairs:,} cases"
                typer.echo(
                    f"{name} at {total} draws: in {cases} the reference value is not known well "
                    "enough to tell its error"
                )
    typer.echo(f"{found.seconds:.1f} s, {found.draws_per_second:.3g} draws per second")
