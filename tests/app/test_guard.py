"""The server answers its own names, gives out nothing but the page, and bears what it is sent."""

import asyncio
import contextlib
import json
import math
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest
from protocol import Page
from servers import run_apart
from serving import PATIENCE, served_dashboard
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

from app.guard import LONGEST_MESSAGE

pytestmark = pytest.mark.xdist_group("guard")
# Importing it runs the tests of the folder, and then ends the process.
ENDS_PYTHON = "/components/unittest.__main__/TestProgram/css/x"
COMPONENTS = [
    ENDS_PYTHON,
    "/components/app.explorer/Explorer/css/x",
    "/components/panel.template.fast/FastBaseTemplate/_css/fast.css",
    "/components//unittest.__main__/a/b/c",
    "/dashboard/components/unittest.__main__/a/b/c",
    "/components/",
]


def get(address: str, host: str = "") -> tuple[int, str]:
    """The status and the text of an answer."""
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("guard") / "log.txt"


@pytest.fixture(scope="module")
def address(log):
    """The page, of a server whose first request would have ended it."""
    with served_dashboard(log, first=ENDS_PYTHON) as address:
        yield address


@pytest.fixture(scope="module")
def root(address: str) -> str:
    return address.rpartition("/")[0]


@pytest.mark.parametrize("path", COMPONENTS)
def test_no_address_imports_a_module(root, path):
    assert get(root + path) == (404, "There is nothing here.\n")


@pytest.mark.slow
def test_a_plain_server_is_guarded_from_the_first_visit_on(tmp_path):
    with served_dashboard(tmp_path / "log.txt", plain=True) as address:
        root = address.rpartition("/")[0]
        for path in COMPONENTS:
            assert get(root + path)[0] == 404
        assert get(address, "evil.example")[0] == 403
        assert get(address)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost:1"])
@pytest.mark.parametrize("path", ["/dashboard", "/static/js/bokeh.min.js"])
def test_the_server_answers_to_its_own_names_only(root, host, path):
    status, text = get(root + path, host)
    assert status == 403
    assert text.count("\n") == 1
    assert "make serve ORIGIN=" in text
    assert len(text) < 200


def test_the_servers_own_names_are_answered(root):
    port = root.rpartition(":")[2]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"LOCALHOST:{port}"):
        assert get(root + "/liveness", host)[0] == 404


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:1", "null"])
def test_pages_of_other_sites_do_not_connect(address, origin):
    async def connect() -> None:
        await websocket_connect(
            HTTPRequest(address.replace("http", "ws", 1) + "/ws", headers={"Origin": origin})
        )

    with pytest.raises(HTTPClientError, match="403"):
        run_apart(connect())


@pytest.mark.parametrize(
    "query",
    [
        "y=" + "A" * 10_000,
        "theta=nan&y=inf&draws=1e999&runs=-1&seed=99999999999999999999",
        "problem=%3Cimg%20src=x%20onerror=alert(1)%3E&variant=%00",
    ],
)
def test_any_address_gives_the_page_and_short_messages(address, query):
    async def visit() -> None:
        page = await Page.come(f"{address}?{query}")
        assert page.model(label="Threshold θ")
        # What is wrong is told, and not at length; Panel's own Location holds the address.
        roots = page.document["doc"]["roots"]
        shown = json.dumps([each for each in roots if "search" not in each["attributes"]])
        assert "A" * 100 not in shown
        page.leave()

    run_apart(visit())


@pytest.mark.slow
def test_a_message_has_bounds(address):
    """In one frame, and in many that make one message."""

    async def flood() -> None:
        page = await Page.come(address)
        await page.connection.write_message("x" * (LONGEST_MESSAGE + 1))
        with pytest.raises(ConnectionError):
            await page.receive_until("never")
        page = await Page.come(address)
        header = {"msgid": "1", "msgtype": "PATCH-DOC", "num_buffers": 10**9}
        for part in (header, {}, {"events": []}):
            await page.connection.write_message(json.dumps(part))
        for i in range(20):
            await page.connection.write_message(json.dumps({"id": str(i)}))
            await page.connection.write_message(bytes(LONGEST_MESSAGE // 10), binary=True)
        with pytest.raises(ConnectionError):
            await page.receive_until("never")

    run_apart(asyncio.wait_for(flood(), PATIENCE))


SLIDER = "Threshold θ"
WRONG_VALUES = ["abc", None, math.nan, math.inf, -1e308, [1, 2], {"a": 1}, {"id": "p1"}]
MALFORMED = [
    ["no JSON", "{}", "{}"],
    [b"\x00\xff", "{}", "{}"],
    ["[]", "[]", "[]"],
    ['{"msgid": "1", "msgtype": "NONSENSE"}', "{}", "{}"],
    ['{"msgid": "1", "msgtype": "PATCH-DOC"}', "{}", "[" * 100_000],
    ['{"msgid": "1", "msgtype": "PATCH-DOC"}', "{}", '{"events": [{"kind": "Nonsense"}]}'],
    ['{"msgid": "1", "msgtype": "PATCH-DOC", "num_buffers": -1}', "{}", '{"events": 3}'],
]


async def answered(page: Page, threshold: float) -> None:
    """Moves the slider, and waits for the densities of its new place."""
    await page.change(page.model(label=SLIDER)["id"], "value", threshold)
    while True:
        _, _, buffers = await page.receive()
        arrays = [np.frombuffer(each) for each in buffers if len(each) % 8 == 0]
        if any((abs(each - threshold) < 1e-9).any() for each in arrays):
            return


def test_values_that_no_widget_gives_leave_the_page_alive(address):
    async def visit() -> None:
        page = await Page.come(address)
        slider, choices = page.model(label=SLIDER)["id"], page.model(title="Problem")["id"]
        for value in WRONG_VALUES:
            for name in ("value", "value_throttled", "start", "nonsense"):
                await page.change(slider, name, value)
            for name in ("value", "options"):
                await page.change(choices, name, value)
        await page.change("p0", "value", 1.0)
        await answered(page, 2.3457)
        page.leave()

    run_apart(asyncio.wait_for(visit(), PATIENCE))


def test_malformed_messages_end_no_server(address):
    async def visit() -> None:
        page = await Page.come(address)
        for parts in MALFORMED:
            page = await Page.connect(address, page.token)
            with contextlib.suppress(WebSocketClosedError):
                for part in parts:
                    await page.connection.write_message(part, binary=isinstance(part, bytes))
            page.leave()
        page = await Page.come(address)
        await answered(page, 2.3457)
        page.leave()

    run_apart(asyncio.wait_for(visit(), 2 * PATIENCE))


@pytest.mark.slow
def test_in_a_flood_of_moves_others_are_answered_and_after_it_the_page_is(address):
    async def visit() -> None:
        page, other = await Page.come(address), await Page.come(address)
        slider = page.model(label=SLIDER)["id"]
        moves, ebbing = 0, False

        async def flood() -> None:
            nonlocal moves
            while not ebbing:
                await page.change(slider, "value", 1 + moves % 300 / 100)
                moves += 1
                await asyncio.sleep(0)

        flooding = asyncio.create_task(flood())
        while moves < 300:
            await asyncio.sleep(0.01)
        await answered(other, 2.3457)
        assert not flooding.done()
        ebbing = True
        await flooding
        await answered(page, 4.2371)
        for each in (page, other):
            each.leave()

    run_apart(asyncio.wait_for(visit(), 2 * PATIENCE))
