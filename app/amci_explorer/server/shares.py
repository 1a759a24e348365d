r"""Fair shares of the server: per browser, and more widely per address.

A browser is known by a cookie that the server signs. A class of thirty sits behind one address,
and a page in another site's frame may get no cookie: the address counts alone then. Those with a
cookie have one share of their address, those without another: who fetches pages without one takes
nothing from a class that has opened the page.
"""

from __future__ import annotations

__all__ = ["COOKIE", "MESSAGES", "PAGES", "Door", "Shares", "Visitor", "new_cookie"]

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import NamedTuple
from weakref import WeakValueDictionary

from tornado.web import create_signed_value, decode_signed_value

COOKIE = "amci-browser"
# Cookies of a server that has been started again are made anew.
KEY = secrets.token_hex(32)
# Browsers and addresses that are remembered before those within their share are forgotten.
REMEMBERED = 10_000
# A page is built by one turn of the server's loop; then others have so much of the time it took.
PAUSE, LONGEST_PAUSE = 0.5, 1.0


def new_cookie() -> str:
    """A cookie's value for a browser that has none."""
    return create_signed_value(KEY, COOKIE, secrets.token_urlsafe(12)).decode()


class Visitor(NamedTuple):
    """Who asks: a browser, empty where it has no cookie of ours, and an address."""

    browser: str
    address: str

    @classmethod
    def of(cls, cookie: str, address: str) -> Visitor:
        """Reads a cookie's value and an address; of IPv6 a network of 64 bits counts as one."""
        name = decode_signed_value(KEY, COOKIE, cookie) or b""
        if ":" in address:
            address = str(ip_network(f"{address.partition('%')[0]}/64", strict=False))
        return cls(name.decode(), address)


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
        self.browser, self.address, self._clock = browser, address, clock
        # When all that a browser or an address has asked for is paid off.
        self._paid: dict[tuple[str, str], float] = {}

    def take(self, visitor: Visitor, cost: float = 1.0, *, late: bool = True) -> float:
        """Takes a share: the seconds by which it comes too early, 0 within the share.

        Arguments:
            visitor: Who asks.
            cost: How much it costs.
            late: Whether it is taken also where it comes too early.
        """
        counted = {("address" if visitor.browser else "without", visitor.address): self.address}
        if visitor.browser:
            counted["browser", visitor.browser] = self.browser
        now, early, paid = self._clock(), 0.0, {}
        for key, rate in counted.items():
            paid[key] = max(self._paid.get(key, now), now) + cost / rate.per_second
            early = max(early, paid[key] - now - rate.at_once / rate.per_second)
        if late or not early:
            self._paid |= paid
        if len(self._paid) > REMEMBERED:
            self._paid = {key: until for key, until in self._paid.items() if until > now}
        return early


# Pages: somebody who reloads again and again, and a class of thirty that opens the page at once.
PAGES = Shares(Rate(0.25, 10), Rate(0.5, 60))
# Messages: a drag sends up to sixty moves a second, the first look at a page some thirty messages.
MESSAGES = Shares(Rate(100, 300), Rate(400, 1200))


class Door:
    """Lets one page be built at a time; addresses take turns.

    An address has one place in the queue: who fetches pages in loops waits for himself.
    """

    def __init__(self) -> None:
        self._building = asyncio.Lock()
        self._own: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def enter(self, address: str) -> AsyncIterator[None]:
        """Waits for a turn, and has it while inside."""
        own = self._own.setdefault(address, asyncio.Lock())
        async with own:
            await self._building.acquire()
            began = time.monotonic()
            try:
                yield
            finally:
                pause = min(PAUSE * (time.monotonic() - began), LONGEST_PAUSE)
                asyncio.get_running_loop().call_later(pause, self._building.release)
