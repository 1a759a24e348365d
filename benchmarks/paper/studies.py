r"""What figures are drawn from: sweeps and tables, each a Parquet file that is made once.

A file holds the command, versions, seeds and hashes of the weights that its numbers come from. A
run that was broken off goes on with the case where it stopped.
"""

from __future__ import annotations

__all__ = ["AGAINST", "TOTALS", "Studies"]

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import amci_core as amci
from amci_core.estimators.draws import Array
from amci_core.evaluation import evaluate
from amci_core.evaluation.cases import Cases
from amci_core.evaluation.sweep import origin, read_sweep, write_table
from amci_core.flows import Proposals
from amci_core.io import pretrained_root, replacing
from amci_core.models import Problem

TOTALS = (2, 4, 10, 20, 40, 100, 200, 400, 1000, 2000, 4000, 10_000)
QUICK_TOTALS = (2, 10, 100, 1000)
# A draw from the paper's autoregressive networks costs twenty times that of a spline.
SLOW = (("tail-5d", "paper"), ("cancer", "paper"))
AGAINST = ("amci", "snis-q2", "snis-qm", "snis-q1", "bound")
SEED = 0
# What `amci evaluate --write` leaves beside the weights.
CASES = "cases.parquet"

Progress = Callable[[str, int, int], None]


class Studies:
    """Makes and keeps the data of figures.

    Arguments:
        folder: Where the data lie.
        quick: Whether a few cases, runs and totals do: a try of a figure, not the figure.
        workers: Number of processes that do the cases.
        dask: Address of a Dask scheduler whose workers do them instead.
        progress: Called with a study's name, the number of its cases done and all of them.

    Raises:
        ValueError: the folder cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        *,
        quick: bool = False,
        workers: int | None = None,
        dask: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.quick = folder, quick
        self.workers, self.dask = workers, dask
        self._progress = progress

    @property
    def draws(self) -> tuple[int, ...]:
        """Total draws of the error plots."""
        return QUICK_TOTALS if self.quick else TOTALS

    def path(self, name: str) -> Path:
        """The file of a study."""
        return self.folder / f"{name}{'-quick' if self.quick else ''}.parquet"

    def sweep(
        self,
        name: str,
        problem: Problem,
        proposals: Proposals,
        *,
        draws: Sequence[int] | None = None,
        cases: int | tuple[Any, Any] = 100,
        runs: int = 100,
        estimators: Sequence[str] = AGAINST,
    ) -> Cases:
        """Errors in cases that are drawn from p(y) p(theta), or given.

        Arguments:
            name: Name of its file.
            problem: What is integrated.
            proposals: What is drawn from.
            draws: Total draws; by default those of the error plots.
            cases: Number of cases, a tenth of them where it is to be quick, at least 6; or
                y (n, D_y) and theta (n, D_theta).
            runs: Runs of each case, a tenth of them where it is to be quick.
            estimators: Their names.

        Raises:
            ValueError: see `amci_core.evaluate`.
            RuntimeError: a case failed.
        """
        if self.quick:
            cases = max(6, cases // 10) if isinstance(cases, int) else cases
            runs = max(10, runs // 10)
        path = self.path(name)
        found = evaluate(
            problem,
            proposals,
            runs=runs,
            draws=self.draws if draws is None else draws,
            estimators=list(estimators),
            cases=cases,
            seed=SEED,
            out=path,
            workers=self.workers,
            dask=self.dask,
            progress=lambda done, wanted: self.tell(name, done, wanted),
        )
        if found.failures:
            number, why = next(iter(found.failures.items()))
            raise RuntimeError(f"{len(found.failures)} cases failed; case {number}: {why}")
        return Cases(read_sweep(path)[1])

    def shipped(self, problem: str, variant: str) -> tuple[Array, Cases]:
        """Total draws and errors of the paper's error plots, with proposals of the package.

        As the paper has it with 100 cases, 100 runs and 10,000 draws, but for its own proposals of
        tail-5d and cancer: for these the stored evaluation is taken, with 1,000 draws.
        """
        name = f"{problem}-{variant}"
        if (problem, variant) in SLOW:
            stored = pretrained_root() / problem / variant / CASES
            noted, table = read_sweep(stored)
            with replacing(self.path(name)) as beside:
                shutil.copyfile(stored, beside)
            cases, draws = Cases(table), noted["settings"]["draws"]
        else:
            cases, draws = self._swept(name, problem, variant), self.draws
        return np.array(draws, dtype=np.float64), cases

    def _swept(self, name: str, problem: str, variant: str) -> Cases:
        proposals = amci.load_proposals(problem, variant=variant)
        return self.sweep(name, amci.problem(problem), proposals)

    def table(
        self,
        name: str,
        columns: Mapping[str, Any],
        problem: Problem,
        proposals: Proposals,
        **more: Any,
    ) -> None:
        """Writes data that are no sweep's, and notes more beside their origin."""
        lists = {key: np.asarray(value).ravel() for key, value in columns.items()}
        settings = origin(problem, proposals) | {"seed": SEED} | more
        write_table(self.path(name), pd.DataFrame(lists), settings)

    def tell(self, name: str, done: int, wanted: int) -> None:
        """Passes progress on."""
        if self._progress is not None:
            self._progress(name, done, wanted)
