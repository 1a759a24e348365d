r"""Writes docs/reach.md from the evaluations that come along: `python docs/reach.py`."""

from __future__ import annotations

__all__ = ["PAGE", "main", "render"]

import json
from pathlib import Path

from amci_core import problems
from amci_core.files import pretrained_root

PAGE = Path(__file__).resolve().with_name("reach.md")
HEAD = """# What the proposals reach

From `pretrained/<problem>/<variant>/evaluation.json`, which `amci train` writes and `amci
evaluate` makes again; `python docs/reach.py` writes this page from them. Errors are relative mean
squared errors (ReMSE) at equal total draws, over pairs (y, θ) from p(y) p(θ); for gain-loss, whose
μ passes through zero, mean squared errors say more, and the README has them.

`bound` is the SNIS bound: asymptotic, for independent draws from one proposal.
`snis-qm-stratified` takes a fixed number of draws from each proposal. The bound does not apply
to it, and it is the rival to watch wherever q₁ and q₂ hardly overlap.
"""


def render() -> str:
    """The page, from the evaluations that are there now."""
    sections = [HEAD]
    for name in problems():
        for path in sorted((pretrained_root() / name).glob("*/evaluation.json")):
            sections.append(_section(name, path.parent.name, json.loads(path.read_text())))
    return "\n".join(sections)


def _section(name: str, variant: str, found: dict) -> str:
    budgets = found["budgets"]
    head = " | ".join(f"T = {total:,}" for total in budgets)
    rows = [
        f"## {name}, {variant}\n",
        f"{found['pairs']} pairs, {found['runs']} runs each.\n",
        f"| estimator | over pairs | {head} |",
        "|---" * (len(budgets) + 2) + "|",
    ]
    for estimator, errors in found["estimators"].items():
        fields = [("median", "remse_median")]
        if estimator != "bound":
            fields += [("95 %", "remse_q95"), ("largest", "remse_max")]
        for label, field in fields:
            cells = " | ".join("" if v is None else f"{v:.1e}" for v in errors[field])
            rows.append(f"| {estimator} | {label} | {cells} |")
    share = found["below_bound"]["amci"][-1]
    doubt = ""
    if "undecided_bound" in found:
        open_share = found["undecided_bound"]["amci"][-1]
        doubt = f"; in {open_share:.0%} it cannot be told within 2 standard errors"
    rivals = {n: e["remse_median"][-1] for n, e in found["estimators"].items() if "snis" in n}
    best = min(rivals, key=rivals.__getitem__)
    lead = rivals[best] / found["estimators"]["amci"]["remse_median"][-1]
    rows.append(
        f"\nAt T = {budgets[-1]:,} the SNIS with the least median is {best}, "
        f"{float(f'{lead:.2g}'):,g} times AMCI's. AMCI lies below the bound in "
        f"{share:.0%} of the pairs{doubt}.\n"
    )
    return "\n".join(rows)


def main() -> None:
    """Writes the page."""
    PAGE.write_text(render())


if __name__ == "__main__":
    main()
