r"""The folder of a training in memory: the best so far, and what a later training goes on from."""

from __future__ import annotations

__all__ = ["Keeper"]

import time
from pathlib import Path
from typing import Any, cast

from amci_core import files
from amci_core.estimators import PROPOSALS
from amci_core.flows import Proposals, Trainable
from amci_core.flows.mixture import Mixture
from amci_core.models import Problem
from amci_core.proposals import load_proposals, save_proposals
from amci_core.training.scout import Known

STATE = "learning.json"
KINDS: dict[str, files.Kinds] = {"done": (list,), "seconds": (int, float), "complete": (bool,)}
# Seconds between two writes.
EVERY = 30.0


class Keeper:
    """Writes proposals to a folder, or does nothing where there is none.

    Arguments:
        problem: What they are for.
        folder: The folder, or None.
        resume: Whether it holds a training that goes on.

    Attributes:
        done: Names of the proposals that are trained.
        spent: Seconds that were spent until now.

    Raises:
        ValueError: the folder holds proposals, though nothing is to go on; or no training to go on
            with; or one that is complete, or of another problem.
    """

    def __init__(self, problem: Problem, folder: str | Path | None, *, resume: bool) -> None:
        self.problem, self.done, self.spent = problem, list[str](), 0.0
        self._before: Proposals | None = None
        self._due = 0.0
        self.folder = None if folder is None else files.check_path("folder", folder)
        if resume and self.folder is None:
            raise ValueError("resume: expected a folder to go on from, got folder = None")
        if self.folder is None:
            return
        there = (self.folder / "config.json").exists()
        if not resume:
            if there:
                raise ValueError(
                    f"folder: {self.folder} holds proposals already; go on with resume, or choose "
                    "another"
                )
            files.make_folder("folder", self.folder)
            return
        if not (there and (self.folder / STATE).exists()):
            raise ValueError(f"resume: {self.folder} holds no training to go on with")
        state = files.read_json(self.folder / STATE)
        files.check_object(self.folder / STATE, state, KINDS)
        if state["complete"]:
            raise ValueError(f"resume: the training in {self.folder} is complete")
        self._before = load_proposals(problem, folder=self.folder)
        self.done = [name for name in state["done"] if name in PROPOSALS]
        self.spent = float(state["seconds"])

    def restore(self, flows: dict[str, Trainable], configuration: dict[str, Any]) -> None:
        """Puts what was trained before into the flows and their record."""
        if self._before is None:
            return
        for name, proposal in zip(PROPOSALS, self._before.as_tuple, strict=True):
            if isinstance(proposal, Trainable) and name in flows:
                flows[name] = proposal
        before = self._before.card["configuration"]
        for key in ("steps", "recipe"):
            configuration[key] |= before.get(key, {})
        configuration["proposals"] |= {
            name: {key: entry[key] for key in ("family", "arguments")}
            for name, entry in before["proposals"].items()
        }

    def known(self, name: str) -> Known | None:
        """What was reached of a proposal, from which its training goes on."""
        if self._before is None:
            return None
        entry = self._before.card["configuration"]["proposals"].get(name, {})
        if entry.get("family") != "defensive":
            return None
        arguments = entry["arguments"]
        return Known(
            form=arguments.get("form", ""),
            family=arguments["own"],
            found=arguments["found"],
            reached=cast(Mixture, self._before.as_tuple[PROPOSALS.index(name)]),
        )

    def keep(self, ready: Proposals, name: str | None, *, ended: bool, seconds: float) -> None:
        """Writes the proposals, if half a minute has passed or a proposal, or all, is done."""
        if ended and name is not None:
            self.done.append(name)
        if self.folder is None or not (ended or time.monotonic() >= self._due):
            return
        complete = name is None
        save_proposals(self.folder, ready, replace=True)
        state = {"done": self.done, "seconds": round(seconds, 1), "complete": complete}
        files.write_json(self.folder / STATE, state)
        self._due = time.monotonic() + EVERY
