"""What tests of the page share."""

import importlib.util
import inspect
from functools import cache
from types import SimpleNamespace

import param
import pytest
from amci_explorer.compute.results import Result, Results
from amci_explorer.explorer import Explorer
from amci_explorer.problems import registry
from bokeh.document import Document
from own_problems import write
from panel.io.state import set_curdoc
from servers import run_apart


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine in an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    run_apart(
        test(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters})
    )
    return True


@pytest.fixture
def new(tmp_path, monkeypatch):
    """Hands in a problem from a file; gives it with its proposals."""

    def make(*, shift=0.2, **options):
        found = importlib.util.spec_from_file_location("new", write(tmp_path, **options))
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        problem, proposals = module.New(), module.wide(shift)
        registry.hand_in(problem, proposals)
        return problem, proposals

    monkeypatch.setattr(registry, "OWN", {})
    return make


@cache
def done(work):
    """A computation's result."""
    count, first = work.part(0)
    return work.result([first, *(work.part(i)[1] for i in range(1, count))])


class Turned:
    """An explorer on a document of its own, whose requests are noted, and done only if `does`."""

    def __init__(self, monkeypatch, query):
        self.document = Document()
        self.started, self.asked, self.does = [], [], False

        def start(results, card):
            asked = results.running[card.name]
            results._first.discard(card.name)
            self.started.append(card.name)
            self.asked.append(asked)
            try:
                if self.does:
                    results._bring(card, Result(asked, done(asked), 1.0, complete=True))
            except ValueError as error:
                results._finish(card, asked, str(error))
            return SimpleNamespace(cancel=lambda: None)

        monkeypatch.setattr(Results, "_start", start)
        self.explorer = Explorer(self.document, query)
        # As in a browser that has scrolled there.
        if not self.explorer.small:
            with param.discard_events(self.explorer.tabs.sight):
                self.explorer.tabs.sight.seen = True
            self.explorer.tabs.fill()

    def choose(self, name):
        """What choosing a problem does."""
        self.explorer.state.open(name)
        self.explorer.state.commit()


@pytest.fixture
def in_a_loop(monkeypatch):
    """Runs a test's body in an event loop, as the server does; a browser may have one here."""

    def run(body, query=None):
        async def inside():
            document = Document()
            with set_curdoc(document):
                turned = Turned(monkeypatch, query or {"runs": "4", "draws": "8"})
            with set_curdoc(turned.document):
                body(turned)

        run_apart(inside())

    return run
