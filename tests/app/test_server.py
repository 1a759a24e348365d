"""The server answers its own names, gives out nothing but the page, and bears what it is sent."""

import asyncio
import contextlib
import gzip
import json
import math
import random
import re
import urllib.request
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote_from_bytes, urljoin, urlsplit

import numpy as np
import psutil
import pytest
from amci_explorer.server.guard import LONGEST_MESSAGE, MOST_KEPT, MOST_OBJECTS, policy
from bokeh.util.token import get_session_id
from protocol import Page
from serving import PATIENCE
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

# On the worker whose tests have started a server for their browser.
pytestmark = pytest.mark.xdist_group("browser")

DOCS = Path(__file__).resolve().parents[2] / "docs"
SLIDER = "Threshold θ"


def get(address, host="", *, method="GET", headers=None) -> tuple[int, str]:
    """The status and the text of an answer."""
    sent = {**(headers or {}), **({"Host": host} if host else {})}
    request = urllib.request.Request(address, method=method, headers=sent)
    try:
        answer = urllib.request.urlopen(request, timeout=PATIENCE)
    except HTTPError as error:
        answer = error
    with answer:
        return answer.status, answer.read().decode(errors="replace")


@pytest.fixture(scope="module")
def root(server: str) -> str:
    return server.rpartition("/")[0]


@pytest.fixture(scope="module")
def html(server: str) -> str:
    """The page, as it is sent first."""
    return get(server)[1]


@pytest.fixture(scope="module")
def run():
    """Runs coroutines in one event loop; a browser may have one in this thread."""
    with ThreadPoolExecutor(1) as elsewhere:
        runner = asyncio.Runner()

        def run(coroutine, seconds=PATIENCE):
            waited = asyncio.wait_for(coroutine, seconds)
            try:
                return elsewhere.submit(runner.run, waited).result()
            except TimeoutError:
                pytest.fail(f"{coroutine.__qualname__} is not through after {seconds} s")

        yield run
        elsewhere.submit(runner.close).result()


# As long as an address may be, of values that no page writes.
HOSTILE = (
    f"y={'A' * 1_500}&theta={'9' * 2_000}&draws=1e999&runs=-1&seed=99999999999999999999"
    "&problem=%3Cimg%20src=x%20onerror=alert(1)%3E&variant=%00&alpha=nan&f=%28"
)


@pytest.fixture(scope="module")
def page(server, run) -> Page:
    """A page of a hostile address, which other tests send more of that kind."""
    return run(Page.come(f"{server}?{HOSTILE}"))


async def answered(page: Page, threshold: float) -> None:
    """Moves the slider, and waits for the densities of its new place."""
    await page.change(page.model(label=SLIDER)["id"], "value", threshold)
    while True:
        _, _, buffers = await page.receive()
        arrays = [np.frombuffer(each) for each in buffers if len(each) % 8 == 0]
        if any((abs(each - threshold) < 1e-9).any() for each in arrays):
            return


NOT_FOUND = "Page not found (404).\n"


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        # Importing modules that an address names would run them.
        ("GET", "/components/app.explorer/Explorer/css/x", 404, NOT_FOUND),
        ("GET", "/components/panel.template.fast/FastBaseTemplate/_css/fast.css", 404, NOT_FOUND),
        ("GET", "/components//unittest.__main__/a/b/c", 404, NOT_FOUND),
        ("GET", "/dashboard/components/unittest.__main__/a/b/c", 404, NOT_FOUND),
        ("OPTIONS", "/dashboard/autoload.js", 404, NOT_FOUND),
        ("GET", "/dashboard/autoload.js?bokeh-autoload-element=x", 404, NOT_FOUND),
        ("GET", "/dashboard/metadata", 404, NOT_FOUND),
        ("GET", "/docs/reference.py", 404, "404"),
        ("GET", "/docs/../pyproject.toml", 404, "404"),
        ("GET", "/docs/%2e%2e/README.md", 404, "404"),
        ("GET", "/docs/x.md", 404, "404"),
        ("GET", "/dashboard?runs=20?card=map", 404, NOT_FOUND),
        pytest.param("GET", "/static/js/" + "a" * 5_000, 404, "404", id="long"),
        # More digits than Python makes a number of.
        pytest.param("GET", "/dashboard?y=" + "9" * 5_000, 414, "too long", id="digits"),
        ("OPTIONS", "/dashboard", 405, "405"),
        ("POST", "/dashboard", 405, "405"),
        ("DELETE", "/static/js/bokeh.min.js", 405, "405"),
        ("GET", "/dashboard/ws", 400, ""),
    ],
)
def test_a_request_that_nothing_answers_is_refused_in_a_line(root, method, path, status, text):
    found, said = get(root + path, method=method)
    assert found == status
    assert text in said
    assert "Traceback" not in said


