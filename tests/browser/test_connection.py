"""A page that has lost its server says so, and comes back as it was; so does its theme."""

import contextlib
import re
from urllib.parse import urlparse

import pytest
from playwright.sync_api import expect
from serving import served_dashboard
from visit import SOURCE, Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

PAINTED = "colour => getComputedStyle(document.body).backgroundColor === colour"
LIGHT, DARK = "rgb(244, 246, 248)", "rgb(18, 23, 28)"
COLOUR = "part => getComputedStyle(part).color"
LOST = "connection to the server is lost"
QUERY = "?y=1.5&theta=2.5&draws=8&runs=4"
# Our page, which is told something every ten milliseconds from the start on.
TOLD = """
import asyncio, runpy
import panel as pn
from amci_explorer.server.session import on_page
runpy.run_path("app/dashboard.py")
async def tell(document):
    curve = document.select_one({"name": "errors-amci"})
    for number in range(300):
        await on_page(document, lambda: setattr(curve, "tags", [number]))
        await asyncio.sleep(0.01)
asyncio.get_running_loop().create_task(tell(pn.state.curdoc))
"""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.txt"


def same_point(visited: Visit) -> bool:
    return (visited.value("Observation y"), visited.value("Threshold θ")) == (1.5, 2.5)


def test_a_lost_server_is_told_of_and_the_page_comes_back(browser, log):
    with contextlib.ExitStack() as first:
        address = first.enter_context(served_dashboard(log))
        waits, presses = (Visit(browser.new_context(), address + QUERY) for _ in range(2))
        # Who presses does so before the page has found out by itself.
        presses.page.route("**/*", lambda r: r.abort() if is_head(r) else r.continue_())
        banners = [visited.page.get_by_role("alert") for visited in (waits, presses)]
        for banner in banners:
            expect(banner.get_by_text(LOST)).to_have_count(0)
        first.close()
        for banner in banners:
            expect(banner.get_by_text(LOST)).to_be_visible()
        with served_dashboard(log, port=urlparse(address).port):
            banners[1].get_by_role("button", name="Reload now").click()
            for visited in (waits, presses):
                expect(visited.page.get_by_role("alert")).to_have_count(0)
                visited.wait_until_open()
                assert same_point(visited)
                visited.close()


def is_head(route) -> bool:
    return route.request.method == "HEAD"


def test_the_theme_is_the_systems_at_first_and_kept_when_chosen(browser, server):
    context = browser.new_context(color_scheme="dark")
    visited = Visit(context, server + QUERY)
    visited.wait_for_end(4)
    assert visited.page.evaluate(PAINTED, DARK)
    # Nobody has chosen it.
    assert visited.page.evaluate("() => localStorage.getItem('amci-theme')") is None
    # The server draws the next visit in it from the start, and its address says nothing of it.
    visited.page.goto(server + QUERY)
    handle = visited.page.locator(".slider .name").first
    dark = handle.evaluate(COLOUR)
    visited.wait_for_end(4)
    assert handle.evaluate(COLOUR) == dark
    assert "theme" not in visited.page.url
    visited.page.get_by_label("Toggle theme").click()
    visited.wait(PAINTED, LIGHT)
    # The address is that of another theme too.
    visited.page.wait_for_url(re.compile("theme=light"))
    visited.page.goto(server + QUERY)
    visited.wait_until_open()
    visited.wait(PAINTED, LIGHT)
    # Computing starts once the page is ready, and so after the theme is chosen.
    visited.wait_for_end(4)
    assert visited.page.evaluate(PAINTED, LIGHT)
    assert handle.evaluate(COLOUR) != dark
    visited.close()

    visited = Visit(browser.new_context(color_scheme="light"), server + QUERY)
    visited.wait(PAINTED, LIGHT)
    visited.close()


def test_what_comes_while_a_page_loads_is_shown_and_the_server_answers(browser, tmp_path):
    script = tmp_path / "dashboard.py"
    script.write_text(TOLD)
    with served_dashboard(tmp_path / "log.txt", app=str(script)) as address:
        for _ in range(2):
            visited = Visit(browser.new_context(), address + QUERY)
            visited.wait(f"() => ({SOURCE})('errors-amci')?.tags[0] == 299")
            visited.wait_for_end(4)
            visited.close()
