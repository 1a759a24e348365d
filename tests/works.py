"""What a runner can be asked to compute, for its tests: importable by worker processes."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Count:
    """Numbers of parts, as a list; `seconds` for each part.

    `fails` and `kills` are the part at which it raises or ends its process; with a path in `once`
    only the first time.
    """

    parts: int
    seconds: float = 0.001
    fails: int | None = None
    kills: int | None = None
    once: str = ""
    busy: bool = False
    name: str = ""

    def part(self, number):
        if self.busy:
            started = time.process_time()
            while time.process_time() < started + self.seconds:
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
