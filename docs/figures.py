r"""Writes docs/figures.md from what `amci figure all --out FOLDER` made: `python docs/figures.py FOLDER`.

What the paper says in words is held against the data of the figures, claim by claim, with the
Monte Carlo error of our number. A claim whose data are not there is said to be open.
"""

from __future__ import annotations

__all__ = ["PAGE", "main", "render"]

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from amci_core.errors import Cases, read_sweep
from amci_core.errors.rows import cases_of
from amci_core.errors.spread import quantiles
from amci_core.figures import FIGURES

PAGE = Path(__file__).resolve().with_name("figures.md")
PICTURES = PAGE.with_name("figures")
HEAD = """# The paper's figures today

`amci figure all --out FOLDER --workers 2` makes every figure of this page from the shipped weights, as PDF and PNG, with its data as Parquet; each file
names the command, versions, seeds and hashes of weights that it came from. The same command after a kill goes on where it stopped. With the
data in FOLDER, `python docs/figures.py FOLDER` writes this page.

*paper* is the paper's architecture and objective, trained by us; *spline* is what this package trains by default. Both are compared at
equal **total** draws T, all proposals together (the paper's N counts those of one). Lines are medians over cases of the mean over 100 runs.
The band is over runs, as in the paper: quartiles of one run's error, medians over cases; in the appendix it is over cases. A hollow marker: in
more than half of the cases the runs do not settle the mean, and it can be larger. There are 100 cases and up to 10,000 draws; for the paper's own
networks for tail-5d and cancer, of which a draw costs twenty times that of a spline, up to 1,000: the evaluation that is stored beside the weights.
"""
TITLES = {
    "fig1": "Fig. 1: tail integrals",
    "fig2": "Fig. 2: planning cancer treatment",
    "fig3": "Fig. 3: large and small mismatch, with sharing as the third column",
    "appendix_q1": "Appendix: SNIS q1, and mean squared errors",
    "appendix_cases": "Appendix: spread over cases",
    "mismatch": "Not in the paper: gain against mismatch",
    "dimension": "Not in the paper: gain against dimension",
    "training": "Not in the paper: error against training time",
}
OPEN = "*open: these data were not computed*"


class Data:
    """Sweeps of a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[np.ndarray, Cases]:
        """Budgets and cases; FileNotFoundError where there are none."""
        path = self.folder / "data" / f"{name}.parquet"
        if not path.exists():
            raise FileNotFoundError(path)
        noted, table = read_sweep(path)
        return np.array(noted["settings"]["budgets"]), Cases(cases_of(table))


def number(value: float, error: float | None = None) -> str:
    """A number with its standard error."""
    said = (
        f"{value:.2g}" if abs(value) < 1000 else f"{value:,.0f}" if value < 1e6 else f"{value:.1e}"
    )
    return said if error is None or not np.isfinite(error) else f"{said} ± {error:.1g}"


def gain(data: Data, name: str, over: str, total: int) -> str:
    """Median over cases of another's error over that of AMCI."""
    budgets, cases = data(name)
    rank = int(np.flatnonzero(budgets == total)[0])
    own, other = (cases.by_name[e]["mse"][:, rank] for e in ("amci", over))
    (median,), (error,) = quantiles(other / own, [0.5])
    return number(median, error)


def both(data: Data, problem: str, over: str, total: int) -> str:
    """The gain with paper and spline proposals."""
    return ", ".join(
        f"{variant} {gain(data, f'{problem}-{variant}', over, total)}"
        for variant in ("paper", "spline")
    )


def against(data: Data, name: str, first: str, second: str, total: int) -> str:
    """Median over cases of the first's error over the second's."""
    budgets, cases = data(name)
    rank = int(np.flatnonzero(budgets == total)[0])
    ratio = cases.by_name[first]["mse"][:, rank] / cases.by_name[second]["mse"][:, rank]
    (median,), (error,) = quantiles(ratio, [0.5])
    return number(median, error)


def share(data: Data, name: str, true: Callable[[Cases, int], np.ndarray], total: int) -> str:
    """Share of cases, with its standard error."""
    budgets, cases = data(name)
    found = true(cases, int(np.flatnonzero(budgets == total)[0]))
    p = float(np.mean(found))
    return (
        f"{100 * p:.0f} ± {100 * np.sqrt(max(p * (1 - p), 0.25 / len(found)) / len(found)):.1g} %"
    )


