"""A real server for all tests of a worker process, and visitors of it."""

from typing import Any

import pytest
from playwright.sync_api import expect
from serving import PATIENCE
from visit import RUNS, Visit

expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="session")
def desk(browser, server):
    """One page for the tests of a worker: a new one would load and compile all scripts again."""
    visited = Visit(browser.new_context(), server)
    yield visited
    visited.close()


@pytest.fixture
def visit(browser, desk, server):
    """Opens the dashboard for a visitor, in the state of a first visit.

    A page's state is its address, and the theme that a visitor has chosen: the first visitor of a
    test has the worker's page, others have a browser of their own. At the end no console may hold
    an error.
    """
    visits = []

    def open_page(
        query: str = "", *, width: int = 1440, height: int = 900, scheme: str = "light"
    ) -> Visit:
        size = {"width": width, "height": height}
        if visits:
            context = browser.new_context(viewport=size, color_scheme=scheme)
            visits.append(Visit(context, server + query))
            return visits[-1]
        visits.append(desk)
        desk.context.clear_cookies()
        desk.page.evaluate("() => localStorage.clear()")
        desk.page.emulate_media(color_scheme=scheme)
        desk.page.set_viewport_size(size)
        desk.go(server + query)
        return desk

    yield open_page
    for visited in visits[1:]:
        visited.close()
    complaints = [each for visited in visits for each in visited.complaints]
    desk.complaints.clear()
    assert complaints == []
    assert [each for visited in visits for each in visited.strangers] == []


@pytest.fixture
def at(visit):
    """Opens an address with few runs of the error curves."""

    def open_page(query: str = "", **options: Any) -> Visit:
        return visit(f"?runs={RUNS}{query}", **options)

    return open_page
