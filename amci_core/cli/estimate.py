r"""`amci estimate`: one estimate of mu(y, theta), beside the truth."""

from __future__ import annotations

__all__ = ["estimate"]

import math
from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli import terminal

# What JSON shows of a term's diagnostics.
FIGURES = (
    *("proposal", "effective_draws", "fewest_draws", "largest_share", "nonzero_share"),
    *("missed_share", "pareto_k", "pareto_threshold", "draws"),
)


def estimate(
    problem: terminal.ProblemName,
    y: Annotated[
        str | None,
        typer.Option(help="Observation: a number, or numbers with commas, where there is one."),
    ] = None,
    theta: Annotated[
        str | None, typer.Option(help="Parameters of f, likewise, where the problem has any.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws from each proposal. Default: 64.")
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="amci-cv (AMCI with control variates), amci, snis-q2, snis-q1, snis-qm, "
            "snis-qm-stratified, reuse-paper, amci-crn or reuse (with --alpha and --beta)."
        ),
    ] = "amci-cv",
    defensive: Annotated[
        float | None,
        typer.Option(help="Share of all draws from the defensive density. Default: 0.125."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Share of E1 from q1, with reuse.")] = None,
    beta: Annotated[float | None, typer.Option(help="Share of E2 from q1, with reuse.")] = None,
    shift: Annotated[
        str | None,
        typer.Option(
            help="A constant c: f - c is split into its signs, c is added back; or pilot. "
            "Default: 0."
        ),
    ] = None,
    total: Annotated[
        int | None,
        typer.Option(help="All draws together; AMCI splits them as a charged pilot says."),
    ] = None,
    relative_error: Annotated[
        float | None,
        typer.Option(help="Draw until the 95 % interval's half-width is this share of mu."),
    ] = None,
    max_draws: Annotated[int | None, typer.Option(help="The most draws (1,000,000).")] = None,
    variant: terminal.OptionalVariant = None,
    folder: terminal.FolderOption = None,
    seed: terminal.SeedOption = 0,
    form: terminal.FormatOption = terminal.Format.table,
) -> None:
    """Estimate mu(y, theta), with its standard error, diagnostics and a verdict."""
    texts = {"y": y, "theta": theta}
    case: dict[str, Any] = {
        k: None if v is None else terminal.split(k, v, float) for k, v in texts.items()
    }
    chosen, proposals = terminal.load(problem, variant, folder)
    options: dict[str, Any] = {
        "alpha": alpha, "beta": beta, "total": total, "shift": shift, "defensive": defensive
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    precision: dict[str, Any] = {}
    counted = total is not None or relative_error is not None
    if draws is not None and counted:
        raise ValueError("--draws: cannot be combined with --total or --relative-error")
    if not counted:
        draws = options["draws"] = 64 if draws is None else draws
    if relative_error is None:
        if max_draws is not None:
            raise ValueError("--max-draws: needs --relative-error")
        if shift not in (None, "pilot"):
            shifts = terminal.split("shift", shift, float)
            if len(shifts) != 1:
                raise ValueError(f"shift: expected one number or pilot, got {shift!r}")
            options["shift"] = shifts[0]
        found = amci.estimate(chosen, proposals, **case, estimator=estimator, seed=seed, **options)
    elif options:
        raise ValueError(f"relative_error: cannot be combined with {', '.join(options)}")
    else:
        precise = amci.estimate_to(
            chosen,
            proposals,
            **case,
            relative_error=relative_error,
            max_draws=1_000_000 if max_draws is None else max_draws,
            estimator=estimator,
            seed=seed,
        )
        found, precision = (
            precise.estimate,
            {
                "reached": precise.reached,
                "reached_text": precise.text,
                "relative_half_width": precise.relative_half_width,
            },
        )
    result = {
        "problem": chosen.name,
        "variant": proposals.variant,
        "estimator": estimator,
        **case,
        "shift": found.shift,
        "draws": draws,
        "draws_total": found.draws,
        "seed": seed,
        "value": found.value,
        "log_value": found.log_value,
        "standard_error": found.standard_error,
        "relative_standard_error": found.relative_standard_error,
        "interval_95": found.interval(0.95),
        "truth": chosen.truth(case["y"], case["theta"]) if chosen.knows_truth else None,
        "terms": {
            name: {"value": term.value, "log_value": term.log_value, "sign": term.sign}
            for name, term in found.terms.items()
        },
        "verdict": {name: getattr(found.verdict, name) for name in ("level", "text", "reasons")},
        "diagnostics": {
            name: {figure: getattr(term, figure) for figure in FIGURES}
            for name, term in found.diagnostics.items()
        },
        **precision,
    }
    if form is terminal.Format.json:
        terminal.print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
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
        "draws in all": str(result["draws_total"]),
        "reached": result.get("reached_text"),
    }
    of = f"{result['problem']}, {case}" if case else result["problem"]
    terminal.print_table(
        f"{of}: {result['estimator']} with {result['variant']} proposals",
        ("quantity", "value"),
        [(name, text) for name, text in rows.items() if text is not None],
    )
    terminal.print_table(
        "Terms",
        ("term", "value", "effective draws", "largest share", "nonzero share", "k-hat", "at most"),
        [
            (
                name,
                number(result["terms"][name]["value"]),
                f"{term['fewest_draws']:,.1f} of {term['draws']:,}",
                *(number(term[figure]) for figure in ("largest_share", "nonzero_share")),
                *(number(term[figure], 2) for figure in ("pareto_k", "pareto_threshold")),
            )
            for name, term in result["diagnostics"].items()
        ],
    )
    typer.echo(f"Verdict: {result['verdict']['text']}.")
    for reason in result["verdict"]["reasons"][1:]:
        typer.echo(f"  {reason}.")
