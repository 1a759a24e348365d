r"""What a process does that trains for one visitor: it trains, reports, and does as it is told."""

from __future__ import annotations

__all__ = ["STOP", "Order", "Report", "run"]

import dataclasses
import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from amci_core.training import Choices

# What it is told.
STOP = "stop"
# Reports, and proposals, are sent at most so often.
SECONDS_BETWEEN_REPORTS, SECONDS_BETWEEN_PROPOSALS = 0.25, 1.0
# Others come first.
NICE = 10


@dataclass(frozen=True)
class Order:
    """What is to be trained.

    Arguments:
        problem: The problem's name, with another f as `registry.problem` takes it.
        name: What the proposals are to be called.
        choices: What is chosen of their form.
        minutes: Time of computing for everything.
        seed: Whole number >= 0.
    """

    problem: str
    name: str
    choices: Choices
    minutes: float
    seed: int


@dataclass(frozen=True)
class Report:
    """Where a training stands.

    Arguments:
        proposal: Which proposal is trained.
        stage: What is being done.
        step: Steps done for this proposal.
        loss: Mean loss since the last report; NaN before the first step.
        variance: Held-out relative variance now.
        best: The best so far.
        seconds: Of computing since the training began.
        left: Seconds of computing until it ends.
    """

    proposal: str
    stage: str
    step: int
    loss: float
    variance: float
    best: float
    seconds: float
    left: float


def run(connection: Connection, order: Order) -> None:
    """Trains; called in the process.

    Sends pairs: "said" with a text, "report" with a `Report`, "proposals" with what pickle makes
    of them, and last "failed" with a message or "ended" with whether it was stopped.
    """
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = threading.Event()
    threading.Thread(target=_obey, args=(connection, told), daemon=True).start()
    with suppress(AttributeError, OSError):
        os.nice(NICE)
    torch.set_num_threads(1)
    try:
        connection.send(_train(connection, order, told))
    except Exception as error:
        connection.send(("failed", " ".join(str(error).split()) or type(error).__name__))
    finally:
        connection.close()


def _train(connection: Connection, order: Order, told: threading.Event) -> tuple[str, bool]:
    """Trains, and says how that ended."""
    from amci_core.training import clock, stream_learning
    from amci_explorer.problems import registry

    def now() -> float:
        if told.is_set():
            raise KeyboardInterrupt
        # With others on the machine it takes longer, and is as good.
        return time.process_time()

    best: Any = None
    clock.now = now
    stopped, reported, sent = False, 0.0, 0.0
    try:
        stream = stream_learning(
            registry.problem(order.problem),
            minutes=order.minutes,
            seed=order.seed,
            choices=order.choices,
            say=lambda message: connection.send(("said", message)),
        )
        began, ahead = time.process_time(), 60 * order.minutes
        for progress, best in stream:
            at = time.monotonic()
            if progress.ended or at - reported > SECONDS_BETWEEN_REPORTS:
                reported = at
                spent = time.process_time() - began
                report = Report(
                    proposal=progress.proposal,
                    stage=progress.stage,
                    step=progress.step,
                    loss=progress.loss,
                    variance=progress.quality.relative_variance,
                    best=progress.best,
                    seconds=spent,
                    left=max(ahead - spent, 0.0),
                )
                connection.send(("report", report))
            if at - sent > SECONDS_BETWEEN_PROPOSALS:
                sent = at
                connection.send(("proposals", _packed(best, order)))
    except KeyboardInterrupt:
        stopped = True
    if best is not None:
        connection.send(("proposals", _packed(best, order)))
    return "ended", stopped


def _packed(proposals: Any, order: Order) -> bytes:
    return pickle.dumps(dataclasses.replace(proposals, variant=order.name))


def _obey(connection: Connection, told: threading.Event) -> None:
    """Ends the training when it is told to; the process, when nobody is there to tell it."""
    while True:
        try:
            connection.recv()
        except (EOFError, OSError):
            os._exit(1)
        told.set()
