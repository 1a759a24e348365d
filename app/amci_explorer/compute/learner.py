r"""What one visitor trains: one training at a time, whose proposals the whole page shows."""

from __future__ import annotations

__all__ = ["LONGEST_NAME", "MINUTES", "Learner", "check_name", "lines"]

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

from amci_core.flows import Proposals
from amci_core.flows.proposals import DEFENSIVE
from amci_core.proposals import ORACLE
from amci_core.target import FALLBACK
from amci_explorer.compute.jobs import Loop
from amci_explorer.compute.lane import Lane, Training, lane
from amci_explorer.compute.session import TURNS, guarded
from amci_explorer.compute.trainee import Order, Report
from amci_explorer.problems import registry
from amci_explorer.state.state import State

log = logging.getLogger(__name__)

LONGEST_NAME = registry.LONGEST_VARIANT - 6  # a number may follow
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9-]{{0,{LONGEST_NAME - 1}}}", re.ASCII)
# What a visitor may ask for.
MINUTES = (0.05, 60.0)
# The page takes better proposals up at most so often; what it computes is finished before, unless
# that takes longer.
SECONDS_BETWEEN, SECONDS_AT_MOST = 2.0, 8.0
# From this many reports on every other one is left out.
MOST_REPORTS = 1000
# What there is to see of a training.
IDLE, WAITING, STARTING, GOING, STOPPING, OVER = (
    *("idle", "waiting", "starting", "going", "stopping", "over"),
)


def check_name(problem: str, text: str) -> str:
    """A name for proposals.

    Arguments:
        problem: The name of the problem that they are for.
        text: What was typed.

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


def lines(reports: list[Report]) -> dict[str, list[Report]]:
    """The reports of each proposal."""
    found: dict[str, list[Report]] = {}
    for each in reports:
        found.setdefault(each.proposal, []).append(each)
    return found


class Learner:
    """Creates what trains for a visitor, idle.

    Arguments:
        state: What the visitor chose: their proposals are listed there, and chosen when they come.
        document: Where what comes is shown.
        loop: The server's event loop; by default the one that runs in this thread.
        resting: Whether the page has computed what it shows.
        of: Where trainings have their place; by default this process's `lane`.

    Attributes:
        phase: What there is to see of it.
        order: What was asked for.
        ahead: Trainings ahead of it while it waits.
        said: What it said of itself, such as its plan.
        reports: Where it stood, from its beginning.
        proposals: The best so far.
        variant: The name that the page lists these by; empty until there are some.
        stopped: Whether it was stopped before its time was over.
        message: Why it failed; empty unless it did.
    """

    def __init__(
        self,
        state: State,
        document: Any,
        loop: Loop | None = None,
        *,
        resting: Callable[[], bool] = lambda: True,
        of: Lane | None = None,
    ) -> None:
        self._state, self._document, self._resting = state, document, resting
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._lane = of
        self._watchers: list[Callable[[], Any]] = []
        self._lock = threading.Lock()
        self._heard: list[tuple[str, Any]] = []
        self._training: Training | None = None
        self._clear()

    def _clear(self) -> None:
        self.phase, self.order = IDLE, None
        self.ahead = 0
        self.said: list[str] = []
        self.reports: list[Report] = []
        self.proposals: Proposals | None = None
        self.variant = self.message = ""
        self.stopped = False
        self._newest: Proposals | None = None
        self._renewed = 0.0

    order: Order | None

    @property
    def busy(self) -> bool:
        """Whether there is a training that has not ended."""
        return self.phase not in (IDLE, OVER)

    def watch(self, act: Callable[[], Any]) -> None:
        """Has something done whenever there is news."""
        self._watchers.append(act)

    def start(self, order: Order) -> None:
        """Begins a training; the one before has to have ended.

        Raises:
            ValueError: it has not.
        """
        if self.busy:
            raise ValueError("a training is under way; stop it first")
        self._clear()
        self.order, self.phase = order, STARTING
        training_lane = self._lane or lane()
        mark = object()
        self._mark = mark
        self._training = training_lane.enter(order, partial(self._hear, mark))
        self._tell()

    def stop(self) -> None:
        """Ends it; the best so far is kept."""
        if self.busy and self.phase != STOPPING and self._training is not None:
            self.phase = STOPPING
            self._training.stop()
            self._tell()

    def close(self) -> None:
        """The visitor has gone: there is no training any more."""
        self._mark = None
        self._watchers.clear()
        if self._training is not None:
            self._training.leave()
            self._training = None

    _mark: object = None

    def _hear(self, mark: object, what: str, value: Any) -> None:
        """Notes what a training tells; any thread may."""
        with self._lock:
            first = not self._heard
            if mark is self._mark:
                self._heard.append((what, value))
        if first:
            try:
                self._loop.call_soon_threadsafe(self._come)
            except RuntimeError:  # the server has closed its loop
                self.close()

    def _come(self) -> None:
        """Asks for a turn of the document's; in the server's thread."""
        try:
            self._document.add_timeout_callback(self._listen, ceil(1000 * TURNS.wait()))
        except Exception:
            # Bokeh raises different things while and after it takes a session down.
            log.debug("the visitor has gone", exc_info=True)
            self.close()

    def _listen(self) -> None:
        """Takes all that was told."""
        with self._lock:
            heard, self._heard = self._heard, []
        if self._mark is not None:
            with TURNS.answering(), guarded(self._document):
                for what, value in heard:
                    self._take(what, value)
                ended = any(what in ("ended", "failed") for what, _ in heard)
                since = time.monotonic() - self._renewed
                if self.phase == OVER or (
                    since > SECONDS_BETWEEN and (self._resting() or since > SECONDS_AT_MOST)
                ):
                    self._take_up()
                if ended:
                    self._choose()
                self._tell()

    def _take(self, what: str, value: Any) -> None:
        if what == "place":
            self.phase, self.ahead = WAITING, value
        elif what == "begun":
            self.phase = STARTING if self.phase == WAITING else self.phase
        elif what == "said":
            self.said.append(value)
            self._going()
        elif what == "report":
            self.reports.append(value)
            if len(self.reports) > MOST_REPORTS:
                self.reports = [*self.reports[:-1:2], self.reports[-1]]
            self._going()
        elif what == "proposals":
            self.proposals = self._newest = value
        else:
            self.phase, self._training = OVER, None
            self.stopped = what == "ended" and value
            self.message = value if what == "failed" else ""

    def _going(self) -> None:
        if self.phase in (WAITING, STARTING):
            self.phase = GOING

    def _take_up(self) -> None:
        """Has the page list, and show, the newest proposals."""
        newest, self._newest = self._newest, None
        if newest is None or self.order is None:
            return
        self._renewed = time.monotonic()
        name = self.order.problem
        new = not self.variant
        if new:
            self.variant = registry.add_variant(name, self.order.name, newest, session=self._state)
        self.proposals = replace(newest, variant=self.variant)
        registry.renew_variant(name, self.variant, self.proposals)
        if new:
            self._choose()
        elif (self._state.problem.name, self._state.variant) == (name, self.variant):
            self._state.param.trigger("renewed")

    def _choose(self) -> None:
        """Has the page show what is trained, where it is at that problem."""
        here = self.order is not None and self._state.problem.name == self.order.problem
        if here and self.variant and self._state.variant != self.variant:
            self._state.set(variant=self.variant)
            self._state.commit()

    def _tell(self) -> None:
        for act in self._watchers:
            act()
