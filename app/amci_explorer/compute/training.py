r"""Trains proposals for a session by `amci train` in a process of its own, a few at a time.

The process reports on its stdout, a line of JSON each, and saves the best so far in a folder,
which is loaded as it grows. It ends when it is interrupted, and when its stdin ends: with this
server.
"""

from __future__ import annotations

__all__ = [
    "AT_A_TIME",
    "GOING",
    "IDLE",
    "LONGEST_NAME",
    "MINUTES",
    "OVER",
    "STARTING",
    "STOPPING",
    "WAITING",
    "Report",
    "TrainingQueue",
    "TrainingRequest",
    "TrainingSession",
    "check_name",
    "training_queue",
]

import asyncio
import json
import math
import os
import re
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.flows.proposals import DEFENSIVE
from amci_core.proposals import ORACLE
from amci_core.target import FALLBACK
from amci_core.training import Choices
from amci_explorer.problems import registry
from amci_explorer.server.session import guarded
from amci_explorer.state.state import State

LONGEST_NAME = registry.LONGEST_VARIANT - 6  # a number may follow
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9-]{{0,{LONGEST_NAME - 1}}}", re.ASCII)
# Time of computing that a session may ask for.
MINUTES = (0.05, 60.0)
# The page takes better proposals at most this often; it first finishes what it computes for the
# ones before, unless that takes longer.
SECONDS_BETWEEN, SECONDS_AT_MOST = 2.0, 8.0
# From this many reports on every other one is left out.
MOST_REPORTS = 1000
# What the environment says of the number of trainings at a time.
TRAININGS, AT_A_TIME = "AMCI_TRAININGS", 2
# The phases of a training.
IDLE, WAITING, STARTING, GOING, STOPPING, OVER = (
    *("idle", "waiting", "starting", "going", "stopping", "over"),
)


@dataclass(frozen=True)
class TrainingRequest:
    """A training that a session asks for.

    Arguments:
        problem: The problem's name, with another f as `registry.problem` takes it.
        name: The name of the proposals.
        choices: Their form.
        minutes: Time of computing for everything.
        seed: Whole number >= 0.
    """

    problem: str
    name: str
    choices: Choices
    minutes: float
    seed: int

    def command(self, folder: Path) -> list[str]:
        """The command that trains into a folder.

        Raises:
            ValueError: the problem is from no file.
        """
        original, f = registry.split(self.problem)
        options = {
            "f": f or None,
            "variant": None if original in registry.OWN else "learnt",
            "family": self.choices.family,
            "bins": self.choices.bins,
            "width": self.choices.width,
            "budget": f"{60 * self.minutes:.3f}s",
            "seed": self.seed,
            "out": folder,
            "progress": "json",
        }
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        program = [sys.executable, "-m", "amci_core", "train"]
        return [*program, registry.command_name(original), *given, "--attached"]


@dataclass(frozen=True)
class Report:
    """How far a training has come.

    Arguments:
        proposal: The proposal that is trained.
        stage: What is being done.
        step: Steps done for this proposal.
        loss: Mean loss since the last report; NaN before the first step.
        relative_variance: Held-out relative variance now.
        best: The best so far.
        seconds: Of computing since the training began.
        left: Seconds of computing until it ends.
    """

    proposal: str
    stage: str
    step: int
    loss: float
    relative_variance: float
    best: float
    seconds: float
    left: float


def check_name(problem: str, text: str) -> str:
    """A name for proposals.

    Arguments:
        problem: The name of the problem that they are for.
        text: The user's text.

    Raises:
        ValueError: it is no name, or shipped proposals have it.
    """
    name = text.strip()
    if not NAME.fullmatch(name):
        raise ValueError(
            f"expected letters, digits and dashes, at most {LONGEST_NAME}, got {name[:50]!r}"
        )
    if name in (ORACLE, DEFENSIVE, FALLBACK, *registry.variants(problem)):
        raise ValueError(f"there are proposals called {name} already; choose another name")
    return name


