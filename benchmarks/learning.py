r"""What an optimizer makes of the same time: `python benchmarks/learning.py`.

q1_plus of every shipped problem is trained by its recipe for as many seconds with Adam, at the
rate that suited it, and with SOAP. The divergence and the relative variance that both reach at
held-out cases are printed, with their ratios. Time is the processor's: what else runs does not
count.
"""

from __future__ import annotations

__all__ = ["main", "reached"]

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

import amci_core as amci
from amci_core.training import clock, recipe
from amci_core.training.quality import HeldOut, Quality
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import Trainer

# Learning rates of Adam, where each did best; SOAP has those of the recipes.
ADAM = {"cancer": 1e-3}
USUAL = 3e-3
MANY = 10**9


def reached(problem: str, optimizer: str, seconds: float) -> tuple[Quality, int]:
    """The quality of q1_plus after so many seconds, and the steps that were made."""
    term = recipe(problem, "spline").terms["q1_plus"]
    rate = term.learning_rate if optimizer == "soap" else ADAM.get(problem, USUAL)
    chosen = amci.problem(problem)
    made = Trainer(
        chosen,
        "q1_plus",
        replace(term, optimizer=optimizer, learning_rate=rate),
        steps=MANY,
        seed=0,
        reports=1,
        until=clock.now() + seconds,
    )
    for _ in made.run():
        pass
    held_out = HeldOut(TARGETS["q1_plus"](chosen), seed=1)
    return held_out.quality(made.proposal), made.step


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", help="names; all but cancer by default")
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    clock.now = time.process_time
    usual = [name for name in amci.problems() if name != "cancer"]
    for name in asked.problems or usual:
        found = {kind: reached(name, kind, asked.seconds) for kind in ("adam", "soap")}
        (adam, _), (soap, _) = found.values()
        for kind, (quality, steps) in found.items():
            print(
                f"{name} {kind}: {steps:,} steps, divergence {quality.divergence:.3g} nats, "
                f"relative variance {quality.relative_variance:.3g}"
            )
        print(
            f"{name}: SOAP's divergence is {soap.divergence / adam.divergence:.2f} of Adam's, its "
            f"relative variance {soap.relative_variance / adam.relative_variance:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
