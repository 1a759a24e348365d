"""What a page is told arrives in order, and all of it, also while its connection is busy."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import panel as pn
import pytest
from amci_explorer.server.session import COOKIE, browser_of, guarded
from bokeh.client import pull_session
from bokeh.core.serialization import Deserializer
from bokeh.document import Document
from bokeh.document.events import MessageSentEvent
from bokeh.events import DocumentReady
from bokeh.models import Column, Div
from panel.io.server import get_server
from panel.io.state import set_curdoc
from serving import PATIENCE


class Served:
    """A page with one place in it, and a client: like a browser it knows what it was told of."""

    def __init__(self) -> None:
        self.place = pn.Column()
        self.shown = Div(text="empty", name="shown")
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        # In a thread of its own: the loop of a browser may be running in this one.
        self._elsewhere = ThreadPoolExecutor(1)
        self._elsewhere.submit(self._visit).result(PATIENCE)

    def close(self) -> None:
        self._elsewhere.submit(self._client.close).result(PATIENCE)
        self._elsewhere.shutdown()
        self.call(self._server.io_loop.stop)
        self._thread.join(PATIENCE)

    def wait_until(self, true: Callable[[], object]) -> None:
        """Has the client listen until something holds."""
        connection = self._client._connection

        def listen() -> None:
            late = connection.io_loop.call_later(PATIENCE, connection.io_loop.stop)
            connection._loop_until(true)
            assert true(), "it never came true"
            connection.io_loop.remove_timeout(late)

        self._elsewhere.submit(listen).result(2 * PATIENCE)

    def told(self) -> str | None:
        """What the client believes to be shown."""
        found = self._client.document.get_model_by_name("shown")
        return found and found.text

    def do(self, *acts: Callable[[], None]) -> None:
        """Has the server do one thing after the other, each as one message."""
        for act in acts:
            done = threading.Event()

            def in_one(act: Callable[[], None] = act, done: threading.Event = done) -> None:
                with guarded(self.document):
                    act()
                done.set()

            self.call(partial(self.document.add_next_tick_callback, in_one))
            assert done.wait(PATIENCE)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Keeps the connection busy, as a page does that is too slow for what it is told."""
        session = self.document.session_context.session
        (connection,) = session._subscribed_connections
        lock = connection._socket.write_lock
        taken = threading.Event()

        async def take() -> None:
            await lock.acquire()
            taken.set()

        self.call(take)
        assert taken.wait(PATIENCE)
        yield
        self.call(lock.release)

    def call(self, act: Callable[[], object]) -> None:
        """Has the server do something, sooner or later."""
        self._server.io_loop.add_callback(act)

    def _visit(self) -> None:
        self._client = pull_session(url=f"http://localhost:{self._server.port}/")
        standing = MessageSentEvent(self._client.document, "bokeh_event", DocumentReady())
        self._client._connection._send_patch_document(self._client.id, standing)
        while not pn.state._loaded.get(self.document):
            self._client.force_roundtrip()

    def _page(self) -> pn.Column:
        self.document = pn.state.curdoc
        return self.place

    def _serve(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self._server = get_server(self._page, port=0, websocket_origin=["*"])
        self._server.start()
        self._server.io_loop.add_callback(self._ready.set)
        self._server.io_loop.start()
        self._server.stop()


@pytest.fixture
def served(monkeypatch) -> Iterator[Served]:
    # The guard, if another test has imported it, takes no new models, and the client is sent them.
    for kind in ("object", "ndarray", "bytes"):
        monkeypatch.delitem(Deserializer._decoders, kind, raising=False)
    page = Served()
    yield page
    page.close()


def test_a_picture_comes_before_what_is_said_of_it_and_the_last_of_many_messages_arrives(served):
    with served.busy():
        served.do(
            lambda: served.place.append(pn.pane.Bokeh(served.shown)),
            lambda: served.shown.update(text="described"),
        )
    served.wait_until(lambda: served.told() == "described")
    for count in range(1, 13):

        async def say(count: int = count) -> None:
            for k in range(count):
                with set_curdoc(served.document), guarded(served.document):
                    served.shown.text = f"{k + 1} of {count}"
                await asyncio.sleep(0)

        with served.busy():
            served.do(lambda count=count: served.shown.update(text=f"0 of {count}"))
            served.call(say)
        served.wait_until(lambda count=count: served.told() == f"{count} of {count}")


def test_what_a_page_holds_is_looked_for_once_and_only_where_it_changes(monkeypatch):
    document, shown = Document(), Column(children=[Div(text="first")])
    document.add_root(shown)
    looked = []
    recompute = document.models.recompute
    monkeypatch.setattr(document.models, "recompute", lambda: looked.append(recompute()))

    def say(*, add):
        with guarded(document), guarded(document):
            shown.children[0].text += "."
            for _ in range(add):
                shown.children = [*shown.children, Div()]

    say(add=0)
    assert not looked
    say(add=3)
    assert len(looked) == 1
    assert len(document.models) == 5
    shown.children = shown.children[:1]
    assert len(document.models) == 2


def test_tabs_of_a_browser_share_its_name_and_others_have_their_own():
    def visited(**cookies):
        request = SimpleNamespace(cookies=cookies)
        return SimpleNamespace(session_context=SimpleNamespace(request=request))

    pages = [visited(**{COOKIE: text}) for text in ("one", "one", "other", "")]
    names = [browser_of(each) for each in (*pages, visited())]
    assert names[0] == names[1]
    assert len(set(names)) == 4
