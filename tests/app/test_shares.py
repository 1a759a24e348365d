"""A browser has a share of the server, whatever its tabs do; a class shares an address."""

import logging
from types import SimpleNamespace

import pytest
from amci_explorer.server import shares
from amci_explorer.server.records import LONGEST_RECORD, MOST_RECORDS, Short
from amci_explorer.server.shares import (
    MESSAGES,
    PAGES,
    Rate,
    Shares,
    browser_named,
    new_cookie,
)

HERE = "192.0.2.1"


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when a test says so."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(shares.time, "monotonic", lambda: clock.now)
    return clock


def browser() -> str:
    return browser_named(new_cookie())


def test_a_browser_is_known_by_a_cookie_that_the_server_signed():
    cookie = new_cookie()
    assert browser_named(cookie)
    assert browser_named(cookie) == browser_named(cookie)
    for forged in ("", ".", "made-up", "made-up.0", cookie[:-1], "x" + cookie, "é.é"):
        assert browser_named(forged) == ""


def test_thirty_browsers_behind_one_address_open_the_page_within_ten_seconds(clock):
    pages = Shares(PAGES.browser, PAGES.address)
    for _ in range(30):
        # The first look comes without a cookie; then somebody reloads; each connects.
        assert pages.take("", HERE, late=False) == 0
        clock.now += 1 / 3
        same = browser()
        assert [pages.take(same, HERE, late=False) for _ in range(3)] == [0, 0, 0]


def test_a_browser_that_asks_on_waits_and_others_do_not(clock):
    few = Shares(Rate(1, 3), Rate(10, 100))
    tab, other = browser(), browser()
    assert [few.take(tab, HERE, late=False) for _ in range(3)] == [0, 0, 0]
    # What was not given costs nothing.
    assert [few.take(tab, HERE, late=False) for _ in range(3)] == [1, 1, 1]
    assert few.take(other, HERE, late=False) == 0
    clock.now += 1
    assert few.take(tab, HERE, late=False) == 0
    assert few.take(tab, HERE, late=False) == 1


def test_an_address_has_one_share_with_cookies_and_one_without(clock):
    few = Shares(Rate(1, 3), Rate(1, 10))
    assert sum(few.take(browser(), HERE, late=False) == 0 for _ in range(20)) == 10
    assert few.take(browser(), "192.0.2.2", late=False) == 0
    assert sum(few.take("", HERE, late=False) == 0 for _ in range(20)) == 10


def test_moves_beyond_a_share_come_later_all_of_them(clock):
    messages = Shares(MESSAGES.browser, MESSAGES.address)
    tab, sent = browser(), 740
    for _ in range(10 * sent):
        clock.now += messages.take(tab, HERE)
    # All of a flood of ten seconds, at a hundred a second after the first three hundred.
    assert clock.now - 1000 == pytest.approx((10 * sent - 300) / 100)
    assert messages.take(browser(), HERE) == 0


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
    assert len(told[-1].getMessage()) <= 2 * LONGEST_RECORD
