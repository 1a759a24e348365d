r"""How the dashboard bears a class: `python benchmarks/visitors.py`, on an otherwise idle machine.

Starts the real server, and visits it over loopback as pages do, by Bokeh's protocol, without
browsers: some visitors drag a slider ten times a second while others have error curves computed.
The pictures that they move are the server's: of a problem that a page paints by itself the server
hears on release only. Then pages are opened and left, and the server's memory is looked at.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import asyncio
import math
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketClientConnection

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from protocol import Page  # noqa: E402
from serving import served_dashboard  # noqa: E402

PROBLEM, LABEL = "?problem=tail-5d", "Threshold θ, all coordinates"
RANGE = (0.5, 2.5)
MOVES_A_SECOND = 10
# More runs than end while it is measured.
ENDLESS = "&runs=10000"
SECONDS_TO_SETTLE = 40
MOST_SECONDS, MOST_VISITS = 600, 2000
WANTED_95, WANTED_GROWTH = 0.400, 150


class Visitor(Page):
    """A page whose slider is dragged, and which notes when its moves are answered.

    As a page does, it sends the newest move when the last one that it sent is answered.
    """

    def __init__(self, token: str, connection: WebSocketClientConnection) -> None:
        super().__init__(token, connection)
        # Moves that are not answered yet: the slider's value, and when it got there.
        self.waiting: list[tuple[float, float]] = []
        self.answered: list[float] = []
        self.moves = 0
        # How many of them the last one that was sent answers; 0: nothing is sent.
        self.sent, self.at = 0, math.nan

    async def listen(self) -> None:
        """Notes answers until the connection is closed."""
        while True:
            try:
                _, content, _ = await self.receive()
            except ConnectionError:
                return
            if self.sent and '"answered"' in content:
                # Sent with all that was drawn; it answers the moves before as well.
                now = time.perf_counter()
                self.answered += [now - at for _, at in self.waiting[: self.sent]]
                del self.waiting[: self.sent]
                self.sent = 0
                await self.send_newest()

    async def send_newest(self) -> None:
        """Says where the slider is, unless an answer is due."""
        # To where it is, as the server knows, nothing would be sent.
        if self.waiting and not self.sent and self.waiting[-1][0] != self.at:
            self.sent, self.at = len(self.waiting), self.waiting[-1][0]
            await self.change(self.model(label=LABEL)["id"], "value", self.at)

    async def drag(self, seconds: float, rng: np.random.Generator) -> None:
        """Moves the slider about, ten times a second."""
        low, high = (100 * end for end in RANGE)
        until = time.perf_counter() + seconds
        await asyncio.sleep(rng.random() / MOVES_A_SECOND)
        while time.perf_counter() < until:
            value = float(rng.integers(low, high)) / 100
            self.waiting.append((value, time.perf_counter()))
            self.moves += 1
            await self.send_newest()
            await asyncio.sleep(1 / MOVES_A_SECOND)


async def drag(address: str, *, visitors: int, computing: int, seconds: float) -> None:
    """Lets visitors drag while others compute, and prints how they are answered."""
    address += PROBLEM
    busy = [await Visitor.come(address + ENDLESS + f"&seed={i}") for i in range(computing)]
    here = [await Visitor.come(address) for _ in range(visitors)]
    listening = [asyncio.create_task(each.listen()) for each in (*busy, *here)]
    await asyncio.sleep(3)
    rngs = [np.random.default_rng(seed) for seed in range(visitors)]
    await asyncio.gather(*(each.drag(seconds, rng) for each, rng in zip(here, rngs, strict=True)))
    await asyncio.sleep(5)
    answered = np.array([t for each in here for t in each.answered])
    moves = sum(each.moves for each in here)
    lost = sum(len(each.waiting) for each in here)
    print(f"{visitors} visitors dragging, {computing} computing, {moves:,} moves:")
    if len(answered):
        middle, most = np.quantile(answered, [0.5, 0.95])
        print(f"  answered after {1000 * middle:.0f} ms (median), {1000 * most:.0f} ms (95 %)")
        print(f"  wanted: 95 % within {1000 * WANTED_95:.0f} ms")
    print(f"  without any answer: {lost}")
    for each in (*busy, *here):
        each.leave()
    await asyncio.gather(*listening)


async def open_and_leave(address: str, server: int, *, visits: int) -> None:
    """Opens pages and leaves them, and prints how the server's memory grows."""

    async def visit(n: int) -> None:
        for _ in range(n):
            while True:
                try:
                    visitor = await Visitor.come(address)
                    break
                # One address may open so many pages a minute.
                except HTTPClientError as error:
                    await asyncio.sleep(float(error.response.headers["Retry-After"]))
            await asyncio.sleep(0.2)
            visitor.leave()

    await visit(20)
    await asyncio.sleep(SECONDS_TO_SETTLE)
    before = megabytes_of(server)
    await visit(visits - 20)
    await asyncio.sleep(SECONDS_TO_SETTLE)
    after = megabytes_of(server)
    print(f"{visits} visits: {before:.0f} MB after 20, {after:.0f} MB after all")
    print(f"  grown by {after - before:.0f} MB (wanted: less than {WANTED_GROWTH})")


def megabytes_of(process: int) -> float:
    """What a process holds in memory."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="How the dashboard bears a class.")
    parser.add_argument("--visitors", type=int, default=16, help="that drag; default: 16")
    parser.add_argument("--computing", type=int, default=4, help="that compute; default: 4")
    parser.add_argument("--seconds", type=float, default=20, help="of dragging; default: 20")
    parser.add_argument("--visits", type=int, default=100, help="to open and leave; default: 100")
    options = parser.parse_args()
    options.seconds = min(options.seconds, MOST_SECONDS)
    options.visits = min(options.visits, MOST_VISITS)
    with (
        tempfile.TemporaryDirectory() as folder,
        served_dashboard(Path(folder) / "server.log") as address,
    ):
        server = served_process(address)
        if options.visitors:
            asyncio.run(
                drag(
                    address,
                    visitors=options.visitors,
                    computing=options.computing,
                    seconds=options.seconds,
                )
            )
        if options.visits > 20:
            asyncio.run(open_and_leave(address, server, visits=options.visits))
    return 0


def served_process(address: str) -> int:
    """The number of the process that serves a port of this machine."""
    port = address.rpartition(":")[2].partition("/")[0]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if port in words and any(word.endswith("serve") for word in words):
            return int(folder.name)
    raise RuntimeError(f"no server on port {port}")


if __name__ == "__main__":
    sys.exit(main())
