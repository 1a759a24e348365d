"""What a runner can be asked to compute, for its tests: importable by worker processes."""

import dataclasses
import os
import pickle
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from amci_explorer.compute.trainee import Report


@dataclass(frozen=True)
class Count:
    """Numbers of parts, as a list; `seconds` for each part.

    `fails` and `kills` are the part at which it raises or ends its process; with a path in `once`
    only the first time. The first part takes `begins` seconds more.
    """

    parts: int
    seconds: float = 0.001
    fails: int | None = None
    kills: int | None = None
    once: str = ""
    busy: bool = False
    name: str = ""
    begins: float = 0.0

    def less(self, share):
        return f"ask for {int(share * self.parts)} parts"

    def part(self, number):
        if self.busy:
            started = time.process_time()
            wanted = self.seconds + (self.begins if number == 0 else 0)
            while time.process_time() < started + wanted:
                pass
        time.sleep(self.seconds)
        if number == self.fails:
            raise ValueError("theta: expected a number")
        if number == self.kills and not (self.once and Path(self.once).exists()):
            if self.once:
                Path(self.once).touch()
            os._exit(1)
        return self.parts, (number, os.getpid())

    def result(self, parts):
        return [number for number, _ in parts]


def obeys(connection, order):
    """A training that says numbers for as long as it is asked to, and does as it is told."""
    said, until = 0, time.monotonic() + 60 * order.minutes
    while time.monotonic() < until:
        if connection.poll(0.02):
            connection.send(("ended", True))
            return
        said += 1
        connection.send(("said", str(said)))
    connection.send(("ended", False))


def dies(connection, order):
    """A training whose process is killed."""
    connection.send(("said", "here"))
    os.kill(os.getpid(), signal.SIGKILL)


def fails(connection, order):
    """A training that cannot be done."""
    connection.send(("failed", f"{order.problem} cannot be learnt"))


def references(connection, order):
    """A training that learns nothing, and sends a problem's reference three times."""
    import amci_core as amci
    from amci_core.flows import Proposals

    made = Proposals.from_defensive(amci.problem(order.problem))
    for step in range(3):
        report = Report("q1_plus", "imitate", step, 0.5, 1.0, 1.0 / (1 + step), step, 2 - step)
        connection.send(("report", report))
        connection.send(("proposals", pickle.dumps(dataclasses.replace(made, variant=order.name))))
        # Until the page has taken it up.
        connection.recv()
    connection.send(("ended", False))
