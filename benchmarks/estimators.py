r"""What the estimators reach: `python benchmarks/estimators.py`, half an hour.

Prints, for a one-dimensional tail with deliberately imperfect Gaussian proposals,

    q1 = 0.9 N(m, (1.2 s)^2) + 0.1 prior (m, s^2 of g),   q2 = N(y/2 + 0.2, 0.8^2),

errors of every estimator against the best of the classical ones over a grid of mismatch levels,
predicted against empirical errors, where the empirical map over (alpha, beta) has its minimum, and
how often intervals cover and stated precisions hold. `--quick` takes a tenth of the replications.
"""

from __future__ import annotations

__all__ = ["Imperfect", "imperfect", "main"]

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

import amci_core as amci
from amci_core.estimation.sampling import Sampler, generators
from amci_core.estimators import Estimator, Tabled, resolve, tables
from amci_core.estimators.mis import Moments, moments
from amci_core.estimators.uncertainty import relative_variance
from amci_core.flows import ConditionalDensity, Proposal, Proposals

PROBLEM = amci.problem("tail-1d")
OBSERVATIONS = (0.0, 2.0, 4.0)
LEVELS = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
CLASSICAL = ("amci", "snis-q2", "snis-q1", "reuse-paper")
SHOWN = (*CLASSICAL, "snis-qm", "amci-cv")
CHUNK = 2_000
COVERAGE_CASES, COVERAGE_DRAWS = 20, (128, 1024)
COVERED = (*SHOWN, "snis-qm-stratified", "reuse:0.7:0.1")


class Mixture(ConditionalDensity):
    """A mixture of normals in one dimension, the same components for every draw.

    Arguments:
        means: Means, (*, C).
        scales: Standard deviations, (*, C).
        shares: Shares of the components, (C,).
    """

    def __init__(self, means: Tensor, scales: Tensor, shares: Tensor) -> None:
        super().__init__(means.shape[:-1])
        self.means, self.scales, self.shares = means, scales, shares

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        shape = (*self.batch_shape, n)
        uniform = torch.rand(shape, dtype=self.means.dtype, generator=generator)
        chosen = (uniform[..., None] > self.shares.cumsum(0)[:-1]).sum(-1)
        noise = torch.randn(shape, dtype=self.means.dtype, generator=generator)
        x = self.means.gather(-1, chosen) + self.scales.gather(-1, chosen) * noise
        return x[..., None], self.log_prob(x[..., None])

    def log_prob(self, x: Tensor) -> Tensor:
        z = (x - self.means[..., None, :]) / self.scales[..., None, :]
        log_each = -0.5 * z.square() - (self.scales[..., None, :] * math.sqrt(2 * math.pi)).log()
        return torch.logsumexp(log_each + self.shares.log(), dim=-1)


class Imperfect(Proposal):
    """The two proposals of the benchmark, off on purpose.

    Arguments:
        first: Whether it is q1, else q2.
    """

    def __init__(self, *, first: bool) -> None:
        self.first = first

    def __call__(self, y: Tensor, theta: Tensor | None) -> Mixture:
        if theta is None:
            raise ValueError("theta: expected one, got None")
        y, theta = torch.broadcast_tensors(y, theta)
        if not self.first:
            return Mixture(y / 2 + 0.2, torch.full_like(y, 0.8), torch.ones(1, dtype=y.dtype))
        deviation = math.sqrt(0.5)
        z = ((theta - y / 2) / deviation).numpy()
        hazard = torch.from_numpy(np.exp(norm.logpdf(z) - norm.logsf(z)))
        mean = y / 2 + deviation * hazard
        spread = deviation * (1 + torch.from_numpy(z) * hazard - hazard.square()).sqrt()
        means = torch.cat([mean, torch.zeros_like(y)], -1)
        scales = torch.cat([1.2 * spread, torch.ones_like(y)], -1)
        return Mixture(means, scales, torch.tensor([0.9, 0.1], dtype=y.dtype))


def imperfect() -> Proposals:
    """Both of them."""
    return Proposals(
        problem="tail-1d",
        variant="imperfect",
        q1_plus=Imperfect(first=True),
        q1_minus=None,
        q2=Imperfect(first=False),
    )


