"""The server answers its own names, gives out nothing but the page, and bears what it is sent."""

import asyncio
import contextlib
import gzip
import json
import math
import re
import shutil
import subprocess
import urllib.request
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit

import numpy as np
import pytest
from amci_explorer.server.guard import LONGEST_MESSAGE, MOST_KEPT, MOST_OBJECTS, policy
from bokeh.util.token import get_session_id
from protocol import Page
from servers import run_apart
from serving import PATIENCE, served_dashboard
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

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


FAR = 10**11
DOCS = Path(__file__).resolve().parents[2] / "docs"


def token(payload: object) -> str:
    """A token as Bokeh makes them, unsigned."""
    return b64encode(json.dumps(payload).encode()).decode().rstrip("=")


PREPARED = token({"session_id": "prepared", "session_expiry": FAR})


def get(address, host="", *, method="GET", headers=None, received=None) -> tuple[int, str]:
    """The status and the text of an answer."""
    sent = {**(headers or {}), **({"Host": host} if host else {})}
    request = urllib.request.Request(address, method=method, headers=sent)
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except HTTPError as error:
        answer = error
    with answer:
        if received is not None:
            received.update(answer.headers)
        return answer.status, answer.read().decode(errors="replace")


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
    assert get(root + path) == (404, "Page not found (404).\n")


@pytest.mark.slow
def test_a_plain_server_is_guarded_from_the_first_visit_on(tmp_path):
    with served_dashboard(tmp_path / "log.txt", plain=True) as address:
        root = address.rpartition("/")[0]
        for path in COMPONENTS:
            assert get(root + path)[0] == 404
        assert get(address, "evil.example")[0] == 403
        assert get(f"{address}?bokeh-session-id=prepared")[0] == 403
        run_apart(too_long(address))


async def too_long(address: str) -> None:
    """A page whose first message is longer than a page's."""
    page = await Page.come(address)
    await page.change(page.model(label=SLIDER)["id"], "tags", ["x" * LONGEST_MESSAGE])
    with pytest.raises(ConnectionError):
        await page.receive_until("never")


@pytest.mark.parametrize("host", ["evil.example", "localhost:1"])
@pytest.mark.parametrize("path", ["/dashboard", "/static/js/bokeh.min.js"])
def test_the_server_answers_to_its_own_names_only(root, host, path):
    status, text = get(root + path, host)
    assert status == 403
    assert text.count("\n") == 1
    assert "make serve ORIGIN=" in text
    assert len(text) < 200


def test_a_first_visit_loads_what_it_needs_compressed_and_no_font(address):
    """At most 1.5 MB, of which what comes by the websocket and icons take less than 0.2."""
    sizes, text = [], get(address)[1]
    for link in re.findall(r'(?:src|href)="([^"]+\.(?:js|css)[^"]*)"', text):
        with urllib.request.urlopen(urljoin(address, link), timeout=PATIENCE) as answer:
            content = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip", link
        if "?" in link:
            assert answer.headers["Cache-Control"].endswith("immutable"), link
        assert b"roboto" not in gzip.decompress(content).lower() or ".css" not in link
        sizes.append(len(content))
    assert len(sizes) > 5
    assert sum(sizes) + len(text) < 1.3e6


