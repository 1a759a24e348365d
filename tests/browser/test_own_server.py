"""A script of one's own with a problem from a file, served by `panel serve`: a lecturer's way."""

import urllib.request
from urllib.error import HTTPError
from urllib.parse import quote

import pytest
from amci_explorer.server.guard import LONGEST_MESSAGE
from cards import MAP_IMAGE, choose, open_map
from playwright.sync_api import expect
from protocol import Page
from servers import run_apart
from serving import PATIENCE, served_dashboard
from typer.testing import CliRunner
from visit import SOURCE, Visit

from amci_core.cli import app as cli

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

ATTACK = "<img src=nowhere onerror=window.attacked=true>"
# Our page, of a problem whose every word is an attack. To visits with other draws an exception
# with one is told of as well; to those with that seed something every ten milliseconds.
APP = f"""
import asyncio, runpy
from dataclasses import replace

import panel as pn

import amci_core as amci

ATTACK = {ATTACK!r}
problem = amci.problem("tail-1d")
problem.title, problem.description = ATTACK, "described: " + ATTACK
for name in ("x", "y", "theta"):
    words = {{"meaning": "meant: " + ATTACK, "unit": ATTACK}}
    setattr(problem, name, replace(getattr(problem, name), **words))
runpy.run_path("app/dashboard.py")
from amci_explorer.server.session import on_page

async def tell(document):
    curve = document.select_one({{"name": "errors-amci"}})
    for number in range(300):
        await on_page(document, lambda: setattr(curve, "tags", [number]))
        await asyncio.sleep(0.01)

report, asked = pn.config.exception_handler, pn.state.session_args
if asked.get("draws") == [ATTACK.encode()]:
    pn.state.onload(lambda: report(ValueError("failed: " + ATTACK)))
if asked.get("seed") == [b"299"]:
    asyncio.get_running_loop().create_task(tell(pn.state.curdoc))
"""
# What an address can hold, each said to be wrong beside its control.
NAMES = ("problem", "variant", "y", "draws", "card")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of the page, and the file of what the server prints."""
    folder = tmp_path_factory.mktemp("own")
    script, mine, broken = (
        folder / f"{name}.py" for name in ("dashboard", "my_problem", "broken")
    )
    script.write_text(APP)
    assert CliRunner().invoke(cli, ["new", str(mine)]).exit_code == 0
    broken.write_text("import math\n\nclass Broken(:\n")
    log = folder / "log.txt"
    with served_dashboard(log, app=str(script), files=[mine, broken]) as address:
        yield address, log


@pytest.fixture
def visit(browser, served):
    visits = []

    def open_page(query):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        visits.append(Visit(context, served[0] + query))
        return visits[-1]

    yield open_page
    for visited in visits:
        visited.close()
        assert visited.complaints == []


def test_the_problem_of_a_file_is_shown_and_a_file_that_cannot_be_read_is_told(visit, served):
    opened = visit("?runs=20&draws=64")
    opened.wait_for_text("broken.py cannot be read: line 3")
    said = served[1].read_text()
    assert "AMCI Explorer: broken.py cannot be read: line 3" in said
    assert "class Broken" not in said
    # It opens with the problem that was served, which is listed beside the others.
    chosen = opened.page.get_by_label("Problem", exact=True).locator("option:checked")
    assert chosen.inner_text() == "my-problem"
    before = opened.wait_for_data("densities", "target")
    opened.wait_for_end(20)
    opened.wait_for_text("No proposals have been trained for this problem")
    opened.move("y", 2.0)
    opened.wait_for_other("densities", "target", before)
    open_map(opened)
    opened.wait(MAP_IMAGE)


def test_an_image_with_a_script_is_text_everywhere(visit):
    opened = visit("?" + "&".join(f"{name}={quote(ATTACK)}" for name in NAMES))
    opened.wait_for_text("failed: <img")
    expect(opened.page.get_by_text("got '<img")).to_have_count(len(NAMES))
    choose(opened, "Problem", ATTACK)
    opened.unfold("The problem")
    opened.wait_for_text("described: <img")
    assert not opened.page.evaluate("() => window.attacked")


def test_what_comes_while_a_page_loads_is_shown_and_the_server_answers(visit):
    opened = visit("?seed=299&draws=8&runs=4")
    opened.wait(f"() => ({SOURCE})('errors-amci')?.tags[0] == 299")
    opened.wait_for_end(4)


async def too_long(address):
    """A page whose first message is longer than a page's."""
    page = await Page.come(f"{address}?ui=min")
    await page.change(page.model(label="y")["id"], "tags", ["x" * LONGEST_MESSAGE])
    with pytest.raises(ConnectionError):
        await page.receive_until("never")


def test_a_plain_server_is_guarded_too(served):
    root = served[0].rpartition("/")[0]
    for path, host, status in (
        ("/components/unittest.__main__/TestProgram/css/x", "", 404),
        ("/dashboard", "evil.example", 403),
        ("/dashboard?bokeh-session-id=prepared", "", 403),
    ):
        request = urllib.request.Request(root + path, headers={"Host": host} if host else {})
        with pytest.raises(HTTPError, match=str(status)):
            urllib.request.urlopen(request, timeout=PATIENCE)
    run_apart(too_long(served[0]))