def grid() -> list[tuple[float, float, float]]:
    """Cases (level in nats, y, theta); those whose theta lies in the problem's range."""
    cases = []
    for y in OBSERVATIONS:
        for level in LEVELS:
            theta = y / 2 + math.sqrt(0.5) * float(norm.isf(math.exp(-level)))
            if 0 <= theta <= 5:
                cases.append((level, y, theta))
    return cases


def runs_of(
    name: str | Estimator, sampler: Sampler, *, draws: int, runs: int, seed: int
) -> np.ndarray:
    """Estimates of independent runs with 2 `draws` draws in all, N = M for a table.

    SNIS has the draws of its own proposal alone, as many as AMCI takes of it.
    """
    chosen = resolve(name)
    total = draws if name in ("snis-q1", "snis-q2") else 2 * draws
    for_points, for_choices = generators(seed)
    found = []
    done = 0
    while done < runs:
        size = min(CHUNK, runs - done)
        reserve = chosen.reserve([total], sampler.present)
        drawn = sampler.draw(reserve, for_points, runs=size)
        prepared = chosen.running(drawn, [total], for_choices)
        found.append(prepared.combine().value[..., 0])
        done += size
    return np.concatenate(found)


def compare(replications: int) -> list[dict[str, Any]]:
    """Errors of every estimator at N = M = 64 over the grid."""
    rows = []
    print("ReMSE at N = M = 64, over the best of", ", ".join(CLASSICAL))
    print(f"{'nats':>6} {'y':>5} {'best':>12} {'ReMSE':>9}", *(f"{n:>14}" for n in SHOWN))
    for level, y, theta in grid():
        sampler = Sampler(PROBLEM, imperfect(), *PROBLEM.check(y, theta))
        mu = float(PROBLEM.truth(y, theta))
        errors, biases = {}, {}
        for name in SHOWN:
            values = runs_of(name, sampler, draws=64, runs=replications, seed=1)
            relative = np.nan_to_num(values) / mu - 1
            errors[name], biases[name] = float(np.mean(relative**2)), float(relative.mean())
        best = min(CLASSICAL, key=lambda name: errors[name])
        ratios = {name: errors[name] / errors[best] for name in errors}
        rows.append(
            {
                "level": level,
                "y": y,
                "theta": theta,
                "best": best,
                "remse_best": errors[best],
                "ratios": ratios,
                "bias": biases["amci-cv"],
            }
        )
        print(
            f"{level:6.2f} {y:5.1f} {best:>12} {errors[best]:9.2e}",
            *(f"{ratios[name]:14.4g}" for name in SHOWN),
            f" bias {100 * biases['amci-cv']:6.2f} %",
            flush=True,
        )
    over = [row["ratios"]["amci-cv"] for row in rows]
    bias = max(abs(row["bias"]) for row in rows)
    print(f"amci-cv over the best: {min(over):.3f} to {max(over):.3f} in {len(rows)} cases;")
    print(f"its bias: at most {100 * bias:.2f} % of mu\n")
    return rows


