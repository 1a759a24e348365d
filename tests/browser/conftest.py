"""A real server for all tests of a worker process, and visitors of it."""

import pytest
from playwright.sync_api import expect
from serving import served_dashboard
from visit import PATIENCE, RUNS, Visit

expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of the dashboard, served by `panel serve`."""
    with served_dashboard(tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield address


@pytest.fixture(scope="session")
def desk(browser, server):
    """One page for the quick tests of a worker."""
    visited = Visit(browser.new_context(), server)
    yield visited
    visited.close()


@pytest.fixture
def at(desk, server):
    """Brings that page to an address, in the state of a first visit there.

    A page's state is its address, and the theme that a visitor has chosen.
    """

    def open_page(
        query: str = "", *, width: int = 1440, height: int = 900, scheme: str = "light"
    ) -> Visit:
        desk.context.clear_cookies()
        desk.page.evaluate("() => localStorage.clear()")
        desk.page.emulate_media(color_scheme=scheme)
        desk.page.set_viewport_size({"width": width, "height": height})
        desk.go(f"{server}?runs={RUNS}{query}")
        return desk

    yield open_page
    complaints, desk.complaints = desk.complaints, []
    assert complaints == []
    assert desk.strangers == []


@pytest.fixture
def visit(browser, server):
    """Opens the dashboard for a visitor; at the end no console may hold an error."""
    visits = []

    def open_page(
        query: str = "", *, width: int = 1440, height: int = 900, scheme: str = "light"
    ) -> Visit:
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        visits.append(Visit(context, server + query))
        return visits[-1]

    yield open_page
    for visited in visits:
        visited.close()
    for visited in visits:
        assert visited.strangers == []
        assert visited.complaints == []