def test_the_root_leads_to_the_page_with_what_is_asked_for(root):
    connection = HTTPConnection(urlsplit(root).netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/?card=map&y=1")
        assert connection.getresponse().headers["Location"] == "dashboard?card=map&y=1"


def test_the_documentation_is_served_and_its_links_lead_somewhere(root):
    pages, left = {}, [f"{root}/docs/index.md"]
    while left:
        place = left.pop()
        if place in pages:
            continue
        status, pages[place] = get(place)
        assert status == 200, place
        if place.endswith(".md"):
            links = re.findall(r'(?:href|src)="([^"]+)"', pages[place])
            near = {urljoin(place, link) for link in links if "://" not in link}
            left += {link.partition("#")[0] for link in near}
            pages[place] += "".join(f"\nLINK {link}" for link in near if "#" in link)
    files = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    reached = {place.removeprefix(f"{root}/docs/") for place in pages if place.endswith(".md")}
    assert reached == files - {"mkdocs/interface.md"}
    for text in list(pages.values()):
        for link in re.findall(r"^LINK (.*)$", text, re.MULTILINE):
            place, _, anchor = link.partition("#")
            assert f'id="{anchor}"' in pages[place], link


@pytest.mark.parametrize("path", ["reference.py", "../pyproject.toml", "%2e%2e/README.md", "x.md"])
def test_the_documentation_gives_out_its_pages_alone(root, path):
    assert get(f"{root}/docs/{path}")[0] == 404


def test_a_health_check_is_answered_under_any_name(root):
    assert get(f"{root}/health", "10.0.0.7:8080") == (200, "ok\n")


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
        # More digits than Python makes a number of.
        "y=" + "9" * 5_000,
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
        assert "9" * 100 not in shown
        page.leave()

    run_apart(visit())


PATCH = '{"msgid": "1", "msgtype": "PATCH-DOC"}'
CHANGE = {"kind": "ModelChanged", "model": {"id": "KNOWN"}, "attr": "tags", "new": 1}
BOMB = {"type": "bytes", "data": b64encode(gzip.compress(bytes(2**24))).decode()}


def changed(value: object) -> list[str]:
    """The parts of a message of a changed value."""
    return [PATCH, "{}", json.dumps({"events": [{**CHANGE, "new": value}]})]


CLOSED = {
    "a long part": ["x" * (LONGEST_MESSAGE + 1)],
    "bytes": [b"\x00\xff"],
    "bytes behind a message": [
        PATCH[:-1] + ', "num_buffers": 9}',
        "{}",
        "{}",
        '{"id": "1"}',
        b"a",
    ],
    "many changes": [PATCH, "{}", json.dumps({"events": [{}] * MOST_OBJECTS})],
    "no JSON": ["no JSON", "{}", "{}"],
    "lists": ["[]", "[]", "[]"],
    "no kind": ['{"msgid": "1", "msgtype": "NONSENSE"}', "{}", "{}"],
    "deep": [PATCH, "{}", "[" * 10_000],
}
ANSWERED = {
    "packed bytes": changed([BOMB]),
    "an array of them": changed([{"type": "ndarray", "array": BOMB, "dtype": "uint8"}]),
    "wide text": changed([{"type": "ndarray", "array": [], "dtype": "U99999999", "shape": [1]}]),
    "a model": changed({"type": "object", "name": "ColumnDataSource", "id": "1"}),
    "a slice": changed({"type": "slice", "start": 0, "stop": 10**9, "step": 1}),
    "an unknown model": [PATCH, "{}", json.dumps({"events": [{**CHANGE, "model": {"id": "x"}}]})],
    "a new root": [PATCH, "{}", '{"events": [{"kind": "RootAdded", "model": {"id": "x"}}]}'],
    "no change": [PATCH, "{}", '{"events": [{"kind": "Nonsense"}]}'],
}


def test_a_message_that_no_page_sends_ends_its_connection_or_is_answered_in_a_line(address, log):
    async def visit() -> None:
        other = await Page.come(address)
        for name, parts in {**CLOSED, **ANSWERED}.items():
            before = log.stat().st_size
            page = await Page.come(address)
            known = page.model(label=SLIDER)["id"]
            with contextlib.suppress(WebSocketClosedError):
                for part in parts:
                    sent = part if isinstance(part, bytes) else part.replace("KNOWN", known)
                    await page.connection.write_message(sent, binary=isinstance(part, bytes))
            if name in CLOSED:
                with pytest.raises(ConnectionError):
                    await page.receive_until("never")
            else:
                text = (await page.receive_until("ERROR"))[1]
                assert json.loads(text)["traceback"] is None, name
                assert len(text) < 200, name
                assert "/" not in text, name
            page.leave()
            assert log.stat().st_size - before < 9_000, name
        await answered(other, 2.3457)
        other.leave()

    run_apart(asyncio.wait_for(visit(), 2 * PATIENCE))


def test_a_session_that_sends_too_much_in_its_life_is_closed(address):
    async def visit() -> None:
        page = await Page.come(address)
        with contextlib.suppress(WebSocketClosedError):
            for _ in range(MOST_KEPT // 30_000 + 1):
                await page.change(page.model(label=SLIDER)["id"], "tags", ["x" * 30_000])
        with pytest.raises(ConnectionError):
            await page.receive_until("never")

    run_apart(asyncio.wait_for(visit(), PATIENCE))


TOKENS = {
    "self-made": PREPARED,
    "of a list": token({"session_id": ["prepared"], "session_expiry": FAR}),
    "of nothing": token({}),
    "no token": "x",
    "unsigned": token({"session_id": "x", "session_expiry": FAR}),
}


def test_only_the_server_names_sessions(address):
    async def visit() -> None:
        page = await Page.come(address)
        name = get_session_id(page.token)
        for asked in ("prepared", name, ""):
            assert get(f"{address}?bokeh-session-id={asked}")[0] == 403
            assert get(address, headers={"Bokeh-Session-Id": asked or "x"})[0] == 403
        for each in (TOKENS["of nothing"], page.token):
            assert get(f"{address}?y=1&bokeh-token={each}")[0] == 403
        # A token of one's own making, for the session of another.
        for each in (*TOKENS.values(), token({"session_id": name, "session_expiry": FAR})):
            with pytest.raises((HTTPClientError, ConnectionError)):
                await Page.connect(address, each)
        # The page itself may come back, and has its own session then.
        again = await Page.connect(address, page.token)
        await again.send("PULL-DOC-REQ", {})
        again.document = json.loads((await again.receive_until("PULL-DOC-REPLY"))[1])
        assert again.model(label=SLIDER)["id"] == page.model(label=SLIDER)["id"]
        again.leave()

    run_apart(asyncio.wait_for(visit(), PATIENCE))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("OPTIONS", "/dashboard/autoload.js", 404),
        ("GET", "/dashboard/autoload.js?bokeh-autoload-element=x", 404),
        ("GET", "/dashboard/metadata", 404),
        pytest.param("GET", "/static/js/" + "a" * 5_000, 404, id="long"),
        ("OPTIONS", "/dashboard", 405),
        ("POST", "/dashboard", 405),
        ("DELETE", "/static/js/bokeh.min.js", 405),
        ("GET", "/dashboard/ws", 400),
    ],
)
def test_a_request_that_nothing_answers_is_refused_in_a_line(root, method, path, status):
    found, text = get(root + path, method=method)
    assert found == status
    assert "Traceback" not in text