@pytest.mark.parametrize("odd", ["%00", "a%00.js", "%ff", "%0a", "%ed%a0%80", "%2e%2e%2f", "%"])
def test_odd_bytes_in_a_path_are_no_error_of_the_server(root, odd):
    own = ("", "static/", "static/js/", "static/extensions/panel/", "docs/", "dashboard", "health")
    for place in (*own, "dashboard/", "dashboard/ws", "nothing/"):
        status, text = get(f"{root}/{place}{odd}")
        assert status == 404 or (status in (400, 403) and "00" not in odd), place
        assert "Traceback" not in text


@pytest.mark.parametrize("host", ["evil.example", "localhost:1"])
def test_the_server_answers_to_its_own_names_only(server, root, run, host):
    for path in ("/dashboard", "/static/js/bokeh.min.js"):
        status, text = get(root + path, host)
        assert status == 403
        assert text.count("\n") == 1
        assert "make serve ORIGIN=" in text
        assert len(text) < 200
    port = urlsplit(root).port
    for own in (f"localhost:{port}", f"127.0.0.1:{port}", f"LOCALHOST:{port}"):
        assert get(root + "/liveness", own)[0] == 404
    # Health checks of proxies use any name.
    assert get(f"{root}/health", host) == (200, "ok\n")

    async def connect(origin: str) -> None:
        socket = server.replace("http", "ws", 1) + "/ws"
        headers = {"Origin": origin}
        await websocket_connect(HTTPRequest(socket, headers=headers, connect_timeout=PATIENCE))

    for origin in (f"http://{host}", "null"):
        with pytest.raises(HTTPClientError, match="403"):
            run(connect(origin))


def test_a_first_visit_loads_what_it_needs_compressed_and_no_font(server, html):
    """At most 1.5 MB, of which what comes by the websocket and icons take less than 0.2."""
    sizes = []
    for link in re.findall(r'(?:src|href)="([^"]+\.(?:js|css)[^"]*)"', html):
        with urllib.request.urlopen(urljoin(server, link), timeout=PATIENCE) as answer:
            content = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip", link
        if "?" in link:
            assert answer.headers["Cache-Control"].endswith("immutable"), link
        assert b"roboto" not in gzip.decompress(content).lower() or ".css" not in link
        sizes.append(len(content))
    assert len(sizes) > 5
    assert sum(sizes) + len(html) < 1.3e6


@pytest.mark.parametrize(
    "path", ["/dashboard?ui=min", "/static/js/bokeh.min.js", "/nothing", "/components/"]
)
def test_every_answer_says_what_a_page_may_do(root, path):
    try:
        headers = urllib.request.urlopen(root + path, timeout=PATIENCE).headers
    except HTTPError as error:
        headers = error.headers
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


