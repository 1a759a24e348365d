r"""Fair shares of the server: per browser, and more widely per address.

A browser is known by a cookie that the server signs. A class of thirty sits behind one address,
and a page in another site's frame may get no cookie: the address counts alone then. Those with a
cookie have one share of their address, those without another: who fetches pages without one takes
nothing from a class that has opened the page.
"""

from __future__ import annotations

__all__ = ["COOKIE", "MESSAGES", "PAGES", "browser_named", "new_cookie"]

import secrets
import time
from typing import NamedTuple

from tornado.web import create_signed_value, decode_signed_value

COOKIE = "amci-browser"
# Cookies of a server that has been started again are made anew.
KEY = secrets.token_hex(32)
# Browsers and addresses that are remembered before those within their share are forgotten.
REMEMBERED = 10_000


def new_cookie() -> str:
    """A cookie's value for a browser that has none."""
    return create_signed_value(KEY, COOKIE, secrets.token_urlsafe(12)).decode()


def browser_named(cookie: str) -> str:
    """The browser that a cookie's value names; empty where it is none of ours."""
    return (decode_signed_value(KEY, COOKIE, cookie) or b"").decode()


class Rate(NamedTuple):
    """So many a second in the long run, and so many at once."""

    per_second: float
    at_once: float


class Shares:
    """What each browser may ask for, and each address with all of its browsers.

    What of an address has no cookie may ask for as much again.
    """

    def __init__(self, browser: Rate, address: Rate) -> None:
        self.browser, self.address = browser, address
        # When all that a browser or an address has asked for is paid off.
        self._paid: dict[tuple[str, str], float] = {}

    def take(self, browser: str, address: str, cost: float = 1.0, *, late: bool = True) -> float:
        """Takes a share: the seconds by which it comes too early, 0 within the share.

        Arguments:
            browser: Who asks; empty without a cookie.
            address: From where.
            cost: How much it costs.
            late: Whether it is taken also where it comes too early.
        """
        counted = {("address" if browser else "without", address): self.address}
        if browser:
            counted["browser", browser] = self.browser
        now, early, paid = time.monotonic(), 0.0, {}
        for key, rate in counted.items():
            paid[key] = max(self._paid.get(key, now), now) + cost / rate.per_second
            early = max(early, paid[key] - now - rate.at_once / rate.per_second)
        if late or not early:
            self._paid |= paid
        if len(self._paid) > REMEMBERED:
            self._paid = {key: until for key, until in self._paid.items() if until > now}
        return early


# Pages are fetched and connect, which counts as well: a visitor who reloads again and again, and a
# class of thirty that opens the page at once.
PAGES = Shares(Rate(0.5, 20), Rate(1, 120))
# Messages: a drag sends up to sixty moves a second, the first look at a page some thirty messages.
MESSAGES = Shares(Rate(100, 300), Rate(400, 1200))