@pytest.mark.parametrize("odd", ["%00", "a%00.js", "%ff", "%0a", "%ed%a0%80", "%2e%2e%2f", "%"])
def test_odd_bytes_in_a_path_are_no_error_of_the_server(root, odd):
    own = ("", "static/", "static/js/", "static/extensions/panel/", "docs/", "dashboard", "health")
    for place in (*own, "dashboard/", "dashboard/ws", "nothing/"):
        status, text = get(f"{root}/{place}{odd}")
        assert status == 404 or (status in (400, 403) and "00" not in odd), place
        assert "Traceback" not in text


def test_a_page_does_not_name_the_folders_of_the_server(root):
    async def body():
        page = await Page.come(f"{root}/dashboard")
        text = json.dumps(page.document)
        assert str(Path.cwd()) not in text
        assert str(Path.home()) not in text

    asyncio.run(body())


@pytest.mark.parametrize(
    "path", ["/dashboard", "/static/js/bokeh.min.js", "/nothing", "/components/"]
)
def test_every_answer_says_what_a_page_may_do(root, path):
    headers = {}
    get(root + path, received=headers)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("Access-Control")]
    rules = dict(
        rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";")
    )
    assert rules["default-src"] == "'none'"
    assert "unsafe-inline" not in rules["script-src"]
    assert "frame-ancestors" not in rules


def test_frames_are_those_that_were_named():
    rule = "frame-ancestors 'self' https://course.example"
    assert rule in policy(frames="https://course.example")


SLIDER = "Threshold θ"
WRONG_VALUES = ["abc", None, math.nan, -1e308, {"id": "p1"}]


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
            await page.change(slider, "value", value)
            await page.change(choices, "value", value)
        await page.change("p0", "value", 1.0)
        await answered(page, 2.3457)
        page.leave()

    run_apart(asyncio.wait_for(visit(), PATIENCE))


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
                # Some 740 a second.
                await asyncio.sleep(0 if moves % 74 else 0.1)

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


@pytest.mark.slow
def test_a_class_behind_one_address_opens_the_page_at_once(address):
    """Thirty browsers come within ten seconds, one after the other."""

    async def come() -> None:
        async def one(number: int) -> Page:
            await asyncio.sleep(number / 3)
            return await Page.come(address)

        for page in await asyncio.gather(*map(one, range(30))):
            assert page.model(label=SLIDER)
            page.leave()

    run_apart(come())


def test_the_example_for_nginx_names_what_the_server_serves(root, tmp_path):
    text = (DOCS / "nginx.conf").read_text()
    places = re.findall(r"location (?:= )?(\S+) \{([^}]*)\}", text)
    assert [place for place, _ in places] == ["/dashboard", "/dashboard/ws", "/health", "/"]
    assert [get(root + place)[0] for place, _ in places] == [200, 400, 200, 200]
    zones = re.findall(r"limit_(?:req|conn)_zone \$binary_remote_addr zone=(\w+):", text)
    for place, rules in places:
        used = re.findall(r"limit_(?:req zone=|conn )(\w+)", rules)
        assert {*used} <= {*zones}
        assert bool(used) == (place != "/health")
    socket = dict(places)["/dashboard/ws"]
    assert "proxy_set_header Upgrade $http_upgrade;" in socket
    assert 'proxy_set_header Connection "upgrade";' in socket
    assert f"client_max_body_size {LONGEST_MESSAGE // 1024}k;" in text
    if shutil.which("nginx"):
        plain = re.sub(r"\n +(ssl_\w+ .*|listen .*)", "", text)
        whole = tmp_path / "nginx.conf"
        whole.write_text(f"pid {tmp_path}/pid; events {{}} http {{ {plain} }}")
        subprocess.run(["nginx", "-t", "-c", str(whole), "-p", str(tmp_path)], check=True)