def draws_for(data: Data, name: str, estimator: str, total: int) -> str:
    """Draws after which an estimator's median error is that of AMCI with `total`."""
    budgets, cases = data(name)
    wanted = np.nanmedian(
        cases.by_name["amci"]["remse"][:, int(np.flatnonzero(budgets == total)[0])]
    )
    median = np.nanmedian(cases.by_name[estimator]["remse"], axis=0)
    reached = np.flatnonzero(median <= wanted)
    if not len(reached):
        return f"more than {budgets[-1]:,} (there its ReMSE is {number(median[-1])}, and AMCI's {number(wanted)} with {total})"
    return f"{budgets[reached[0]]:,}"


def median_of(data: Data, name: str, estimator: str, total: int, figure: str = "remse") -> str:
    """A median over cases, with its standard error."""
    budgets, cases = data(name)
    values = cases.by_name[estimator][figure][:, int(np.flatnonzero(budgets == total)[0])]
    (median,), (error,) = quantiles(values, [0.5])
    return number(median, error)


def below_bound(cases: Cases, rank: int) -> np.ndarray:
    """Where AMCI's error is below the bound by more than 2 standard errors, and settled."""
    own, bound = cases.by_name["amci"], cases.by_name["bound"]["mse"][:, rank]
    clear = own["mse"][:, rank] + 2 * own["mse_error"][:, rank] < bound
    return clear & (own["mean_judged"][:, rank] != 0)


def _claims() -> list[tuple[str, str, Callable[[Data], str]]]:
    """Section, what the paper says, and our number."""
    return [
        ("fig1", "1-D: AMCI beats SNIS q2: error over AMCI's, T = 1,000", lambda d: both(d, "tail-1d", "snis-q2", 1000)),
        ("fig1", "1-D: AMCI beats SNIS qm, by about 10^3: error over AMCI's, T = 1,000", lambda d: both(d, "tail-1d", "snis-qm", 1000)),
        ("fig1", "1-D: AMCI beats the theoretical bound: bound over AMCI's error, T = 1,000", lambda d: both(d, "tail-1d", "bound", 1000)),
        ("fig1", "1-D: SNIS qm closely matches the bound: qm over bound, T = 10,000, spline", lambda d: against(d, "tail-1d-spline", "snis-qm", "bound", 10_000)),
        ("fig1", "1-D: SNIS q2 typically places no draw in the tail: cases whose median run answers 0, T = 10,000", lambda d: share(d, "tail-1d-spline", lambda c, i: c.by_name["snis-q2"]["remse_median"][:, i] == 1, 10_000)),
        ("fig1", "5-D: AMCI beats SNIS q2: error over AMCI's, T = 1,000", lambda d: both(d, "tail-5d", "snis-q2", 1000)),
        ("fig1", "5-D: AMCI beats SNIS qm, by less than in 1-D: error over AMCI's, T = 1,000", lambda d: both(d, "tail-5d", "snis-qm", 1000)),
        ("fig1", "5-D: AMCI does not beat the bound: bound over AMCI's error, T = 1,000", lambda d: both(d, "tail-5d", "bound", 1000)),
        ("fig1", "5-D: SNIS qm does not match the bound as closely: qm over bound, T = 1,000, paper", lambda d: against(d, "tail-5d-paper", "snis-qm", "bound", 1000)),
        ("fig1", "5-D: SNIS qm reaches a ReMSE of 10^18 at N = 2: ours at T = 2, paper (median over cases)", lambda d: median_of(d, "tail-5d-paper", "snis-qm", 2)),
        ("fig2", "cancer: SNIS q2 needs about 10^4 draws for AMCI's error at 2: ours, paper", lambda d: draws_for(d, "cancer-paper", "snis-q2", 2)),
        ("fig2", "the same, spline", lambda d: draws_for(d, "cancer-spline", "snis-q2", 2)),
        ("fig2", "cancer: AMCI beats the bound in some cases: cases surely below it, T = 1,000, paper", lambda d: share(d, "cancer-paper", below_bound, 1000)),
        ("fig2", "the same, spline", lambda d: share(d, "cancer-spline", below_bound, 1000)),
        ("fig2", "cancer: error of SNIS qm over AMCI's, T = 1,000", lambda d: both(d, "cancer", "snis-qm", 1000)),
        ("fig3", "the gain is much larger where the mismatch is large: bound over AMCI's error at T = 1,000, (1, 3) then (3, 0.1), paper", lambda d: _fig3(d, "paper")),
        ("fig3", "the same, spline", lambda d: _fig3(d, "spline")),
        ("fig3", "sharing helps where targets are well matched: ReMSE of AMCI over the best of the grid at (3, 0.1), 64 draws each, paper", lambda d: _sharing(d, "paper")),
        ("fig3", "the same, spline", lambda d: _sharing(d, "spline")),
        ("appendix_q1", "SNIS q1 is far worse than q2 on the tails: q1 over q2, T = 1,000, tail-1d spline", lambda d: against(d, "tail-1d-spline", "snis-q1", "snis-q2", 1000)),
        ("appendix_q1", "SNIS q1 on the 5-D tail has a mean squared error of 10^-0.9 at N = 2: ours at T = 2, paper", lambda d: median_of(d, "tail-5d-paper", "snis-q1", 2, "mse")),
        ("appendix_q1", "cancer: SNIS q1 is worse than even q2: q1 over q2, T = 1,000, spline", lambda d: against(d, "cancer-spline", "snis-q1", "snis-q2", 1000)),
        ("appendix_cases", "cancer: there are cases in which AMCI is worse than SNIS qm: share, T = 1,000, paper", lambda d: share(d, "cancer-paper", lambda c, i: c.by_name["amci"]["mse"][:, i] > c.by_name["snis-qm"]["mse"][:, i], 1000)),
        ("appendix_cases", "the same, spline", lambda d: share(d, "cancer-spline", lambda c, i: c.by_name["amci"]["mse"][:, i] > c.by_name["snis-qm"]["mse"][:, i], 1000)),
        ("appendix_cases", "cancer: AMCI is always better than SNIS q2: share of cases, T = 1,000, spline", lambda d: share(d, "cancer-spline", lambda c, i: c.by_name["amci"]["mse"][:, i] < c.by_name["snis-q2"]["mse"][:, i], 1000)),
    ]  # fmt: skip


