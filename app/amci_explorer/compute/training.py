r"""Trains proposals for a session by `amci train` in a process of its own, a few at a time.

The process reports on its stdout, a line of JSON each, and saves the best so far in a folder,
which is loaded as it grows. It ends when it is terminated; and when its stdin ends, with this
server.
"""

from __future__ import annotations

__all__ = ["MINUTES", "TrainingRequest", "TrainingSession", "check_name", "zipped"]

import asyncio
import json
import os
import re
import sys
import tempfile
import time
import zipfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from weakref import WeakValueDictionary

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.flows.proposals import DEFENSIVE
from amci_core.proposals import ORACLE
from amci_core.target import FALLBACK
from amci_core.training import Choices
from amci_explorer.problems import registry
from amci_explorer.server.session import on_page
from amci_explorer.state.state import State

# A number may follow.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,33}", re.ASCII)
# Time of computing that a session may ask for.
MINUTES = (0.05, 60.0)
# The page takes better proposals at most this often: it computes errors anew for them.
SECONDS_BETWEEN = 5.0
# What the environment says of the number of trainings at a time.
TRAININGS, AT_A_TIME = "AMCI_TRAININGS", 2
# A browser trains one at a time.
_BROWSERS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


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
            "minutes": self.minutes,
            "seed": self.seed,
            "out": folder,
            "progress": "json",
        }
        given = [f"--{name}={value}" for name, value in options.items() if value is not None]
        program = [sys.executable, "-m", "amci_core", "train"]
        return [*program, registry.command_name(original), *given, "--attached"]


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
        raise ValueError(f"expected letters, digits and dashes, at most 34, got {name[:50]!r}")
    if name in (ORACLE, DEFENSIVE, FALLBACK, *registry.variants(problem)):
        raise ValueError(f"proposals called {name} exist already. Choose another name")
    return name


@cache
def places() -> asyncio.Semaphore:
    """The places for trainings of this process, as its environment says.

    Raises:
        ValueError: the environment names no number from 1 to 1000.
    """
    text = os.environ.get(TRAININGS, "") or str(AT_A_TIME)
    if not (text.isdecimal() and 1 <= int(text) <= 1000):
        raise ValueError(f"{TRAININGS}: expected a number of trainings, got {text!r}")
    return asyncio.Semaphore(int(text))


class TrainingSession:
    """Creates what trains for a page, idle.

    Arguments:
        state: The page's state: the proposals are listed there, and chosen when they come.
        document: The page's document.
        browser: What tells its browser from others.
        places: Where it waits for its turn; by default those of this process.

    Attributes:
        watch: Called, on the page, whenever there is news.
        request: The training that was asked for last.
        waiting: Whether it waits for its turn.
        log: Its messages, such as its plan.
        reports: Its reports from the beginning, as `amci train` prints them.
        proposals: The best so far, under the name that the page lists them by.
        stopped: Whether it was stopped before its time was over.
        message: Why it failed; empty unless it did.
    """

    def __init__(
        self,
        state: State,
        document: Any,
        browser: str = "",
        places: asyncio.Semaphore | None = None,
    ) -> None:
        self._state, self._document, self._places = state, document, places
        self.browser = browser or str(id(self))
        self.watch: Callable[[], Any] = lambda: None
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._clear(None)

    def _clear(self, request: TrainingRequest | None) -> None:
        self.request = request
        self.log: list[str] = []
        self.reports: list[dict[str, Any]] = []
        self.proposals: Proposals | None = None
        self.message = ""
        self.waiting = self.stopped = False
        self._taken = 0.0

    @property
    def busy(self) -> bool:
        """Whether there is a training that has not ended."""
        return self._task is not None

    @property
    def pid(self) -> int | None:
        """The number of its process; None if there is none."""
        return None if self._process is None else self._process.pid

    def start(self, request: TrainingRequest) -> None:
        """Begins a training; the one before has to have ended.

        Raises:
            ValueError: it has not.
        """
        if self.busy:
            raise ValueError("a training is running. Stop it first")
        self._clear(request)
        self._task = asyncio.get_running_loop().create_task(self._train(request))
        self.watch()

    def stop(self) -> None:
        """Ends it; the best so far is kept."""
        self.stopped = True
        if self.waiting:
            self.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                # Where Windows ends it at once, what was saved a second ago is kept.
                self._process.terminate()
        self.watch()

    def close(self) -> None:
        """Ends a training at once, such as that of a page that has gone."""
        if self._task is not None:
            self._task.cancel()
            self._task, self.waiting = None, False

    async def _train(self, request: TrainingRequest) -> None:
        self.waiting = True
        try:
            own = _BROWSERS.setdefault(self.browser, asyncio.Lock())
            async with own, self._places or places():
                self.waiting = False
                await on_page(self._document, self.watch)
                with tempfile.TemporaryDirectory(prefix="amci-training-") as folder:
                    await self._follow(request, Path(folder))
        except Exception as error:  # shown to the user
            self.message = " ".join(str(error).split()) or type(error).__name__
        self._task, self.waiting = None, False
        await on_page(self._document, self.watch)

    async def _follow(self, request: TrainingRequest, folder: Path) -> None:
        """Runs the process, and takes what it reports until it ends."""
        with tempfile.TemporaryFile() as errors:
            self._process = process = await asyncio.create_subprocess_exec(
                *request.command(folder), stdin=PIPE, stdout=PIPE, stderr=errors
            )
            try:
                if self.stopped:
                    process.terminate()
                async for line in cast("asyncio.StreamReader", process.stdout):
                    await on_page(
                        self._document, partial(self._take, json.loads(line), request, folder)
                    )
                code = await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                self._process = None
            if (folder / "config.json").is_file():
                await on_page(self._document, partial(self._load, request, folder))
            if code and not self.stopped:
                errors.seek(0)
                lines = errors.read().decode(errors="replace").split("\n")
                last = next((line for line in reversed(lines) if line.strip()), f"status {code}")
                self.message = (
                    f"the training process ended by signal {-code}; perhaps it ran out of memory"
                    if code < 0
                    else last.removeprefix("amci: ").replace(f", in {folder}", "")
                )

    def _take(self, line: dict[str, Any], request: TrainingRequest, folder: Path) -> None:
        """Notes a line of the process."""
        if "message" in line:
            self.log.append(line["message"])
        elif "proposal" in line:
            self.reports.append(line)
        elif time.monotonic() - self._taken > SECONDS_BETWEEN:
            # Files that the next save is replacing do not fit together: that save comes too.
            with suppress(ValueError):
                self._load(request, folder)
        self.watch()

    def _load(self, request: TrainingRequest, folder: Path) -> None:
        """Has the page list, and show, the proposals in a folder."""
        problem, state = request.problem, self._state
        found = amci.load_proposals(registry.problem(problem), folder=folder)
        self._taken = time.monotonic()
        here = state.problem.name == problem
        if self.proposals is None:
            self.proposals = registry.add_variant(problem, request.name, found, session=state)
            if here:
                state.set(variant=self.proposals.variant)
                state.commit()
        else:
            self.proposals = registry.renew_variant(problem, self.proposals.variant, found)
            if here and state.variant == self.proposals.variant:
                state.param.trigger("renewed")


def zipped(proposals: Proposals) -> BytesIO:
    """A zip of the files that `Proposals.save` writes."""
    content = BytesIO()
    deflated = zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED)
    with tempfile.TemporaryDirectory() as folder, deflated as archive:
        for path in sorted(proposals.save(folder).iterdir()):
            archive.write(path, path.name)
    content.seek(0)
    return content
