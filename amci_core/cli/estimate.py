r"""`amci estimate`: one estimate of mu(y, theta), beside the truth."""

from __future__ import annotations

__all__ = ["estimate"]

import math
from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal


def estimate(
    problem: terminal.ProblemName,
    y: Annotated[
        str | None,
        typer.Option(help="Observation: a number, or numbers with commas, if there is one."),
    ] = None,
    theta: Annotated[
        str | None, typer.Option(help="Parameters of f, in the same way, if the problem has any.")
    ] = None,
    draws: Annotated[int | None, typer.Option(help="Total number of draws. Default: 128.")] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="amci-cv (AMCI with control variates), amci, snis-q2, or another; a wrong name "
            "lists all. reuse takes --alpha and --beta."
        ),
    ] = "amci-cv",
    defensive: Annotated[
        float | None,
        typer.Option(help="Share of all draws from the defensive density. Default: 0.125."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Share of E1 from q1, with reuse.")] = None,
    beta: Annotated[float | None, typer.Option(help="Share of E2 from q1, with reuse.")] = None,
    shift: Annotated[
        float | None,
        typer.Option(
            help="A constant c: f - c is split into its signs, c is added back. Default: 0."
        ),
    ] = None,
    relative_error: Annotated[
        float | None,
        typer.Option(help="Draw until the 95 % interval's half-width is this share of mu."),
    ] = None,
    points: Annotated[
        str | None,
        typer.Option(
            help="independent (the default), or sobol: scrambled Sobol points; amci, amci-cv"
        ),
    ] = None,
    max_draws: Annotated[
        int | None, typer.Option(help="The most draws, in each way (1,000,000).")
    ] = None,
    escalate: Annotated[
        bool,
        typer.Option(
            "--escalate",
            help="If the verdict is not reliable, go on with half of the draws from the "
            "defensive density, then with a value that needs no proposals.",
        ),
    ] = False,
    variant: terminal.OptionalVariant = None,
    folder: terminal.FolderOption = None,
    seed: terminal.SeedOption = 0,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Estimate mu(y, theta), with its standard error, diagnostics and a verdict."""
    from amci_core.evaluation.sweep import origin

    given = {"y": y, "theta": theta}
    case = {k: None if v is None else terminal.split(k, v, float) for k, v in given.items()}
    chosen, proposals = terminal.load(problem, variant, folder)
    options: dict[str, Any] = {
        "draws": draws, "alpha": alpha, "beta": beta, "defensive": defensive, "shift": shift,
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    common: dict[str, Any] = {**case, "estimator": estimator, "points": points, "seed": seed}
    found: amci.estimation.Estimate | amci.estimation.Precise
    if relative_error is None:
        for name, value in {"max-draws": max_draws, "escalate": escalate or None}.items():
            if value is not None:
                raise ValueError(f"--{name}: needs --relative-error, such as 0.01")
        found = amci.estimate(chosen, proposals, **common, **options)
    elif options:
        raise ValueError(f"--relative-error: leave out --{', --'.join(options)}")
    else:
        if max_draws is not None:
            common["max_draws"] = max_draws
        found = amci.estimate_to(
            chosen, proposals, **common, relative_error=relative_error, escalate=escalate
        )
    result = {
        **origin(chosen, proposals),
        "estimator": estimator,
        **case,
        "seed": seed,
        "truth": chosen.truth(case["y"], case["theta"]) if chosen.knows_truth else None,
        **found.as_dict(),
    }
    if form is terminal.Format.json:
        terminal.print_json(result)
    else:
        _print(result, escalate)


def _print(result: dict[str, Any], escalate: bool) -> None:
    number = terminal.number
    case = ", ".join(
        f"{name} = {', '.join(map(number, result[name]))}"
        for name in ("y", "theta")
        if result[name] is not None
    )
    underflows = result["value"] == 0 and result["log_value"] > -math.inf
    rows = {
        "estimate": number(result["value"], 8),
        "its logarithm": number(result["log_value"], 8) if underflows else None,
        "standard error": number(result["standard_error"]),
        "relative": number(result["relative_standard_error"]) if underflows else None,
        "95 % interval": " to ".join(number(end, 8) for end in result["interval_95"]),
        "truth": None if result["truth"] is None else number(result["truth"], 8),
        "draws": str(result["draws"]),
        "reached": result.get("reached_text"),
    }
    if escalate:
        costs = [f"{way} {int(cost):,}" for way, cost in result["spent"].items()]
        rows |= {"answered by": str(result["answered_by"]), "cost": ", ".join(costs)}
    of = f"{result['problem']}, {case}" if case else result["problem"]
    terminal.print_table(
        f"{of}: {result['estimator']} with {result['variant']} proposals",
        ("quantity", "value"),
        [(name, text) for name, text in rows.items() if text is not None],
    )
    if "terms" in result:
        terminal.print_table(
            "Terms",
            ("term", "value", "ESS", "largest weight", "nonzero share", "k-hat", "at most"),
            [
                (
                    name,
                    number(term["value"]),
                    f"{term['smallest_ess']:,.1f} of {term['draws']:,}",
                    *(number(term[figure]) for figure in ("largest_weight", "nonzero_share")),
                    *(number(term[figure], 2) for figure in ("pareto_k", "pareto_threshold")),
                )
                for name, term in result["terms"].items()
                if "draws" in term
            ],
        )
    typer.echo(f"Verdict: {result['verdict']['text']}.")
    for reason in result["verdict"]["reasons"][1:]:
        typer.echo(f"  {reason}.")