def _fig3(data: Data, variant: str) -> str:
    budgets, cases = data(f"fig3-{variant}")
    rank = int(np.flatnonzero(budgets == 1000)[0])
    own, bound = cases.by_name["amci"], cases.by_name["bound"]["mse"][:, rank]
    ratio = bound / own["mse"][:, rank]
    error = ratio * own["mse_error"][:, rank] / own["mse"][:, rank]
    return ", then ".join(number(r, e) for r, e in zip(ratio, error, strict=True))


def _sharing(data: Data, variant: str) -> str:
    import pyarrow.parquet as pq

    path = data.folder / "data" / f"fig3-reuse-{variant}-1.parquet"
    if not path.exists():
        raise FileNotFoundError(path)
    table = pq.read_table(path)
    alpha, beta, remse = (table.column(n).to_numpy() for n in ("alpha", "beta", "remse"))
    judged = table.column("judged").to_numpy(zero_copy_only=False)
    (amci,) = remse[(alpha == 1) & (beta == 0)]
    best = int(np.argmin(np.where(judged, remse, np.inf)))
    at = f"at α = {alpha[best]:.2f}, β = {beta[best]:.2f}"
    return f"{number(float(amci / remse[best]))} ({at}; the least of a grid is a little lucky)"


def render(folder: Path) -> str:
    """The page, and beside it the pictures that are there."""
    data, sections = Data(folder), [HEAD]
    PICTURES.mkdir(exist_ok=True)
    claims = _claims()
    for name in FIGURES:
        file = f"{name.replace('_', '-')}.png"
        sections.append(f"## {TITLES[name]}\n")
        if (folder / file).exists():
            shutil.copyfile(folder / file, PICTURES / file)
        if (PICTURES / file).exists():
            sections.append(f"![{TITLES[name]}](figures/{file})\n")
        rows = []
        for of, claim, compute in claims:
            if of == name:
                try:
                    rows.append(f"| {claim} | {compute(data)} |")
                except (FileNotFoundError, IndexError):
                    rows.append(f"| {claim} | {OPEN} |")
        if rows:
            sections.append(
                "\n".join(
                    ["| what the paper says, and our measure | ours |", "|---|---|", *rows, ""]
                )
            )
    return "\n".join(sections)


def main() -> None:
    """Writes the page."""
    PAGE.write_text(render(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
