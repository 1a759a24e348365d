r"""`amci estimate`: one estimate of mu(y, theta), beside the truth."""

from __future__ import annotations

__all__ = ["estimate"]

from typing import Annotated, Any

import typer

import amci_core as amci
from amci_core.cli.options import (
    Format,
    FormatOption,
    ProblemName,
    SeedOption,
    VariantOption,
    load,
    split,
)
from amci_core.cli.output import number, print_json, print_table


def estimate(
    problem: ProblemName,
    y: Annotated[
        str | None,
        typer.Option(help="Observation: a number, or numbers with commas, where there is one."),
    ] = None,
    theta: Annotated[
        str | None, typer.Option(help="Parameters of f, likewise, where the problem has any.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws from each proposal.")] = 64,
    estimator: Annotated[
        str,
        typer.Option(
            help="amci, snis-q2, snis-q1, snis-qm, snis-qm-stratified, reuse-paper, "
            "reuse-optimal, amci-crn, reuse (with --alpha and --beta) or auto."
        ),
    ] = "amci",
    alpha: Annotated[float | None, typer.Option(help="Share of E1 from q1, with reuse.")] = None,
    beta: Annotated[float | None, typer.Option(help="Share of E2 from q1, with reuse.")] = None,
    shift: Annotated[
        str,
        typer.Option(
            help="A constant c: f - c is split into its signs, c is added back; or pilot."
        ),
    ] = "0",
    total: Annotated[
        int | None,
        typer.Option(help="All draws together, a pilot's with them, split as its moments say."),
    ] = None,
    relative_error: Annotated[
        float | None,
        typer.Option(help="Draw until the 95 % interval's half-width is this share of mu."),
    ] = None,
    max_draws: Annotated[int, typer.Option(help="The most draws for that.")] = 1_000_000,
    variant: VariantOption = "spline",
    seed: SeedOption = 0,
    form: FormatOption = Format.table,
) -> None:
    """Estimate mu(y, theta), with its standard error, diagnostics and a verdict."""
    y_values = None if y is None else split("y", y, float)
    theta_values = None if theta is None else split("theta", theta, float)
    chosen, proposals = load(problem, variant)
    if relative_error is None:
        found = amci.estimate(
            chosen,
            proposals,
            y_values,
            theta_values,
            draws=draws,
            estimator=estimator,
            alpha=alpha,
            beta=beta,
            shift=_constant(shift),
            total=total,
            seed=seed,
        )
    else:
        precise = amci.estimate_to(
            chosen,
            proposals,
            y_values,
            theta_values,
            relative_error=relative_error,
            max_draws=max_draws,
            estimator=estimator,
            seed=seed,
        )
        found = precise.estimate
    result: dict[str, Any] = {
        "problem": problem,
        "variant": variant,
        "estimator": estimator,
        "y": y_values,
        "theta": theta_values,
        "shift": found.shift,
        "draws": draws,
        "draws_total": found.draws,
        "seed": seed,
        "value": found.value,
        "standard_error": found.standard_error,
        "interval_95": found.interval(0.95),
        "truth": chosen.truth(y_values, theta_values) if chosen.knows_truth else None,
        "terms": {
            name: {"value": term.value, "log_value": term.log_value, "sign": term.sign}
            for name, term in found.terms.items()
        },
        "verdict": {
            "level": str(found.verdict.level),
            "text": found.verdict.text,
            "reasons": found.verdict.reasons,
        },
        "diagnostics": {
            name: {
                "proposal": term.proposal,
                "effective_draws": term.effective_draws,
                "largest_share": term.largest_share,
                "nonzero_share": term.nonzero_share,
                "missed_share": term.missed_share,
                "pareto_k": term.pareto_k,
                "pareto_threshold": term.pareto_threshold,
                "draws": term.draws,
            }
            for name, term in found.diagnostics.items()
        },
    }
    if relative_error is not None:
        result["reached"] = precise.reached
    if found.sharing is not None:
        result["decided"] = found.sharing.why[0]
    if form is Format.json:
        print_json(result)
    else:
        _print(result)


def _constant(text: str) -> float | str:
    """The shift that was asked for: a number, or `pilot`."""
    return text if text == "pilot" else split("shift", text, float)[0]


def _print(result: dict[str, Any]) -> None:
    given = ", ".join(
        f"{name} = {', '.join(number(v) for v in result[name])}"
        for name in ("y", "theta")
        if result[name] is not None
    )
    lower, upper = result["interval_95"]
    print_table(
        f"{result['problem']}, {given}: {result['estimator']} with {result['variant']} proposals",
        ("quantity", "value"),
        [
            ("estimate", number(result["value"], 8)),
            ("standard error", number(result["standard_error"])),
            ("95 % interval", f"{number(lower, 8)} to {number(upper, 8)}"),
            *([] if result["truth"] is None else [("truth", number(result["truth"], 8))]),
            ("draws in all", str(result["draws_total"])),
            *([("reached", "yes" if result["reached"] else "no")] if "reached" in result else []),
            *([("decided", result["decided"])] if "decided" in result else []),
        ],
    )
    print_table(
        "Terms",
        ("term", "value", "effective draws", "largest share", "nonzero share", "k-hat", "at most"),
        [
            (
                name,
                number(result["terms"][name]["value"]),
                f"{number(term['effective_draws'])} of {term['draws']}",
                number(term["largest_share"]),
                number(term["nonzero_share"]),
                number(term["pareto_k"], 2),
                number(term["pareto_threshold"], 2),
            )
            for name, term in result["diagnostics"].items()
        ],
    )
    typer.echo(f"Verdict: {result['verdict']['text']}.")
    for reason in result["verdict"]["reasons"][1:]:
        typer.echo(f"  {reason}.")
