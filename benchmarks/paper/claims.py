r"""Compares the paper's claims with the figures' data: `python -m benchmarks.paper.claims FOLDER`.

FOLDER is what `make figures` wrote; docs/results/figures.md and the pictures beside it are renewed.

What the paper says in words is held against the data of the figures, claim by claim, with the
Monte Carlo error of our number. A claim whose data are not there is said to be open.
"""

from __future__ import annotations

__all__ = ["CLAIMS", "PAGE", "main", "render"]

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import amci_core as amci
from amci_core.evaluation.cases import MARGIN, Cases
from amci_core.evaluation.sweep import read_sweep
from benchmarks.paper.__main__ import FIGURES
from benchmarks.paper.beyond import DIMENSIONS, DRAWS, MINUTES, PROBLEMS
from benchmarks.paper.drawing import quantiles

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "figures.md"
PICTURES = PAGE.with_name("figures")
HEAD = """# The paper's figures today

`make figures` (OUT=FOLDER WORKERS=2) makes every figure of this page from the shipped weights, as SVG and PDF, with its data as Parquet; each Parquet
file names the command, versions, seeds and hashes of weights that it came from, as JSON under the key `amci` of its metadata. The same command after a kill goes on where it
stopped; `QUICK=1` tries it in minutes. With the data in FOLDER, `python -m benchmarks.paper.claims FOLDER` writes this page.

**Measured with version 0.2**, from weights that version 0.3.0 ships unchanged. Since then the rules by which runs *determine* a mean have changed, and more rows could be decided
otherwise; every number that they do not enter holds.

*paper* is the paper's architecture and objective, trained by us; *spline* is what this package trains by default. Both are compared at
equal **total** draws T, all proposals together (the paper's N counts those of one; where a claim is about SNIS alone, which has one proposal, T is N). Lines are medians over cases of the mean over 100 runs.
The band is over runs, as in the paper: quartiles of one run's error, medians over cases; in the appendix it is over cases. A vertical bar is the line's
standard error. Relative errors above 10³, in the appendix above 10⁶, are cut off: there SNIS q1 lies above the picture. A hollow marker: in
more than half of the cases the runs do not determine the mean, and it can be larger. There are 100 cases and up to 10,000 draws; for the paper's own
networks for tail-5d and cancer, whose draws are slow, up to 1,000: the evaluation that is stored beside the weights.

The *bound* is asymptotic, for independent draws from one proposal, and *SNIS qm* is that: each of its draws comes from q1 or q2 by chance. With fixed numbers of draws from
each (`snis-qm-stratified`) it can lie far below the bound, on tail-5d as low as AMCI. The paper has no such estimator, so these figures have none; [reach](reach.md) has it.

A number comes with its standard error over cases and runs, which is rough where it spreads over orders of magnitude and a factor is given. The last column judges the
paper's words: **holds** and **does not hold** are said beyond two standard errors, and where means that 100 runs do not determine would not turn it if they were
a hundred times larger; else it is *not decided*. Our trainings of the paper's networks are
not the authors': where a claim is about how good theirs were, it says so.
"""
TITLES = {
    "fig1": "Fig. 1: tail integrals",
    "fig2": "Fig. 2: planning cancer treatment",
    "fig3": "Fig. 3: large and small mismatch, with sharing as the third column",
    "appendix-q1": "Appendix: SNIS q1, and mean squared errors",
    "appendix-cases": "Appendix: spread over cases",
    "mismatch": "Not in the paper: gain against mismatch",
    "dimension": "Not in the paper: gain against dimension",
    "training": "Not in the paper: error against training time",
}
VARIANTS = ("paper", "spline")
OPEN = "*open: these data were not computed*"
SAID = {True: "**holds**", False: "**does not hold**", None: "*not decided*"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Squared errors of normal size spread by sqrt(2) of their mean: so much the ratio of two means over
# 1,000 runs, if these were independent.
SPREAD = float(np.sqrt(2 * 2 / 1000))
# From this error of a logarithm on it is said as a factor.
WIDE = 0.3
# Standard errors beyond which something is said.
SURE = 2.0


class Data:
    """Sweeps of a folder, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, total: int | None = None) -> tuple[np.ndarray, int, Cases]:
        """Total draws, the rank of one of them (the last by default), and cases.

        Raises:
            FileNotFoundError: there are none.
        """
        path = self.folder / "data" / f"{name}.parquet"
        if not path.exists():
            raise FileNotFoundError(path)
        noted, table = read_sweep(path)
        draws = np.array(noted["settings"]["draws"])
        rank = -1 if total is None else int(np.flatnonzero(draws == total)[0])
        return draws, rank, Cases(table)


@dataclass(frozen=True)
class Number:
    """A number with its standard error, in the unit that is said.

    Arguments:
        value: It.
        error: Its standard error; NaN where there is none.
        unit: What stands behind it.
        factor: Whether the error is that of the number's logarithm.
        least: What it is if all that is not determined turns out to lower it; NaN where all is.
        most: What it is if all that is not determined turns out to raise it; NaN where all is.
    """

    value: float
    error: float = float("nan")
    unit: str = ""
    factor: bool = False
    least: float = float("nan")
    most: float = float("nan")

    def __str__(self) -> str:
        if not np.isfinite(self.error):
            return f"{_short(self.value)}{self.unit}"
        if self.factor and self.error > WIDE:
            return f"{_power(self.value)}{self.unit}, up to a factor of {np.exp(self.error):.2g}"
        error = self.value * self.error if self.factor else self.error
        if self.value and not 0.01 <= abs(self.value) < 1e6:
            power = 10.0 ** np.floor(np.log10(abs(self.value)))
            return f"({Number(self.value / power, error / power)}) · {_power(power)}{self.unit}"
        return f"{_short(self.value)} ± {float(f'{error:.1g}'):,g}{self.unit}"

    def above(self, limit: float) -> bool | None:
        """Whether it lies above a limit; None where that is not decided."""
        doubt = SURE * np.nan_to_num(self.error)
        low, high = self.value - doubt, self.value + doubt
        if self.factor:
            low, high = self.value * np.exp(-doubt), self.value * np.exp(doubt)
        if np.fmin(low, self.least) > limit:
            return True
        return False if np.fmax(high, self.most) < limit else None


@dataclass(frozen=True)
class Claim:
    """Something that the paper says.

    Arguments:
        figure: The figure that shows it.
        says: What the paper says.
        measure: What we measured.
        number: From data and a variant to a number, or to words.
        holds: Whether a number agrees; None where that is not decided.
        variants: The proposals that it is measured with.
    """

    figure: str
    says: str
    measure: str
    number: Callable[[Data, str], Number | str]
    holds: Callable[[Number], bool | None]
    variants: tuple[str, ...] = VARIANTS

    def row(self, data: Data) -> str:
        """A row of the page's table."""
        found: dict[str, Number | str] = {}
        for variant in self.variants:
            try:
                found[variant] = self.number(data, variant)
            except (FileNotFoundError, IndexError):
                found[variant] = OPEN
        verdicts = {
            variant: SAID[self.holds(number) if isinstance(number, Number) else None]
            for variant, number in found.items()
        }
        if len(set(verdicts.values())) == 1:
            verdict = next(iter(verdicts.values()))
        else:
            verdict = "; ".join(f"{variant}: {said}" for variant, said in verdicts.items())
        cells = [str(found.get(variant, "–")) for variant in VARIANTS]
        return f"| {self.says} | {self.measure} | {' | '.join(cells)} | {verdict} |"


def above(limit: float) -> Callable[[Number], bool | None]:
    """The judgement that a number lies above a limit."""
    return lambda number: number.above(limit)


def below(limit: float) -> Callable[[Number], bool | None]:
    """The judgement that a number lies below a limit."""

    def holds(number: Number) -> bool | None:
        over = number.above(limit)
        return None if over is None else not over

    return holds


def about(value: float, times: float = 3.0) -> Callable[[Number], bool | None]:
    """The judgement that a number is of that size, up to a factor."""

    def holds(number: Number) -> bool | None:
        outside = number.above(value * times), below(value / times)(number)
        return False if True in outside else None if None in outside else True

    return holds


def ratio(
    problem: str, first: str, second: str = "amci", total: int = 1000
) -> Callable[[Data, str], Number]:
    """Median over cases of one estimator's error over another's.

    A mean that its runs do not determine can be a hundred times larger than it looks.
    """

    def number(data: Data, variant: str) -> Number:
        _, rank, cases = data(f"{problem}-{variant}", total)
        above, under = cases.by_name[first], cases.by_name[second]
        over = above["mse"][:, rank] / under["mse"][:, rank]
        open_above, open_under = (e["determined"][:, rank] == 0 for e in (above, under))
        found = _median(over)
        return replace(
            found,
            least=float(np.median(np.where(open_under, over / MARGIN, over))),
            most=float(np.median(np.where(open_above, over * MARGIN, over))),
        )

    return number


def of_medians(
    first: tuple[str, str], second: tuple[str, str], total: int = 1000
) -> Callable[[Data, str], Number]:
    """The median error of one (problem, estimator) over that of another, as curves show it."""

    def number(data: Data, variant: str) -> Number:
        found = []
        for problem, estimator in (first, second):
            _, rank, cases = data(f"{problem}-{variant}", total)
            found.append(_median(cases.by_name[estimator]["remse"][:, rank]))
        value = found[0].value / found[1].value
        return Number(value, float(np.hypot(found[0].error, found[1].error)), factor=True)

    return number


def median(
    problem: str, estimator: str, total: int, figure: str = "remse"
) -> Callable[[Data, str], Number]:
    """Median over cases of an error."""

    def number(data: Data, variant: str) -> Number:
        _, rank, cases = data(f"{problem}-{variant}", total)
        return _median(cases.by_name[estimator][figure][:, rank])

    return number


def share(
    problem: str, true: Callable[[Cases, int], np.ndarray], total: int = 1000
) -> Callable[[Data, str], Number]:
    """Share of the cases, in per cent."""

    def number(data: Data, variant: str) -> Number:
        _, rank, cases = data(f"{problem}-{variant}", total)
        found = true(cases, rank)
        p, n = float(np.mean(found)), len(found)
        # Half of the longer side of Wilson's interval of 2 standard errors.
        middle = (p + SURE**2 / (2 * n)) / (1 + SURE**2 / n)
        half = SURE * np.sqrt(p * (1 - p) / n + SURE**2 / (4 * n**2)) / (1 + SURE**2 / n)
        error = max(middle + half - p, p - middle + half) / SURE
        return Number(100 * p, 100 * float(error), " %")

    return number


def surely_worse(first: str, second: str) -> Callable[[Cases, int], np.ndarray]:
    """Where one estimator's error is above another's by 2 standard errors, both determined."""

    def true(cases: Cases, rank: int) -> np.ndarray:
        one, other = cases.by_name[first], cases.by_name[second]
        gap = one["mse"][:, rank] - other["mse"][:, rank]
        doubt = SURE * np.hypot(one["mse_error"][:, rank], other["mse_error"][:, rank])
        return (gap > doubt) & (one["determined"] * other["determined"] != 0)[:, rank]

    return true


def least_squares(cases: Cases, rank: int) -> np.ndarray:
    """Where AMCI's mean squared error is the least of all estimators that draw."""
    mse = {name: figures["mse"][:, rank] for name, figures in cases.by_name.items()}
    others = [values for name, values in mse.items() if name not in ("amci", "bound")]
    return mse["amci"] < np.min(others, axis=0)


def below_bound(cases: Cases, rank: int) -> np.ndarray:
    """Where AMCI's error is below the bound by more than 2 standard errors, and determined."""
    own, bound = cases.by_name["amci"], cases.by_name["bound"]["mse"][:, rank]
    clear = own["mse"][:, rank] + SURE * own["mse_error"][:, rank] < bound
    return clear & (own["determined"][:, rank] != 0)


def undetermined(estimator: str) -> Callable[[Cases, int], np.ndarray]:
    """Where 100 runs do not determine an estimator's mean."""
    return lambda cases, rank: cases.by_name[estimator]["determined"][:, rank] == 0


def draws_for(problem: str, estimator: str, total: int) -> Callable[[Data, str], Number | str]:
    """Draws after which an estimator's median error is that of AMCI with `total`."""

    def number(data: Data, variant: str) -> Number | str:
        draws, _, cases = data(f"{problem}-{variant}")
        own, errors = (
            np.nanmedian(cases.by_name[e]["remse"], axis=0) for e in ("amci", estimator)
        )
        # Between two totals on a line of logarithms.
        wanted = float(np.exp(np.interp(np.log(total), np.log(draws), np.log(own))))
        reached = np.flatnonzero(errors <= wanted)
        if not len(reached):
            left = f"{_short(errors[-1])}, wanted {_short(wanted)}"
            return f"more than {draws[-1]:,} (there {left})"
        return Number(float(draws[reached[0]]))

    return number


def quartiles(estimator: str, other: str, problem: str) -> Callable[[Data, str], Number]:
    """The upper quartile over cases of an estimator's error, over that of another."""

    def number(data: Data, variant: str) -> Number:
        _, rank, cases = data(f"{problem}-{variant}", 1000)
        found = [quantiles(cases.by_name[e]["remse"][:, rank], [0.75]) for e in (estimator, other)]
        (own, its), (own_error, its_error) = (
            [float(part[i][0]) for part in found] for i in range(2)
        )
        return Number(own / its, own / its * float(np.hypot(own_error / own, its_error / its)))

    return number


def of_case(rank_of_case: int) -> Callable[[Data, str], Number]:
    """Bound over AMCI's error in a case of Fig. 3, at T = 1,000."""

    def number(data: Data, variant: str) -> Number:
        _, rank, cases = data(f"fig3-{variant}", 1000)
        own, bound = cases.by_name["amci"], cases.by_name["bound"]["mse"][rank_of_case, rank]
        gain = float(bound / own["mse"][rank_of_case, rank])
        error = own["mse_error"][rank_of_case, rank] / own["mse"][rank_of_case, rank]
        return Number(gain, gain * float(error))

    return number


def at_least_mismatch(data: Data, variant: str) -> Number:
    """SNIS q2's error over AMCI's where cancer's mismatch is least, at T = 1,000."""
    _, rank, cases = data("mismatch-cancer")
    own, of = cases.by_name["amci"], cases.by_name["snis-q2"]
    gain = float(of["mse"][0, rank] / own["mse"][0, rank])
    shares = [e["mse_error"][0, rank] / e["mse"][0, rank] for e in (own, of)]
    return Number(gain, gain * float(np.hypot(*shares)))


def sharing(case: int, *, only_alpha: bool) -> Callable[[Data, str], Number]:
    """AMCI's error over the least on the grid of (alpha, beta), or with beta = 0."""

    def number(data: Data, variant: str) -> Number:
        path = data.folder / "data" / f"fig3-reuse-{variant}-{case}.parquet"
        if not path.exists():
            raise FileNotFoundError(path)
        table = pq.read_table(path)
        alpha, beta, remse = (table.column(n).to_numpy() for n in ("alpha", "beta", "remse"))
        determined = table.column("determined").to_numpy(zero_copy_only=False)
        (of_amci,) = remse[(alpha == 1) & (beta == 0)]
        allowed = determined & (beta == 0) if only_alpha else determined
        best = int(np.argmin(np.where(allowed, remse, np.inf)))
        at = f"α = {alpha[best]:.2f}" + ("" if only_alpha else f", β = {beta[best]:.2f}")
        gain = float(of_amci / remse[best])
        return Number(gain, SPREAD * gain, f" (at {at})")

    return number


TAIL1, TAIL5 = "tail-1d", "tail-5d"
OVER = "its error over AMCI's, T = 1,000"
BOUND = "bound over AMCI's error, T = 1,000"
CLAIMS = [
    Claim("fig1", "1-D: AMCI significantly outperforms SNIS q2", OVER, ratio(TAIL1, "snis-q2"), above(1)),
    Claim("fig1", "1-D: AMCI outperforms SNIS qm", OVER, ratio(TAIL1, "snis-qm"), above(1)),
    Claim("fig1", "1-D: SNIS qm takes about 10³ times more draws than AMCI (about how well theirs were trained)", OVER, ratio(TAIL1, "snis-qm"), about(1e3)),
    Claim("fig1", "1-D: AMCI outperforms the optimal SNIS estimator", BOUND, ratio(TAIL1, "bound"), above(1)),
    Claim("fig1", "1-D: SNIS qm closely matches the bound", "qm over bound, T = 10,000", ratio(TAIL1, "snis-qm", "bound", 10_000), about(1, 1.25)),
    Claim("fig1", "1-D: SNIS q2 typically places no draw in the tail, even for large N", "cases whose median run answers 0, T = 10,000", share(TAIL1, lambda c, i: c.by_name["snis-q2"]["remse_median"][:, i] == 1, 10_000), above(50)),
    Claim("fig1", "5-D: AMCI significantly outperforms SNIS q2", OVER, ratio(TAIL5, "snis-q2"), above(1)),
    Claim("fig1", "5-D: AMCI outperforms SNIS qm", OVER, ratio(TAIL5, "snis-qm"), above(1)),
    Claim("fig1", "5-D: AMCI does not outperform the bound", BOUND, ratio(TAIL5, "bound"), below(1)),
    Claim("fig1", "5-D: SNIS qm does not match the bound as closely", "qm's median error, 5-D over 1-D, T = 1,000", of_medians((TAIL5, "snis-qm"), (TAIL1, "snis-qm")), above(1)),
    Claim("fig1", "5-D: SNIS qm reaches a ReMSE of 10¹⁸ at N = 2", "median over cases, T = 2", median(TAIL5, "snis-qm", 2), about(1e18, 10)),
    Claim("fig2", "SNIS q2 needs about 10⁴ draws for the error of AMCI with N = M = 2", "draws needed", draws_for("cancer", "snis-q2", 4), about(1e4)),
    Claim("fig2", "AMCI significantly outperforms SNIS q2", OVER, ratio("cancer", "snis-q2"), above(1)),
    Claim("fig2", "AMCI keeps an advantage over SNIS qm", OVER, ratio("cancer", "snis-qm"), above(1)),
    Claim("fig2", "SNIS qm closely matches the optimal SNIS", "qm's median error over the bound's, T = 1,000", of_medians(("cancer", "snis-qm"), ("cancer", "bound")), about(1, 1.25)),
    Claim("fig2", "in some cases AMCI beats the bound (for the paper the best of any SNIS; right: of many independent draws from one proposal)", "cases surely below the bound, T = 1,000", share("cancer", below_bound), above(0)),
    Claim("fig3", "the gain is much larger where the mismatch is large: (1, 3)", BOUND, of_case(0), above(10)),
    Claim("fig3", "little to gain, perhaps a loss, where it is small: (3, 0.1)", BOUND, of_case(1), below(2)),
    Claim("fig3", "where f p and p are closely matched AMCI can be worse than SNIS", "q2's error over AMCI's, cancer at 0.007 nats, T = 1,000", at_least_mismatch, below(1), ("spline",)),
    Claim("fig3", "varying α with β = 0 gains nothing at (1, 3)", "AMCI's error over the least, 64 draws each", sharing(0, only_alpha=True), below(1.2)),
    Claim("fig3", "varying α with β = 0 gains a little at (3, 0.1)", "AMCI's error over the least, 64 draws each", sharing(1, only_alpha=True), above(1)),
    Claim("fig3", "sharing for both E1 and E2 can help at (3, 0.1)", "AMCI's error over the least of the grid, 64 draws each", sharing(1, only_alpha=False), above(1)),
    Claim("appendix-q1", "1-D: SNIS q1 is far worse than q2", "q1 over q2, T = 1,000", ratio(TAIL1, "snis-q1", "snis-q2"), above(10)),
    Claim("appendix-q1", "5-D: SNIS q1 is far worse than q2", "q1 over q2, T = 1,000", ratio(TAIL5, "snis-q1", "snis-q2"), above(10)),
    Claim("appendix-q1", "5-D: SNIS q1 has a mean squared error of 10⁻⁰·⁹ = 0.13 at N = 2", "median over cases, T = 2", median(TAIL5, "snis-q1", 2, "mse"), about(10**-0.9)),
    Claim("appendix-q1", "5-D: SNIS qm has a mean squared error of 0.1 at N = 2", "median over cases, T = 2", median(TAIL5, "snis-qm", 2, "mse"), about(0.1, 1.5)),
    Claim("appendix-q1", "5-D: for N between 6 and 100 a hundred runs miss most of qm's error", "cases whose runs do not determine it (more than half?), T = 10", share(TAIL5, undetermined("snis-qm"), 10), above(50)),
    Claim("appendix-q1", "5-D: from N = 100 on that no longer matters", "cases whose runs do not determine it (less than half?), T = 1,000", share(TAIL5, undetermined("snis-qm"), 1000), below(50)),
    Claim("appendix-q1", "cancer: SNIS q1 is worse than even q2", "q1 over q2, T = 1,000", ratio("cancer", "snis-q1", "snis-q2"), above(1)),
    Claim("appendix-q1", "mean squared errors behave alike: AMCI's is the least", "1-D: share of cases, T = 1,000", share(TAIL1, least_squares), above(50)),
    Claim("appendix-cases", "cancer: the upper quartile of AMCI's error is above that of SNIS qm", "AMCI over qm, T = 1,000", quartiles("amci", "snis-qm", "cancer"), above(1)),
    Claim("appendix-cases", "cancer: there are cases in which AMCI is worse than SNIS qm", "of 100 random cases those in which it surely is (2 % by chance), T = 1,000 (such a case: Fig. 3, least mismatch)", share("cancer", surely_worse("amci", "snis-qm")), above(2.3)),
    Claim("appendix-cases", "cancer: AMCI is always better than SNIS q2", "of 100 random cases those in which it surely is not (2 % by chance), T = 1,000 (such a case: Fig. 3, least mismatch)", share("cancer", surely_worse("amci", "snis-q2")), below(2.3)),
]  # fmt: skip


def _median(values: np.ndarray) -> Number:
    """The median over cases of positive numbers, on a logarithmic scale."""
    (middle,), (error,) = quantiles(np.log(values), [0.5])
    return Number(float(np.exp(middle)), float(error), factor=True)


def _power(value: float) -> str:
    """A number with its power of ten, where it is large or small."""
    if 0.01 <= value < 1e6:
        return _short(value)
    power = int(np.floor(np.log10(value)))
    raised, first = f"10{str(power).translate(RAISED)}", _short(value / 10.0**power)
    return raised if first == "1" else f"{first} · {raised}"


def _short(value: float) -> str:
    if 1000 <= abs(value) < 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return (
        f"{float(f'{value:.2g}'):g}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.1e}"
    )


def mismatch(data: Data) -> list[str]:
    """The gain at the ends of each path."""
    rows = ["| problem | mismatch, nats | over the bound | over SNIS qm | over SNIS q2 |"]
    rows.append("|---|---:|---:|---:|---:|")
    for name, title in PROBLEMS.items():
        _, rank, cases = data(f"mismatch-{name}")
        theta = None if not cases.theta.size else cases.theta
        at = np.asarray(amci.problem(name).mismatch(cases.y, theta))
        for which in (0, len(at) // 2, len(at) - 1):
            own = cases.by_name["amci"]["mse"][which, rank]
            gains = []
            for name_of in ("bound", "snis-qm", "snis-q2"):
                other = cases.by_name[name_of]
                determined = other["determined"][which, rank] != 0
                said = _short(float(other["mse"][which, rank] / own))
                gains.append(said if determined else f"{said} or more")
            rows.append(f"| {title} | {at[which]:.2g} | {' | '.join(gains)} |")
    return rows


def dimension(data: Data) -> list[str]:
    """Errors and gains in every dimension."""
    rows = ["| D | ReMSE of AMCI | over the bound | over SNIS qm | over SNIS q2 |"]
    rows.append("|---:|---:|---:|---:|---:|")
    for dim in DIMENSIONS:
        _, rank, cases = data(f"dimension-{dim}")
        own = cases.by_name["amci"]
        cells = [np.nanmedian(own["remse"][:, rank])]
        for other in ("bound", "snis-qm", "snis-q2"):
            cells.append(np.nanmedian(cases.by_name[other]["mse"] / own["mse"], axis=0)[rank])
        rows.append(f"| {dim} | {' | '.join(_short(float(cell)) for cell in cells)} |")
    return rows


def training(data: Data) -> list[str]:
    """When the film of each training first lies below the bound, and how it ends."""
    rows = ["| problem | below the bound after | ReMSE there | at the end | after |"]
    rows.append("|---|---:|---:|---:|---:|")
    for name, title in PROBLEMS.items():
        moments = []
        for moment in amci.load_history(name):
            _, rank, cases = data(f"training-{name}-{moment.step}")
            error, bound = (
                float(np.nanmedian(cases.by_name[e]["remse"][:, rank])) for e in ("amci", "bound")
            )
            moments.append((moment.seconds, error, bound))
        first = next((m for m in moments if m[1] < m[2]), None)
        seconds, error, _ = moments[-1]
        begun = ("never", "–") if first is None else (f"{first[0]:.2g} s", _short(first[1]))
        rows.append(f"| {title} | {' | '.join(begun)} | {_short(error)} | {_short(seconds)} s |")
    return rows


BEYOND = {"mismatch": mismatch, "dimension": dimension, "training": training}
WORDS = {
    "mismatch": f"Single cases at the beginning, the middle and the end of the path, T = {DRAWS:,}, 400 runs, spline proposals. *or more*: the other's runs do not determine its mean. Bars in the picture are standard errors.",
    "dimension": f"Gaussian tails in D dimensions; `learn` has {MINUTES:g} minutes for each, on one core; T = {DRAWS:,}, medians over 50 cases. In ten dimensions that is not enough: the shipped tail-10d and tail-20d, whose coordinates begin at the threshold, are in [benchmarks](../benchmarks.md).",
    "training": f"From the checkpoints of the shipped proposals: seconds of training q1, which in 1-D and for cancer begins below the bound; 0 s is drawn at 0.1 s, T = {DRAWS:,}, medians over 50 cases.",
}  # fmt: skip


def render(folder: Path) -> str:
    """The page, and beside it the pictures that are there."""
    data, sections = Data(folder), [HEAD]
    PICTURES.mkdir(exist_ok=True)
    for name in FIGURES:
        file = f"{name}.svg"
        sections.append(f"## {TITLES[name]}\n")
        if (folder / file).exists():
            shutil.copyfile(folder / file, PICTURES / file)
        if (PICTURES / file).exists():
            sections.append(f"![{TITLES[name]}](figures/{file})\n")
        rows = [claim.row(data) for claim in CLAIMS if claim.figure == name]
        if rows:
            head = [
                "| the paper says | measured | paper | spline | verdict |",
                "|---|---|---|---|---|",
            ]
            sections.append("\n".join([*head, *rows, ""]))
        if name in BEYOND:
            try:
                sections.append("\n".join([WORDS[name], "", *BEYOND[name](data), ""]))
            except (FileNotFoundError, IndexError):
                sections.append(f"{OPEN}\n")
    return "\n".join(sections)


def main() -> None:
    """Writes the page."""
    PAGE.write_text(render(Path(sys.argv[1])).rstrip() + "\n")


if __name__ == "__main__":
    main()
