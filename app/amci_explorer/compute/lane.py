r"""Trainings for all visitors: each in a process of its own, a few at a time, the others in turn.

What a process reports comes in a thread that waits for it, and is handed on to whoever asked.
"""

from __future__ import annotations

__all__ = ["TRAININGS", "Lane", "Training", "lane"]

import logging
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from amci_explorer.compute.executor import without_main
from amci_explorer.compute.trainee import STOP, Order, run

log = logging.getLogger(__name__)

# What the environment says of the number of trainings at a time.
TRAININGS, AT_A_TIME = "AMCI_TRAININGS", 2
# For a process that has closed its connection to end.
SECONDS_TO_END = 10
CONTEXT = multiprocessing.get_context("spawn")
# Called by any thread with what there is to tell, and its value: "place" with the number of
# trainings ahead, "begun", "said", "report", "proposals", and at the end "ended" with whether it
# was stopped, or "failed" with a message.
Tell = Callable[[str, Any], None]
Target = Callable[[Any, Order], None]


class Training:
    """A training that waits, or goes on; made by `Lane.enter`.

    Arguments:
        lane: Where it has its place.
        order: What is to be trained.
        tell: Is told of it.
    """

    def __init__(self, lane: Lane, order: Order, tell: Tell) -> None:
        self.order, self.tell = order, tell
        self._lane = lane
        self._process: Any = None
        self._connection: Any = None
        self._told: list[str] = []
        self.left = False
        # How many of those that wait go first; None until it waits.
        self.ahead: int | None = None

    @property
    def pid(self) -> int | None:
        """The number of its process; None where there is none."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Ends it, with the best so far; what only waits is over at once."""
        if self._lane.withdraw(self):
            self.tell("ended", True)
        else:
            self._order(STOP)

    def leave(self) -> None:
        """Ends it, and tells nothing more of it: the visitor has gone."""
        self.left = True
        self._lane.withdraw(self)
        self._end()

    def _order(self, what: str) -> None:
        with self._lane.lock:
            if self._connection is None:
                self._told.append(what)
                return
            try:
                self._connection.send(what)
            except (OSError, ValueError):  # it has just ended
                log.debug("a training cannot be told to %s", what)

    def serve(self, target: Target) -> None:
        """Starts the process, and hands on what it sends until it ends; in a thread of its own."""
        try:
            self._begin(target)
            what, value = self._connection.recv()
            while what not in ("ended", "failed"):
                if not self.left:
                    self.tell(what, pickle.loads(value) if what == "proposals" else value)
                what, value = self._connection.recv()
        except Exception as error:  # whatever it is, the visitor must see it
            what, value = "failed", self._why(error)
            if not self.left:
                log.error("a training failed: %s", value, exc_info=error)
        self._end()
        self._lane.clear(self)
        if not self.left:
            self.tell(what, value)

    def _why(self, error: Exception) -> str:
        """What went wrong, in words."""
        if self._process is None or not isinstance(error, EOFError | OSError):
            return str(error) or type(error).__name__
        self._process.join(SECONDS_TO_END)
        code = self._process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return f"the training process ended {how}; perhaps it ran out of memory"

    def _begin(self, target: Target) -> None:
        here, there = self._lane.context.Pipe()
        process = self._lane.context.Process(
            target=target, args=(there, self.order), name="training", daemon=True
        )
        with without_main():
            process.start()
        there.close()
        with self._lane.lock:
            self._process, self._connection = process, here
            for what in self._told:
                self._order(what)
        if self.left:
            self._end()
        else:
            self.tell("begun", None)

    def _end(self) -> None:
        """Sees to it that there is no process."""
        if self._process is not None and self._process.is_alive():
            self._process.terminate()


class Lane:
    """Creates the lane of a server, empty.

    Arguments:
        at_a_time: How many trainings go on.
        target: What a process does; see `amci_explorer.compute.trainee.run`.
        context: What makes processes and the pipes to them, as `multiprocessing` does.
    """

    def __init__(
        self, at_a_time: int = AT_A_TIME, *, target: Target = run, context: Any = CONTEXT
    ) -> None:
        self.at_a_time, self._target, self.context = at_a_time, target, context
        self.lock = threading.RLock()
        self._going: list[Training] = []
        self._waiting: list[Training] = []

    def enter(self, order: Order, tell: Tell) -> Training:
        """Begins a training, or has it wait for those ahead.

        Arguments:
            order: What is to be trained.
            tell: Is told of it, see `Tell`.
        """
        with self.lock:
            entered = Training(self, order, tell)
            self._waiting.append(entered)
            self._move()
        return entered

    def withdraw(self, training: Training) -> bool:
        """Takes a training away that only waits; says whether it did. Others move up."""
        with self.lock:
            waited = training in self._waiting
            if waited:
                self._waiting.remove(training)
                self._move()
            return waited

    def clear(self, training: Training) -> None:
        """Gives the place of a training whose process has ended to the next."""
        with self.lock:
            self._going.remove(training)
            self._move()

    def _move(self) -> None:
        """Starts what there is room for, and tells those who wait of their place."""
        while self._waiting and len(self._going) < self.at_a_time:
            first = self._waiting.pop(0)
            self._going.append(first)
            threading.Thread(
                target=first.serve, args=(self._target,), name="training", daemon=True
            ).start()
        for ahead, each in enumerate(self._waiting):
            if each.ahead != ahead:
                each.ahead = ahead
                each.tell("place", ahead)


@cache
def lane() -> Lane:
    """The lane of this process, as its environment says.

    Raises:
        ValueError: that is no number from 1 to 1000.
    """
    text = os.environ.get(TRAININGS, "") or str(AT_A_TIME)
    if not (text.isdecimal() and 1 <= int(text) <= 1000):
        raise ValueError(f"{TRAININGS}: expected a number of trainings, got {text!r}")
    return Lane(int(text))