class TrainingQueue:
    """Creates the queue of a server's trainings, empty: first come, first served.

    Arguments:
        at_a_time: How many train at the same time; of one browser only one does.
    """

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self.at_a_time = at_a_time
        self._running: list[TrainingSession] = []
        self._waiting: list[TrainingSession] = []

    def enter(self, session: TrainingSession) -> None:
        """Begins a session's training when it is its turn."""
        self._waiting.append(session)
        self._move()

    def leave(self, session: TrainingSession) -> None:
        """Gives a session's place to the next."""
        for sessions in (self._running, self._waiting):
            if session in sessions:
                sessions.remove(session)
        self._move()

    def _move(self) -> None:
        for each in list(self._waiting):
            busy = {other.browser for other in self._running}
            if len(self._running) < self.at_a_time and each.browser not in busy:
                self._waiting.remove(each)
                self._running.append(each)
                each.begin()
        for ahead, each in enumerate(self._waiting):
            each.wait_behind(ahead)


@cache
def training_queue() -> TrainingQueue:
    """The queue of this process, as its environment says.

    Raises:
        ValueError: the environment names no number from 1 to 1000.
    """
    text = os.environ.get(TRAININGS, "") or str(AT_A_TIME)
    if not (text.isdecimal() and 1 <= int(text) <= 1000):
        raise ValueError(f"{TRAININGS}: expected a number of trainings, got {text!r}")
    return TrainingQueue(int(text))


