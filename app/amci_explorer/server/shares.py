r"""Fair shares of the server: per browser, and more widely per address.

A browser is known by a cookie that the server signs: who makes one up has none. A class of thirty
sits behind one address, and a page in another site's frame may get no cookie: the address counts
alone then. Those with a cookie have one share of their address, those without another: who fetches
pages without one takes nothing from a class that has opened the page. What is beyond a share is
told to come again (pages), or read more slowly (messages).
"""

from __future__ import annotations

__all__ = ["COOKIE", "MESSAGES", "PAGES", "Door", "Shares", "Visitor", "new_cookie"]

import asyncio
import hmac
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from ipaddress import ip_network
from typing import NamedTuple

COOKIE = "amci-browser"
# Cookies of a server that has been started again are made anew.
KEY = secrets.token_bytes(32)
# Browsers and addresses that are remembered before those within their share are forgotten.
REMEMBERED = 10_000
# A page is built by one turn of the server's loop; then others have so much of the time it took.
PAUSE, LONGEST_PAUSE = 0.5, 1.0


class Visitor(NamedTuple):
    """Who asks: a browser, empty where it has no cookie of ours, and an address."""

    browser: str
    address: str

    @classmethod
    def of(cls, cookie: str, address: str) -> Visitor:
        """Reads a cookie's value and an address; of IPv6 a network of 64 bits counts as one."""
        name, _, signature = cookie.partition(".")
        signed = hmac.compare_digest(signature.encode(), _signature(name).encode())
        if ":" in address:
            address = str(ip_network(f"{address.partition('%')[0]}/64", strict=False))
        return cls(name if signed else "", address)


def new_cookie() -> str:
    """A cookie's value for a browser that has none."""
    name = secrets.token_urlsafe(12)
    return f"{name}.{_signature(name)}"


def _signature(name: str) -> str:
    return hmac.new(KEY, name.encode(errors="replace"), sha256).hexdigest()


class Rate(NamedTuple):
    """So many a second in the long run, and so many at once."""

    per_second: float
    at_once: float


class Shares:
    """What each browser and each address may ask for.

    Arguments:
        browser: What a browser may.
        address: What an address may, with all of its browsers; and again with all that has no
            cookie.
        clock: Seconds that never go back.
    """

    def __init__(
        self, browser: Rate, address: Rate, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rates, self._clock = (browser, address, address), clock
        # When all that was asked for is paid off.
        self._paid: dict[tuple[int, str], float] = {}

    def on(self, clock: Callable[[], float]) -> Shares:
        """The same shares, all of them free, by another clock."""
        return Shares(*self._rates[:2], clock)

    def take(self, visitor: Visitor, cost: float = 1.0) -> float:
        """Takes a share in any case: seconds by which it comes too early, 0 within the share."""
        now = self._clock()
        paid = self._with(visitor, cost, now)
        self._paid.update(paid)
        if len(self._paid) > REMEMBERED:
            self._paid = {key: until for key, until in self._paid.items() if until > now}
        return self._wait(paid, now)

    def ask(self, visitor: Visitor, cost: float = 1.0) -> float:
        """Takes a share if there is one; else the seconds until there is."""
        now = self._clock()
        return self._wait(self._with(visitor, cost, now), now) or self.take(visitor, cost)

    def _with(self, visitor: Visitor, cost: float, now: float) -> dict[tuple[int, str], float]:
        browser, address = visitor
        names = (browser, address, "") if browser else ("", "", address)
        return {
            (kind, name): max(self._paid.get((kind, name), now), now)
            + cost / self._rates[kind].per_second
            for kind, name in enumerate(names)
            if name
        }

    def _wait(self, paid: Mapping[tuple[int, str], float], now: float) -> float:
        rates = self._rates
        return max(
            (
                max(0.0, until - now - rates[kind].at_once / rates[kind].per_second)
                for (kind, _), until in paid.items()
            ),
            default=0.0,
        )


# Pages: somebody who reloads again and again, and a class of thirty that opens the page at once.
PAGES = Shares(Rate(0.25, 10), Rate(0.5, 60))
# Messages: a drag sends up to sixty moves a second, the first look at a page some thirty messages.
MESSAGES = Shares(Rate(100, 300), Rate(400, 1200))


class Door:
    """One page is built at a time, and addresses take turns.

    Whoever fetches pages in loops waits for himself: others wait for one page of his.

    Arguments:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._busy = False

    @asynccontextmanager
    async def enter(self, address: str) -> AsyncIterator[None]:
        """Waits for a turn, and has it while inside."""
        if self._busy:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(address, deque()).append(turn)
            await turn
        self._busy = True
        began = self._clock()
        try:
            yield
        finally:
            pause = min(PAUSE * (self._clock() - began), LONGEST_PAUSE)
            asyncio.get_running_loop().call_later(pause, self._next)

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            address, turns = next(iter(self._waiting.items()))
            turns.popleft().set_result(None)
            # Whose turn it was comes last.
            del self._waiting[address]
            if turns:
                self._waiting[address] = turns