def predict(replications: int) -> list[dict[str, Any]]:
    """The delta method's V at N = M = 1024 against the empirical error, and the map's minimum."""
    rows = []
    n = 1024
    print(f"delta method at N = M = {n}: empirical MSE over V, and where the map is least")
    print(f"{'nats':>6} {'y':>5} {'amci':>8} {'u*':>8} {'alpha*, beta*':>18} {'empirical':>18}")
    for level, y, theta in grid():
        sampler = Sampler(PROBLEM, imperfect(), *PROBLEM.check(y, theta))
        moments = _exact_moments(sampler, n)
        ratio = {}
        best = tables.optimum(moments)
        for name, table in (("amci", tables.amci()), ("u*", best)):
            predicted = float(relative_variance(table, moments))
            values = runs_of(Tabled(table), sampler, draws=n, runs=replications, seed=2)
            mu = float(PROBLEM.truth(y, theta))
            ratio[name] = float(np.mean((values / mu - 1) ** 2)) / predicted
        alpha, beta = float(best[0, 0]), float(best[0, 2])
        around = (
            [alpha + d for d in np.linspace(-0.4, 0.4, 41)],
            [beta + d for d in np.linspace(-0.4, 0.4, 41)],
        )
        found = amci.reuse_errors(
            PROBLEM, imperfect(), y, theta, alphas=around[0], betas=around[1], draws=n,
            runs=max(replications // 10, 100), seed=3,
        )  # fmt: skip
        centre = float(found.remse[20, 20] / found.remse[found.determined].min(initial=np.inf))
        least = found.best or (np.nan, np.nan)
        rows.append(
            {
                "level": level,
                "y": y,
                "ratio": ratio,
                "u_star": (alpha, beta),
                "empirical": least,
                "at_u_star": centre,
            }
        )
        print(
            f"{level:6.2f} {y:5.1f} {ratio['amci']:8.3f} {ratio['u*']:8.3f}"
            f" {alpha:9.3f},{beta:8.3f} {least[0]:9.3f},{least[1]:8.3f}"
            f"  map at u* over its minimum {centre:.3f}",
            flush=True,
        )
    off = max(abs(r - 1) for row in rows for r in row["ratio"].values())
    print(f"empirical MSE over V is off by at most {100 * off:.0f} %\n")
    return rows


def _exact_moments(sampler: Sampler, n: int) -> Moments:
    """Moments by quadrature over x, which is one-dimensional here."""
    x = torch.linspace(-12.0, 12.0, 600_001, dtype=torch.float64)[:, None]
    step = float(x[1] - x[0])
    log_joint = PROBLEM.log_joint(x, sampler.y).numpy()
    f_plus = PROBLEM.f_parts(x, sampler.theta)[0].numpy()
    terms = np.stack([f_plus, np.zeros_like(f_plus), np.ones_like(f_plus)])
    mean = (terms * np.exp(log_joint)).sum(axis=-1) * step
    covariance = np.full((3, 3, 3), np.nan)
    for j, q in sampler.densities.items():
        weighted = np.exp(2 * log_joint - q.log_prob(x).numpy())
        covariance[j] = (terms * weighted) @ terms.T * step - np.outer(mean, mean)
    unit = np.where(mean > 0, mean, 1.0)
    with np.errstate(divide="ignore"):
        return Moments(np.log(mean), covariance / np.outer(unit, unit), np.array([n, 0.0, n]))


def precision(cases: int) -> dict[str, float]:
    """How often `estimate_to(1 %)` ends with an error below 1 %."""
    started = time.perf_counter()
    problem = PROBLEM
    y, theta = problem.cases(cases, seed=4)
    result = {}
    for label, proposals in (
        ("pretrained", amci.load_proposals("tail-1d")),
        ("imperfect", imperfect()),
    ):
        held, draws, reached = [], [], []
        for case in range(cases):
            found = amci.estimate_to(
                problem, proposals, y[case], theta[case], relative_error=0.01,
                draws=4_000_000, seed=case,
            )  # fmt: skip
            error = abs(float(found.value) / float(problem.truth(y[case], theta[case])) - 1)
            held.append(error < 0.01)
            reached.append(found.reached)
            draws.append(found.draws)
        result[label] = float(np.mean(held))
        print(
            f"estimate_to(1 %), {cases} cases, {label} proposals: true error below 1 % in "
            f"{100 * np.mean(held):.1f} %, reached in "
            f"{100 * np.mean(reached):.1f} %, median {np.median(draws):,.0f} draws",
            flush=True,
        )
    print(f"{time.perf_counter() - started:.0f} s\n")
    return result


def draw(results: dict[str, Any], folder: Path) -> None:
    """A picture of what was found: errors over the best."""
    from matplotlib.figure import Figure

    colours = {"amci": "#0072b2", "reuse-paper": "#cc79a7", "amci-cv": "#009e73"}
    rows = results["compare"]
    shown = Figure(figsize=(9, 3.2), layout="constrained")
    for axes, y in zip(
        shown.subplots(1, len(OBSERVATIONS), sharey=True), OBSERVATIONS, strict=True
    ):
        of_y = [row for row in rows if row["y"] == y]
        for name, colour in colours.items():
            ratios = [row["ratios"][name] for row in of_y]
            axes.plot([row["level"] for row in of_y], ratios, "o-", color=colour, label=name, ms=3)
        axes.axhline(1, color="#777777", lw=0.8, ls="--")
        axes.set(xscale="log", ylim=(0, 1.8), title=f"y = {y:g}", xlabel="mismatch, nats")
        axes.grid(alpha=0.3)
    shown.axes[0].set_ylabel("ReMSE over the best classical one")
    shown.axes[-1].legend(fontsize=8)
    shown.savefig(folder / "estimators-errors.png", dpi=110)


def coverage(runs: int) -> list[dict[str, Any]]:
    """How often 95 % intervals cover mu: every estimator, 20 cases of the grid."""
    cases = grid()
    cases = [cases[i] for i in np.linspace(0, len(cases) - 1, COVERAGE_CASES).astype(int)]
    noise = math.sqrt(0.95 * 0.05 / runs)
    rows = []
    print(f"coverage of 95 % intervals, {COVERAGE_CASES} cases, {runs} runs each (+- {noise:.1%})")
    for draws in COVERAGE_DRAWS:
        for name in COVERED:
            found = []
            for case, (_, y, theta) in enumerate(cases):
                mu = float(PROBLEM.truth(y, theta))
                e = amci.estimate(
                    PROBLEM, imperfect(), np.full((runs, 1), y), theta, draws=draws,
                    estimator=name, seed=case,
                )  # fmt: skip
                low, high = e.interval()
                covered = (low <= mu) & (mu <= high)
                stated = np.isfinite(e.standard_error)
                sure = e.verdict.level == "reliable"
                found.append((covered.mean(), stated.mean(), sure.mean(), (covered & sure).mean()))
            cover, stated, sure, both = np.array(found).T
            rows.append(
                {
                    "estimator": name,
                    "draws": draws,
                    "mean": cover.mean(),
                    "least": cover.min(),
                    "largest": cover.max(),
                    "stated": stated.mean(),
                    "reliable": sure.mean(),
                    "of_reliable": both.sum() / sure.sum() if sure.any() else None,
                }
            )
            row = rows[-1]
            print(
                f"  {draws:>5} {name:<19} {row['mean']:6.1%} ({row['least']:.1%} to "
                f"{row['largest']:.1%}); called reliable {row['reliable']:.0%}"
                + (f", of these {row['of_reliable']:.1%}" if sure.any() else "")
            )
    return rows


def _terms_cost() -> None:
    draws = Sampler(PROBLEM, imperfect(), *PROBLEM.check(1.0, 1.0)).draw(
        np.array([100_000, 0, 100_000]), generators(0)[0]
    )
    started = time.perf_counter()
    moments(draws)
    print(f"pooled moments of 200,000 draws: {1e3 * (time.perf_counter() - started):.0f} ms\n")


def main() -> None:
    """Runs all parts, or those named."""
    parts = {
        "compare": compare,
        "predict": predict,
        "precision": precision,
        "coverage": coverage,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; all by default")
    parser.add_argument("--quick", action="store_true", help="a tenth of the replications")
    parser.add_argument("--out", type=Path, help="file for the numbers, as JSON; kept parts stay")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of what --out holds")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in parts]
    if unknown:
        parser.error(f"parts: expected some of {', '.join(parts)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    share = 10 if options.quick else 1
    sizes = {
        "compare": 20_000,
        "predict": 20_000,
        "precision": 1_000,
        "coverage": 1_000,
    }
    kept = options.out is not None and options.out.exists()
    results = json.loads(options.out.read_text()) if kept else {}
    _terms_cost()
    wanted = options.parts or ([] if options.pictures and results else parts)
    for name in wanted:
        results[name] = parts[name](sizes[name] // share)
        if options.out is not None:
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    if options.pictures is not None:
        draw(results, options.pictures)


if __name__ == "__main__":
    sys.exit(main())
