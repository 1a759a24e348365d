"""How a visitor's page turns from one problem to another: what comes first, and what later."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from bokeh.document import Document
from panel.io.state import set_curdoc

from app.explorer import Explorer

# Panel's own, of the buttons that download.
pytestmark = pytest.mark.filterwarnings("ignore:Both 'variant':PendingDeprecationWarning")


class Turned:
    """An explorer on a document of its own, whose jobs are noted and not done."""

    def __init__(self):
        self.document = Document()
        self.started = []
        self.explorer = Explorer(self.document, {"runs": "4", "draws": "8"})
        self.explorer.jobs.start = lambda name, *_, **__: self.started.append(name)

    def choose(self, name):
        """What choosing a problem does."""
        self.explorer.state.open(name)
        self.explorer.state.param.trigger("released")

    def wait(self):
        """Lets the time pass that the page has for what comes first."""
        waiting = self.document.session_callbacks
        for each in waiting:
            self.document.remove_timeout_callback(each)
            each.callback()
        return len(waiting)


@pytest.fixture
def in_a_loop():
    """Runs a test's body in an event loop, as the server does; a browser may have one here."""

    def run(body):
        async def inside():
            turned = Turned()
            with set_curdoc(turned.document):
                body(turned)

        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(asyncio.run, inside()).result()

    return run


def test_handles_and_densities_come_first_and_computing_last(in_a_loop):
    def body(turned):
        explorer = turned.explorer
        panel, handles = explorer.density_place[0], explorer.controls.case
        turned.choose("gain-loss")
        # Both are on the line: one view is relabelled.
        assert explorer.density_place[0] is panel
        legend = explorer.densities.figure.above[0]
        assert [item.label.value for item in legend.items][-2:] == ["q₁⁺ learnt", "q₁⁻ learnt"]
        assert explorer.controls.case is not handles
        assert turned.started == []
        assert turned.wait() == 1
        assert sorted(turned.started) == ["diagnosis", "errors", "summary"]

    in_a_loop(body)


def test_a_second_choice_before_the_first_is_ready_wins(in_a_loop):
    def body(turned):
        explorer = turned.explorer
        turned.choose("gain-loss")
        turned.choose("cancer")
        assert turned.wait() == 2
        assert sorted(turned.started) == ["errors", "reuse", "summary"]
        assert explorer.density_place[0] is explorer.densities.panel
        assert explorer.state.problem.name == "cancer"

    in_a_loop(body)


def test_nothing_is_computed_for_views_that_still_show_another_problem(in_a_loop):
    def body(turned):
        explorer = turned.explorer
        turned.choose("gain-loss")
        explorer.tabs.start()
        explorer.start()
        assert turned.started == []
        turned.wait()
        explorer.start()
        assert turned.started.count("errors") == 1

    in_a_loop(body)
