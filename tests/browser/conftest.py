"""A real server for all tests of a worker process, and visitors of it."""

import pytest
from playwright.sync_api import expect
from serving import served_dashboard
from visit import PATIENCE, Visit

expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of the dashboard, served by `panel serve`."""
    with served_dashboard(tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield address


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
