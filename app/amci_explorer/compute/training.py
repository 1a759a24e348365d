r"""Trains proposals for a session by `amci train` in a child process, a few at a time.

The process reports on its stdout, a line of JSON each, and saves the best so far in a folder,
which is loaded as it grows. It ends when it is terminated, and when its stdin ends with this
server.
"""

from __future__ import annotations

__all__ = ["TrainingRequest", "TrainingSession", "places", "zipped"]

import asyncio
import json
import os
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
from amci_core.training import Choices
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.settings import Settings
from amci_explorer.server.session import on_page
from amci_explorer.state.case import Case

# The name of all trained proposals; a number follows from the second on.
NAME = "learnt"
# The page takes better proposals at most this often: it computes errors anew for them.
SECONDS_BETWEEN = 5.0
# The environment's variable for the number of trainings at a time, and its default.
TRAININGS, AT_A_TIME = "AMCI_TRAININGS", 2
# A browser trains one at a time.
_BROWSERS: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True)
class TrainingRequest:
    """A training that a session asks for.

    Arguments:
        settings: The page's settings; the problem and the seed are trained with.
        choices: The proposals' form, and the minutes.
    """

    settings: Settings
    choices: Choices

    @property
    def problem(self) -> str:
        """The problem's name, with another f as `registry.problem` takes it."""
        return self.settings.problem

    def command(self, folder: Path) -> list[str]:
        """The command that trains into a folder.

        Raises:
            ValueError: the problem is from no file.
        """
        original, f = registry.split(self.problem)
        options = {
            "f": f or None,
            "variant": None if original in registry.OWN else NAME,
            **{n: getattr(self.choices, n) for n in ("family", "bins", "width", "minutes")},
            "seed": self.settings.seed,
            "out": folder,
            "progress": "json",
        }
        named = [f"--{name}={value}" for name, value in options.items() if value is not None]
        program = [sys.executable, "-m", "amci_core", "train"]
        return [*program, registry.command_name(original), *named, "--attached"]


@cache
def places() -> asyncio.Semaphore:
    """The places for trainings of this server, as its environment says.

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

    Attributes:
        watch: Called, on the page, whenever there is news.
        request: The training that was asked for last.
        process: Its process, while it runs.
        waiting: Whether it waits for other trainings.
        stopped: Whether it was stopped before its time was over.
        plan: Its last message, such as the form of a proposal.
        reports: Its reports from the beginning, as `amci train` prints them.
        proposals: The best so far, under the name that the page lists them by.
        message: Why it failed; empty unless it did.
    """

    def __init__(self, state: Case, document: Any, browser: str = "") -> None:
        self._state, self._document = state, document
        self.browser = browser or str(id(self))
        self.watch: Callable[[], Any] = lambda: None
        self.process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._clear(None)

    def _clear(self, request: TrainingRequest | None) -> None:
        self.request = request
        self.reports: list[dict[str, Any]] = []
        self.proposals: Proposals | None = None
        self.plan = self.message = ""
        self.waiting = self.stopped = False
        self._loaded = 0.0

    @property
    def busy(self) -> bool:
        """Whether there is a training that has not ended."""
        return self._task is not None

    def start(self, request: TrainingRequest) -> None:
        """Begins a training, if the one before has ended."""
        if not self.busy:
            self._clear(request)
            self._task = asyncio.get_running_loop().create_task(self._train(request))
            self.watch()

    def stop(self) -> None:
        """Ends it; the best so far is kept."""
        self.stopped = True
        if self.waiting:
            self.close()
        if self.process is not None:
            with suppress(ProcessLookupError):
                # Where Windows ends it at once, what was saved a second ago is kept.
                self.process.terminate()
        self.watch()

    def close(self) -> None:
        """Ends a training at once, such as that of a page that has gone."""
        if self._task is not None:
            self._task.cancel()
            self._task, self.waiting = None, False

    async def _train(self, request: TrainingRequest) -> None:
        self.waiting = True
        try:
            mine = _BROWSERS.setdefault(self.browser, asyncio.Lock())
            async with mine, places():
                self.waiting = False
                await on_page(self._document, self.watch)
                with tempfile.TemporaryDirectory(prefix="amci-training-") as folder:
                    await self._run(request, Path(folder))
        except Exception as error:  # shown to the user
            self.message = " ".join(str(error).split()) or type(error).__name__
        self._task, self.waiting = None, False
        await on_page(self._document, self.watch)

    async def _run(self, request: TrainingRequest, folder: Path) -> None:
        """Runs the process, and takes what it reports until it ends."""
        with tempfile.TemporaryFile() as errors:
            self.process = process = await asyncio.create_subprocess_exec(
                *request.command(folder), stdin=PIPE, stdout=PIPE, stderr=errors
            )
            try:
                if self.stopped:
                    process.terminate()
                async for line in cast("asyncio.StreamReader", process.stdout):
                    take = partial(self._take, json.loads(line), folder)
                    await on_page(self._document, take)
                code = await process.wait()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                self.process = None
            if (folder / "config.json").is_file():
                await on_page(self._document, partial(self._load, folder))
            if code < 0 and not self.stopped:
                self.message = f"its process ended by signal {-code}; perhaps out of memory"
            elif code and not self.stopped:
                errors.seek(0)
                last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
                last = last.removeprefix("amci: ").replace(f", in {folder}", "")
                self.message = last or f"its process ended with status {code}"

    def _take(self, line: dict[str, Any], folder: Path) -> None:
        """Takes a line of the process."""
        if "message" in line:
            self.plan = line["message"]
        elif "proposal" in line:
            self.reports.append(line)
        elif time.monotonic() - self._loaded > SECONDS_BETWEEN:
            # Files that the next save is replacing do not fit together: that save comes too.
            with suppress(ValueError):
                self._load(folder)
        self.watch()

    def _load(self, folder: Path) -> None:
        """Has the page list the proposals in a folder, and choose them when they are new."""
        request: Any = self.request
        problem, state = request.problem, self._state
        best = amci.load_proposals(registry.problem(problem), folder=folder)
        self._loaded = time.monotonic()
        if self.proposals is None:
            taken = registry.variants(problem)
            self.proposals = session_proposals.add(problem, NAME, best, state, taken=taken)
            if state.problem.name == problem:
                self.use()
        else:
            self.proposals = session_proposals.renew(problem, self.proposals.variant, best)
            if (state.problem.name, state.variant) == (problem, self.proposals.variant):
                state.param.trigger("renewed")

    def use(self) -> None:
        """Has the page show the proposals, at their problem."""
        if self.proposals is not None and self.request is not None:
            if self._state.problem.name != self.request.problem:
                original, f = registry.split(self.request.problem)
                self._state.open(original, f=f)
            self._state.set(variant=self.proposals.variant)
            self._state.commit()


def zipped(proposals: Proposals, script: str) -> BytesIO:
    """A zip of a folder with the proposals, named as they are, and of a script beside it."""
    content, name = BytesIO(), proposals.variant
    deflated = zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED)
    with tempfile.TemporaryDirectory() as folder, deflated as archive:
        for path in sorted(proposals.save(folder).iterdir()):
            archive.write(path, f"{name}/{path.name}")
        archive.writestr(f"{name}.py", script)
    content.seek(0)
    return content