def test_the_root_leads_to_the_page_with_what_is_asked_for(root):
    connection = HTTPConnection(urlsplit(root).netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/?card=map&y=1")
        assert connection.getresponse().headers["Location"] == "dashboard?card=map&y=1"


def test_the_documentation_is_served_and_its_links_lead_somewhere(root):
    pages, links, left = {}, set(), [f"{root}/docs/index.md"]
    while left:
        place = left.pop()
        if place in pages:
            continue
        status, pages[place] = get(place)
        assert status == 200, place
        if place.endswith(".md"):
            named = re.findall(r'(?:href|src)="([^"]+)"', pages[place])
            near = {urljoin(place, link) for link in named if "://" not in link}
            left += {link.partition("#")[0] for link in near}
            links |= {link for link in near if "#" in link}
    files = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    reached = {place.removeprefix(f"{root}/docs/") for place in pages if place.endswith(".md")}
    assert reached == files - {"mkdocs/interface.md"}
    for link in links:
        place, _, anchor = link.partition("#")
        assert f'id="{anchor}"' in pages[place], link


def test_any_address_gives_the_page_and_short_messages_that_name_no_folder(page, server_log):
    assert page.model(label=SLIDER)
    assert "the page could not be made" not in server_log.read_text()
    # What is wrong is told, and not at length; Panel's own Location holds the address.
    roots = page.document["doc"]["roots"]
    shown = json.dumps([each for each in roots if "search" not in each["attributes"]])
    for text in ("A" * 100, "9" * 100, str(Path.cwd()), str(Path.home())):
        assert text not in shown


PATCH = '{"msgid": "1", "msgtype": "PATCH-DOC"}'
CHANGE = {"kind": "ModelChanged", "model": {"id": "KNOWN"}, "attr": "tags", "new": 1}
BOMB = {"type": "bytes", "data": b64encode(gzip.compress(bytes(2**24))).decode()}


def events(*changes: object) -> list[str]:
    """The parts of a message of changes."""
    return [PATCH, "{}", json.dumps({"events": changes})]


def changed(value: object) -> list[str]:
    return events({**CHANGE, "new": value})


CLOSED = {
    "a long part": ["x" * (LONGEST_MESSAGE + 1)],
    "bytes": [b"\x00\xff"],
    "bytes behind": [PATCH[:-1] + ', "num_buffers": 9}', "{}", "{}", '{"id": "1"}', b"a"],
    "many changes": events(*[{}] * MOST_OBJECTS),
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
    "an unknown model": events({**CHANGE, "model": {"id": "x"}}),
    "a new root": events({"kind": "RootAdded", "model": {"id": "x"}}),
    "no change": events({"kind": "Nonsense"}),
}


async def send(page: Page, parts: list[str | bytes]) -> None:
    with contextlib.suppress(WebSocketClosedError):
        for part in parts:
            known = page.model(label=SLIDER)["id"]
            sent = part if isinstance(part, bytes) else part.replace("KNOWN", known)
            await page.connection.write_message(sent, binary=isinstance(part, bytes))


@pytest.mark.parametrize("name", [*CLOSED, *ANSWERED])
def test_a_message_that_no_page_sends_ends_its_connection_or_is_answered_in_a_line(
    server, server_log, page, run, name
):
    async def body() -> None:
        before = server_log.stat().st_size
        # Another connection of the page, which goes on through the first.
        other = await Page.connect(server, page.token)
        other.document = page.document
        await send(other, {**CLOSED, **ANSWERED}[name])
        if name in CLOSED:
            with pytest.raises(ConnectionError):
                await other.receive_until("never")
        else:
            text = (await other.receive_until("ERROR"))[1]
            assert json.loads(text)["traceback"] is None
            assert len(text) < 200
            assert "/" not in text
        other.leave()
        assert server_log.stat().st_size - before < 9_000

    run(body())


WRONG_VALUES = ["abc", None, math.nan, -1e308, {"id": "p1"}]


def test_values_that_no_widget_gives_leave_the_page_alive(page, run):
    async def body() -> None:
        slider, choices = page.model(label=SLIDER)["id"], page.model(title="Problem")["id"]
        for value in WRONG_VALUES:
            await page.change(slider, "value", value)
            await page.change(choices, "value", value)
        await page.change("p0", "value", 1.0)
        await answered(page, 2.3457)

    run(body())


def token(payload: object) -> str:
    """A token as Bokeh makes them, unsigned."""
    return b64encode(json.dumps(payload).encode()).decode().rstrip("=")


def test_only_the_server_names_sessions(server, page, run):
    name, far = get_session_id(page.token), 10**11
    for asked in ("prepared", name, ""):
        assert get(f"{server}?bokeh-session-id={asked}")[0] == 403
        assert get(server, headers={"Bokeh-Session-Id": asked or "x"})[0] == 403
    for each in (token({}), page.token):
        assert get(f"{server}?y=1&bokeh-token={each}")[0] == 403
    # Tokens of one's own making, of a new session and of that of another.
    for own in ("prepared", ["prepared"], name):
        with pytest.raises((HTTPClientError, ConnectionError)):
            run(Page.connect(server, token({"session_id": own, "session_expiry": far})))
    for each in (token({}), "x"):
        with pytest.raises((HTTPClientError, ConnectionError)):
            run(Page.connect(server, each))

    async def again() -> Page:
        # The page itself may come back, and has its own session then.
        other = await Page.connect(server, page.token)
        await other.send("PULL-DOC-REQ", {})
        other.document = json.loads((await other.receive_until("PULL-DOC-REPLY"))[1])
        other.leave()
        return other

    assert run(again()).model(label=SLIDER)["id"] == page.model(label=SLIDER)["id"]


def test_a_session_that_sends_too_much_in_its_life_is_closed(server, run):
    async def body() -> None:
        page = await Page.come(f"{server}?ui=min")
        with contextlib.suppress(WebSocketClosedError):
            for _ in range(MOST_KEPT // 30_000 + 1):
                await page.change(page.model(label=SLIDER)["id"], "tags", ["x" * 30_000])
        with pytest.raises(ConnectionError):
            await page.receive_until("never")

    run(body())


@pytest.mark.slow
def test_in_a_flood_of_moves_others_are_answered_and_after_it_the_page_is(server, run):
    async def body() -> None:
        page, other = await Page.come(server), await Page.come(server)
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

    run(body(), 300)


@pytest.mark.slow
def test_a_class_that_comes_at_once_gets_its_pages_one_after_the_other(server, run):
    """A page costs the server a second; nobody is refused, and no connection is lost."""

    async def body() -> None:
        pages = await asyncio.gather(*(Page.come(server) for _ in range(15)))
        for page in pages:
            await answered(page, 2.3457)
            page.leave()

    run(body(), 300)


def test_the_example_for_nginx_names_what_the_server_serves(root, html):
    text = (DOCS / "nginx.conf").read_text()
    places = dict(re.findall(r"location (?:= )?(\S+) \{([^}]*)\}", text))
    assert list(places) == ["/dashboard", "/dashboard/ws", "/health", "/"]
    assert "<title>AMCI Explorer" in html
    assert [get(root + place)[0] for place in ("/dashboard/ws", "/health")] == [400, 200]
    zones = re.findall(r"limit_(?:req|conn)_zone \$binary_remote_addr zone=(\w+):", text)
    for place, rules in places.items():
        used = re.findall(r"limit_(?:req zone=|conn )(\w+)", rules)
        assert {*used} <= {*zones}
        assert bool(used) == (place != "/health")
    socket = places["/dashboard/ws"]
    assert "proxy_set_header Upgrade $http_upgrade;" in socket
    assert 'proxy_set_header Connection "upgrade";' in socket
    assert f"client_max_body_size {LONGEST_MESSAGE // 1024}k;" in text


KEYS = ("problem", "y", "theta", "variant", "draws", "runs", "f", "tour", "card", "ui", "", "%C3")
KINDS = ["ModelChanged"] * 4 + ["MessageSent", "ColumnDataChanged", "RootRemoved", "TitleChanged"]
ATTRIBUTES = ("value", "active", "clicks", "options", "data", "search", "tags", "nonsense", "")
TOKENS = "x1 x theta1 y ( ) + - * / ** < == abs( max( , 1 1e9 . é".split()


def random_text(rng: random.Random) -> str:
    return "".join(map(chr, rng.choices(range(0xD800), k=rng.randrange(50))))


def random_value(rng: random.Random, ids: list[str], depth: int = 0) -> object:
    if depth > 3 or rng.random() < 0.5:
        plain = (None, True, -1, 10**400, math.nan, "1", random_text(rng), "x" * 9_000)
        return rng.choice([*plain, rng.choice(ids)])
    values = [random_value(rng, ids, depth + 1) for _ in range(rng.randrange(4))]
    names = [rng.choice(("type", "id", "map", "entries", "name")) for _ in values]
    return rng.choice((values, dict(zip(names, values, strict=True))))


def random_frame(rng: random.Random, ids: list[str]) -> str:
    """A change with a field that is wrong; one in ten is cut."""
    change = {name: random_value(rng, ids) for name in ("new", "msg_data", "data", "title")}
    change |= {"kind": rng.choice(KINDS), "attr": rng.choice(ATTRIBUTES)}
    change |= {"model": {"id": rng.choice([*ids, "x"])}, "msg_type": "bokeh_event"}
    change[rng.choice([*change])] = random_value(rng, ids)
    text = json.dumps({"events": [change]})
    return text[: rng.randrange(len(text))] if rng.random() < 0.1 else text


def random_address(rng: random.Random) -> str:
    values = [random_text(rng).encode(), rng.randbytes(40), b"1e999", b"tail-5d", b"-1,2", b"min"]
    return "&".join(f"{rng.choice(KEYS)}={quote_from_bytes(v)}" for v in rng.choices(values, k=5))


def memory(server: str) -> int:
    """Bytes of the process that listens at the server's port."""
    port = str(urlsplit(server).port)
    served = (p for p in psutil.process_iter(["cmdline"]) if port in (p.info["cmdline"] or ()))
    return next(served).memory_info().rss


@pytest.mark.slow
def test_random_addresses_expressions_and_frames_leave_the_server_well(server, server_log, run):
    rng, before, begun = random.Random(0), memory(server), len(server_log.read_text())
    for _ in range(12):
        query = random_address(rng)
        assert "<title>AMCI Explorer" in get(f"{server}?{query}")[1], query

    async def body() -> None:
        page = await Page.come(f"{server}?f=%28")
        field = page.model(label="f(x, θ), then Enter")["id"]
        for _ in range(50):
            await page.change(field, "value", " ".join(rng.choices(TOKENS, k=rng.randrange(40))))
        ids = re.findall(r'"id": "(p\d+)"', json.dumps(page.document))
        for _ in range(300):
            await send(page, [PATCH, "{}", random_frame(rng, ids)])
            with contextlib.suppress(TimeoutError):
                if await asyncio.wait_for(page.connection.read_message(), 0.01) is None:
                    page = await Page.come(f"{server}?ui=min")
                    ids = re.findall(r'"id": "(p\d+)"', json.dumps(page.document))
        other = await Page.come(server)
        await answered(other, 2.3457)
        other.leave()

    run(body(), 5 * PATIENCE)
    # What cannot be taken is answered in a line; a page that goes is told no more. All else works.
    allowed = ("error handling message", "notify_connection_lost", "WebSocketClosedError")
    records = re.split(r"^(?=\d{4}-\d\d-\d\d )", server_log.read_text()[begun:], flags=re.M)
    failed = [each for each in records if "Traceback" in each]
    assert [each for each in failed if not any(text in each for text in allowed)] == []
    assert memory(server) - before < 300e6
