"""What a runner can be asked to compute, for its tests: importable by worker processes."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


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
