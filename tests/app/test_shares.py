"""A browser has a share of the server, whatever its tabs do; a class shares an address."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from amci_explorer.server.records import LONGEST_RECORD, MOST_RECORDS, Short
from amci_explorer.server.shares import MESSAGES, PAGES, Door, Rate, Shares, Visitor, new_cookie


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def browser(address: str = "192.0.2.1") -> Visitor:
    return Visitor.of(new_cookie(), address)


def test_a_browser_is_known_by_a_cookie_that_the_server_signed():
    cookie = new_cookie()
    first, again = (Visitor.of(cookie, "192.0.2.1") for _ in range(2))
    assert first == again
    assert first.browser
    for forged in ("", ".", "made-up", "made-up.0", cookie[:-1], "x" + cookie, "é.é"):
        assert Visitor.of(forged, "192.0.2.1").browser == ""


def test_a_network_of_ipv6_is_one_address():
    one, other, far = (Visitor.of("", f"2001:db8:0:{end}") for end in ("1::1", "1::2", "2::1"))
    assert one == other
    assert one != far
    assert Visitor.of("", "::1").address


def test_thirty_browsers_behind_one_address_open_the_page_within_ten_seconds(clock):
    pages = Shares(PAGES.browser, PAGES.address, clock)
    for _ in range(30):
        # The first look comes without a cookie; then somebody reloads.
        assert pages.take(Visitor("", "192.0.2.1"), late=False) == 0
        clock.now += 1 / 3
        assert pages.take(browser(), late=False) == 0


def test_a_browser_that_asks_on_waits_and_others_do_not(clock):
    shares = Shares(Rate(1, 3), Rate(10, 100), clock)
    tab, other = browser(), browser()
    assert [shares.take(tab, late=False) for _ in range(3)] == [0, 0, 0]
    # What was not given costs nothing.
    assert [shares.take(tab, late=False) for _ in range(3)] == [1, 1, 1]
    assert shares.take(other, late=False) == 0
    clock.now += 1
    assert shares.take(tab, late=False) == 0
    assert shares.take(tab, late=False) == 1


def test_new_cookies_give_an_address_no_more(clock):
    shares = Shares(Rate(1, 3), Rate(1, 10), clock)
    assert sum(shares.take(browser(), late=False) == 0 for _ in range(20)) == 10
    assert shares.take(browser("192.0.2.2"), late=False) == 0


def test_visitors_without_a_cookie_take_nothing_from_those_who_have_one(clock):
    shares = Shares(Rate(1, 3), Rate(1, 10), clock)
    assert sum(shares.take(Visitor("", "192.0.2.1"), late=False) == 0 for _ in range(20)) == 10
    assert shares.take(browser(), late=False) == 0


def test_moves_beyond_a_share_come_later_all_of_them(clock):
    messages = Shares(MESSAGES.browser, MESSAGES.address, clock)
    tab, sent = browser(), 740
    for _ in range(10 * sent):
        clock.now += messages.take(tab)
    # All of a flood of ten seconds, at a hundred a second after the first three hundred.
    assert clock.now - 1000 == pytest.approx((10 * sent - 300) / 100)
    assert messages.take(browser()) == 0


def test_pages_are_built_one_at_a_time_and_addresses_take_turns():
    async def run() -> list[str]:
        door, built, inside = Door(), [], 0

        async def build(address: str) -> None:
            nonlocal inside
            async with door.enter(address):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                built.append(address)
                inside -= 1

        loops = [asyncio.create_task(build("loops")) for _ in range(8)]
        await asyncio.sleep(0)
        visitor = asyncio.create_task(build("visitor"))
        await asyncio.gather(*loops, visitor)
        return built

    # In a thread of its own: the loop of a browser may be running in this one.
    with ThreadPoolExecutor(1) as elsewhere:
        built = elsewhere.submit(asyncio.run, run()).result()
    assert built.count("loops") == 8
    assert built.index("visitor") <= 2


def test_a_place_in_the_code_fills_no_log():
    log, told = logging.Logger("apart"), []
    handler = logging.Handler()
    handler.emit = told.append

    def make(line: int, message: str = "x") -> None:
        log.handle(Short("apart", logging.ERROR, "a.py", line, message, (), None))

    log.addHandler(handler)
    for _ in range(MOST_RECORDS + 7):
        make(1)
    assert len(told) == MOST_RECORDS
    make(2, "y" * 1000)
    assert len(told) == MOST_RECORDS + 1
    assert len(told[-1].getMessage()) <= LONGEST_RECORD