class TrainingSession:
    """Creates what trains for a page, idle.

    Arguments:
        state: The page's state: the proposals are listed there, and chosen when they come.
        document: The page's document.
        browser: What tells its browser from others.
        resting: Whether the page has computed what it shows.
        queue: Where it waits for its turn; by default this process's `training_queue`.

    Attributes:
        phase: One of IDLE, WAITING, STARTING, GOING, STOPPING and OVER.
        request: The training that was asked for last.
        ahead: Trainings ahead of it while it waits.
        log: Its messages, such as its plan.
        reports: Its reports from the beginning.
        proposals: The best so far.
        variant: The name that the page lists these by; empty until there are some.
        stopped: Whether it was stopped before its time was over.
        message: Why it failed; empty unless it did.
    """

    def __init__(
        self,
        state: State,
        document: Any,
        browser: object = None,
        *,
        resting: Callable[[], bool] = lambda: True,
        queue: TrainingQueue | None = None,
    ) -> None:
        self._state, self._document, self._resting, self._queue = state, document, resting, queue
        self.browser = browser or self
        self._watchers: list[Callable[[], Any]] = []
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._clear()

    def _clear(self) -> None:
        self.phase, self.ahead = IDLE, 0
        self.request: TrainingRequest | None = None
        self.log: list[str] = []
        self.reports: list[Report] = []
        self.proposals: Proposals | None = None
        self.variant = self.message = ""
        self.stopped = self._told = False
        self._taken = 0.0

    @property
    def busy(self) -> bool:
        """Whether there is a training that has not ended."""
        return self.phase not in (IDLE, OVER)

    @property
    def queue(self) -> TrainingQueue:
        """Where it waits for its turn."""
        return self._queue or training_queue()

    @property
    def pid(self) -> int | None:
        """The number of its process; None if there is none."""
        return None if self._process is None else self._process.pid

    def watch(self, act: Callable[[], Any]) -> None:
        """Has a function called, on the page, whenever there is news."""
        self._watchers.append(act)

    def start(self, request: TrainingRequest) -> None:
        """Begins a training; the one before has to have ended.

        Raises:
            ValueError: it has not.
        """
        if self.busy:
            raise ValueError("a training is under way; stop it first")
        self._clear()
        self.request, self.phase = request, STARTING
        self.queue.enter(self)
        self._tell()

    def stop(self) -> None:
        """Ends it; the best so far is kept."""
        if self.phase == WAITING:
            self.queue.leave(self)
            self.phase, self.stopped = OVER, True
        elif self.busy:
            self.phase = STOPPING
            self._interrupt()
        self._tell()

    def close(self) -> None:
        """The page has gone: ends its training at once."""
        self._watchers.clear()
        self.queue.leave(self)
        if self._task is not None:
            self._task.cancel()

    def wait_behind(self, ahead: int) -> None:
        """The queue says how many are ahead."""
        self.phase, self.ahead = WAITING, ahead
        self._tell()

    def begin(self) -> None:
        """The queue says that it is its turn."""
        self.phase = STARTING
        if self.request is not None:
            self._task = asyncio.get_running_loop().create_task(self._train(self.request))
        self._tell()

    async def _train(self, request: TrainingRequest) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="amci-training-") as folder:
                await self._follow(request, Path(folder) / "proposals")
        except Exception as error:  # the user must see it, whatever it is
            self.message = " ".join(str(error).split()) or type(error).__name__
        self.queue.leave(self)
        self.phase = OVER
        self._tell()

    async def _follow(self, request: TrainingRequest, folder: Path) -> None:
        """Runs the process, and takes what it reports until it ends."""
        with tempfile.TemporaryFile() as errors:
            self._process = process = await asyncio.create_subprocess_exec(
                *request.command(folder), stdin=PIPE, stdout=PIPE, stderr=errors
            )
            try:
                if self.phase == STOPPING:
                    self._interrupt()
                async for line in cast("asyncio.StreamReader", process.stdout):
                    self._take(json.loads(line), request, folder)
                code = await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                self._process = None
            self.stopped = self.phase == STOPPING
            if (folder / "config.json").is_file():
                self._take_proposals(request, folder)
            if code and not self.stopped:
                errors.seek(0)
                self.message = _reason(code, errors.read().decode(errors="replace"), folder)

    def _interrupt(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                # Windows has no such signal; what was saved a second ago is kept there.
                self._process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)

    def _take(self, line: dict[str, Any], request: TrainingRequest, folder: Path) -> None:
        """Notes a line of the process."""
        if self.phase == STARTING:
            self.phase = GOING
        if "message" in line:
            self.log.append(line["message"])
        elif "saved" in line:
            since = time.monotonic() - self._taken
            if since > SECONDS_BETWEEN and (self._resting() or since > SECONDS_AT_MOST):
                # Files that the next save is replacing do not fit together: that save comes too.
                with suppress(ValueError):
                    self._take_proposals(request, folder)
        else:
            figures: dict[str, Any] = {k: math.nan if v is None else v for k, v in line.items()}
            self.reports.append(Report(**figures))
            if len(self.reports) > MOST_REPORTS:
                self.reports = [*self.reports[:-1:2], self.reports[-1]]
        self._tell()

    def _take_proposals(self, request: TrainingRequest, folder: Path) -> None:
        """Has the page list, and show, the proposals in a folder."""
        name = request.problem
        found = amci.load_proposals(registry.problem(name), folder=folder)
        self._taken, first = time.monotonic(), not self.variant
        if first:
            self.variant = registry.add_variant(name, request.name, found, session=self._state)
        self.proposals = replace(found, variant=self.variant)
        registry.renew_variant(name, self.variant, self.proposals)
        self._on_page(partial(self._choose if first else self._renew, name))

    def _choose(self, problem: str) -> None:
        """Has the page show what is trained, if it shows that problem."""
        if self._state.problem.name == problem and self._state.variant != self.variant:
            self._state.set(variant=self.variant)
            self._state.commit()

    def _renew(self, problem: str) -> None:
        """Has the page draw the better proposals, if it shows them."""
        if (self._state.problem.name, self._state.variant) == (problem, self.variant):
            self._state.param.trigger("renewed")

    def _tell(self) -> None:
        """Calls those who watch, once for all news until the page's turn."""
        if not self._told:
            self._told = True
            self._on_page(self._tell_now)

    def _tell_now(self) -> None:
        self._told = False
        for act in self._watchers:
            act()

    def _on_page(self, act: Callable[[], None]) -> None:
        def turn() -> None:
            with guarded(self._document):
                act()

        self._document.add_next_tick_callback(turn)


def _reason(code: int, errors: str, folder: Path) -> str:
    """Why a process failed, in a line."""
    if code < 0:
        return f"the training process ended by signal {-code}; perhaps it ran out of memory"
    lines = [line for line in errors.splitlines() if line.strip()]
    last = lines[-1] if lines else f"the training process ended with status {code}"
    return last.removeprefix("amci: ").replace(f", in {folder}", "")
