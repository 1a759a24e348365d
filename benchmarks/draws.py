r"""How fast points are drawn and estimates made: `python benchmarks/draws.py`, on one idle core.

Prints draws per second with their log densities under every proposal, log p(x, y) and f, the time
of one estimate, cases per second to a stated precision and the memory of all of it, beside the
same figures of an earlier commit, measured in turns with these (`--before`). Then it shows how
draws per second grow with the batch, and trains the tail problem briefly in more and more
dimensions, to show what that does to the relative variance.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from measured import best_of, draws_per_second, megabytes

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models.tail import GaussianTail
from amci_core.training import recipe
from amci_core.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[1]
# The commit whose figures stand beside those of today.
BEFORE = "eb0f0ee"
DIMENSIONS = (1, 2, 5, 10, 20)


class Figure(NamedTuple):
    """How a figure of `measured.py` is shown.

    Arguments:
        text: What it is.
        unit: Its unit.
        wanted: What it should reach; None where nothing is wanted.
        most: Whether that is an upper limit, and the figure the better the smaller.
        released: The same of the code that came with the paper.
    """

    text: str
    unit: str
    wanted: float | None = None
    most: bool = False
    released: float | None = None


FIGURES = {
    "estimate tail-1d": Figure("one estimate with 64 draws a proposal, tail-1d", "ms", 2, True),
    "estimate tail-5d": Figure("one estimate with 64 draws a proposal, tail-5d", "ms", 4, True),
    "estimate cancer": Figure("one estimate with 64 draws a proposal, cancer", "ms", 8, True),
    "over amci tail-1d": Figure("the same over that of plain AMCI, tail-1d", "times", 4 / 3, True),
    "over amci tail-5d": Figure("the same over that of plain AMCI, tail-5d", "times", 4 / 3, True),
    "over amci cancer": Figure("the same over that of plain AMCI, cancer", "times", 4 / 3, True),
    "draws tail-1d 1000": Figure("draws, tail-1d, batch 1,000", "/s", 4e6, released=4.6e5),
    "draws tail-1d 100000": Figure("draws, tail-1d, batch 100,000", "/s", 7e6, released=7e6),
    "draws tail-5d 10000": Figure("draws, tail-5d, batch 10,000", "/s", 2.5e5, released=1_770),
    "draws cancer 10000": Figure("draws, cancer, batch 10,000", "/s", 2e5, released=11_500),
    "draws gain-loss 10000": Figure("draws, gain-loss, batch 10,000", "/s"),
    "draws peak 10000": Figure("draws, peak, batch 10,000", "/s"),
    "cases tail-5d": Figure("estimate_to in batches at 1 %, tail-5d", "cases/s", 2000),
    "memory": Figure("largest memory", "MB", 600, True),
}


def report_figures(before: str | None, rounds: int) -> None:
    """The figures of this tree, beside those of an earlier commit: the best of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        trees = [] if before is None else [extracted(before, Path(folder))]
        trees.append(ROOT)
        found: list[list[dict[str, float]]] = [[] for _ in trees]
        for _ in range(rounds):
            for runs, tree in zip(found, trees, strict=True):
                runs.append(measured(tree))
    print(
        f"best of {rounds} rounds" + ("" if before is None else f"; commit {before} in brackets")
    )
    for name, figure in FIGURES.items():
        best = min if figure.most else max
        values = [best(run[name] for run in runs) for runs in found]
        now = values[-1]
        line = f"  {figure.text:<47} {now:>12,.{2 if now < 100 else 0}f} {figure.unit}"
        if before is not None:
            then = values[0]
            ratio = then / now if figure.most else now / then
            line += f" [{then:,.{1 if then < 100 else 0}f}: {ratio:.1f} times better]"
        if figure.wanted is not None:
            held = now <= figure.wanted if figure.most else now >= figure.wanted
            sign = "<=" if figure.most else ">="
            wanted = f"{figure.wanted:,.{0 if figure.wanted > 10 else 2}f}"
            line += f", wanted {sign} {wanted}: {'holds' if held else 'FALLS SHORT'}"
        if figure.released is not None:
            line += f"; {now / figure.released:.1f} times the paper's code"
        print(line)


def extracted(revision: str, folder: Path) -> Path:
    """The tree of a commit, put into a folder.

    Raises:
        SystemExit: git does not know the commit.
    """
    command = ["git", "-C", str(ROOT), "archive", revision, "amci_core", "pretrained"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(f"--before: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def measured(tree: Path) -> dict[str, float]:
    """The figures of the package in a tree, from a process of its own.

    Raises:
        RuntimeError: another tree's package was imported.
    """
    script = Path(__file__).with_name("measured.py")
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(tree)}
    answer = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise RuntimeError(f"{script.name} in {tree}: {answer.stderr}")
    found = json.loads(answer.stdout)
    if not Path(found["tree"]).is_relative_to(tree):
        raise RuntimeError(f"expected the package in {tree}, got {found['tree']}")
    return dict(found["figures"])


def report_batches() -> None:
    """How draws per second grow with the batch."""
    print("tail-5d, draws per second by batch")
    problem, proposals = amci.problem("tail-5d"), amci.load_proposals("tail-5d")
    for n in (100, 1_000, 10_000, 100_000):
        print(f"  {n:>7,} {draws_per_second(problem, proposals, n):12,.0f}; {megabytes():.0f} MB")
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    y, theta = problem.cases(1000, seed=0)
    found = 1000 * best_of(lambda: amci.estimate(problem, proposals, y, theta))
    print(f"tail-1d, estimates of a thousand cases at once: {found:.1f} ms")


def report_dimensions(steps: int) -> None:
    """The same short training of q1 in more and more dimensions."""
    print(f"tail problem by dimension: q1 after {steps:,} steps")
    term = recipe("tail-5d", "spline").terms["q1_plus"]
    for dim in DIMENSIONS:
        problem = GaussianTail(dim)
        coordinates = [{"kind": "half-line", "scale": 0.5}] * dim
        scaled = replace(term, arguments={**term.arguments, "coordinates": coordinates})
        trainer = Trainer(problem, "q1_plus", scaled, steps=steps, seed=0, reports=5)
        last = list(trainer.run())[-1]
        quality, q1 = last.quality, trainer.best_proposal().double().requires_grad_(False)
        only = Proposals(problem.name, "short", q1, None, None)
        print(
            f"  D = {dim:>2}: relative variance {quality.relative_variance:.2g} (95 % "
            f"{quality.relative_variance_q95:.2g}, largest {quality.relative_variance_max:.2g}), "
            f"{1000 * last.seconds / steps:.0f} ms a step, "
            f"{draws_per_second(problem, only, 10_000):,.0f} draws per second"
        )


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default=BEFORE, help="commit to compare with; empty: none")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each tree")
    parser.add_argument("--steps", type=int, default=1000, help="of each short training; 0: none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    report_figures(options.before or None, options.rounds)
    report_batches()
    if options.steps:
        report_dimensions(options.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
