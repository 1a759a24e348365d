r"""A GPU against one thread of a CPU: `python benchmarks/device.py` (about two minutes).

For each problem: draws a second, with every density at each draw; training steps a second; and how
far densities at equal points, and errors of estimates, differ between the two.
"""

from __future__ import annotations

__all__ = ["main"]

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

import amci_core as amci
from amci_core.devices import CPU, device_named
from amci_core.estimation.sampling import Sampler, generators
from amci_core.training import recipe
from amci_core.training.trainer import Trainer

PROBLEMS = ("tail-1d", "tail-5d", "cancer")
POINTS = (1_000, 10_000, 100_000, 1_000_000)
STEP_POINTS = (1_000, 100_000)
SECONDS = 1.0  # of one measurement, about


def rate(once: Callable[[], object], device: torch.device) -> float:
    """How often a second."""

    def timed(n: int) -> float:
        began = time.perf_counter()
        for _ in range(n):
            once()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    timed(1)  # allocates
    n = max(1, min(200, int(SECONDS / timed(1))))
    return n / timed(n)


def sampler(name: str, device: torch.device) -> Sampler:
    """Draws from the shipped proposals of a problem at one case."""
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    moved = proposals if device == CPU else proposals.to(device)
    assert moved is not None
    y, theta = problem.check(*problem.cases(1, seed=0))
    at = None if theta is None else theta[0].to(device)
    return Sampler(problem, moved, y[0].to(device), at)


def draws(name: str, device: torch.device, points: int) -> float:
    """Draws a second."""
    drawn, (generator, _) = sampler(name, device), generators(0, device=device)
    return points * rate(lambda: drawn.draw([points // 2, 0, points // 2], generator), device)


def steps(name: str, device: torch.device, points: int) -> float:
    """Training steps of q1_plus a second, with about so many points a step."""
    term = recipe(name, "spline").terms["q1_plus"]
    per_case = sum(term.settings.get(part, 0) for part in ("from_proposal", "from_reference"))
    cases = max(1, points // per_case)
    settings = {**term.settings, "cases": cases, "uniform_cases": cases // 4}
    term = replace(term, settings=settings)
    trainer = Trainer(amci.problem(name), "q1_plus", term, steps=10**6, seed=0, device=device)
    return rate(trainer.advance, device)


def differences(name: str, gpu: torch.device) -> tuple[float, float]:
    """Largest differences of log densities at equal points (nats), and of errors (relative)."""
    here, there = sampler(name, CPU), sampler(name, gpu)
    worst = 0.0
    for j, density in here.densities.items():
        x, log_q = density.draw(10_000, torch.Generator().manual_seed(0))
        other = there.densities[j].log_prob(x.to(gpu)).cpu()
        worst = max(worst, float((other - log_q).abs().max()))
    one, other = (
        amci.evaluate(
            amci.problem(name),
            amci.load_proposals(name),
            cases=4,
            runs=2_000,
            draws=[100],
            device=device.type,
        )
        for device in (CPU, gpu)
    )
    errors = [np.asarray(each.estimators["amci"]["remse_median"]) for each in (one, other)]
    return worst, float(np.abs(errors[1] / errors[0] - 1).max())


def main() -> None:
    """Prints rates on both, their ratio, and the differences."""
    torch.set_num_threads(1)
    gpu = device_named("auto")
    if gpu == CPU:
        print("no GPU here")
        return
    print(f"{torch.cuda.get_device_name(gpu)} against one thread of a CPU")
    measures = (("draws", draws, POINTS), ("training steps", steps, STEP_POINTS))
    for name in PROBLEMS:
        for what, measure, sizes in measures:
            for points in sizes:
                cpu, fast = (measure(name, device, points) for device in (CPU, gpu))
                print(
                    f"{name:8} {points:>9,} points: {what} a second: CPU {cpu:.3g}, GPU "
                    f"{fast:.3g}, ratio {fast / cpu:.3g}",
                    flush=True,
                )
        log_q, error = differences(name, gpu)
        print(
            f"{name:8} largest difference of log q {log_q:.1e} nats; of the error {error:.1%} "
            "(Monte Carlo error of the runs included)",
            flush=True,
        )


if __name__ == "__main__":
    main()
