r"""Draws and training steps a second on the CPU and on a GPU: `python benchmarks/device.py`.

Draws: points of both proposals with every density at each, as an evaluation has them. Training:
steps of q1 at so many points a step. Both with batches from 1e3 to 1e7; a size is left out from
where one takes longer than `--seconds`. Where there is no GPU it says so, and measures the CPU.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch

import amci_core as amci
from amci_core.devices import CPU, device_named, moved
from amci_core.estimation.sampling import Sampler, generators
from amci_core.training.recipes import recipe
from amci_core.training.trainer import Fit

PROBLEMS = ("tail-1d", "tail-5d", "cancer")
BATCHES = tuple(10**k for k in range(3, 8))
REPEATS = 5


def rate(once: Callable[[], object], device: torch.device, limit: float) -> float:
    """How often a second, by the fastest of a few repeats; NaN where it takes too long."""

    def timed() -> float:
        began = time.perf_counter()
        once()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    first = timed()
    if first > limit:
        return math.nan
    return 1 / min(timed() for _ in range(REPEATS))


def draws(name: str, device: torch.device, batch: int, limit: float) -> float:
    """Draws a second."""
    problem, proposals = amci.problem(name), moved(amci.load_proposals(name), device)
    if proposals is None:
        return math.nan
    y, theta = problem.check(*problem.cases(1, seed=0))
    at = None if theta is None else theta[0].to(device)
    sampler = Sampler(problem, proposals, y[0].to(device), at)
    generator, _ = generators(0, device=device)
    counts = [batch // 2, 0, batch // 2]
    return batch * rate(lambda: sampler.draw(counts, generator), device, limit)


def steps(name: str, device: torch.device, batch: int, limit: float) -> float:
    """Steps of q1's training a second, with so many points in a step."""
    term = recipe(name, "spline").terms["q1_plus"]
    known = dict(term.settings)
    a_case = sum(known.get(part, 0) for part in ("from_proposal", "from_reference"))
    cases = max(1, batch // max(1, a_case))
    settings = known | {"cases": cases, "uniform_cases": cases // 4}
    fit = Fit(
        amci.problem(name),
        "q1_plus",
        replace(term, settings=settings),
        steps=10**6,
        seed=0,
        device=device,
    )
    return rate(fit.advance, device, limit)


def main() -> None:
    """Prints a line for each problem and batch, with the ratio of GPU to CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--most", type=int, default=BATCHES[-1], help="the largest batch")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest for one call")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    gpu = device_named("auto")
    devices = [CPU] if gpu.type == "cpu" else [CPU, gpu]
    if len(devices) == 1:
        print("no GPU: PyTorch finds none here, so the CPU alone is measured", file=sys.stderr)
    else:
        print(f"GPU: {torch.cuda.get_device_name(gpu)}; CPU: one thread")
    for what, measure, unit in (("draws", draws, "draws/s"), ("training", steps, "steps/s")):
        for name in arguments.problems.split(","):
            for batch in (b for b in BATCHES if b <= arguments.most):
                found = [measure(name, device, batch, arguments.seconds) for device in devices]
                said = ", ".join(
                    f"{device.type} {value:.3g} {unit}"
                    for device, value in zip(devices, found, strict=True)
                )
                ratio = f", ratio {found[1] / found[0]:.3g}" if len(found) == 2 else ""
                print(f"{what:8s} {name:8s} batch {batch:>8,}: {said}{ratio}", flush=True)
                if all(math.isnan(value) for value in found):
                    break


if __name__ == "__main__":
    main()
