"""What is shown answers what is asked, or says what it answers."""

import asyncio
from types import SimpleNamespace

import pandas as pd
import param
import pytest
from amci_explorer.compute import runner
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.compute.runner import Unreachable
from amci_explorer.server.session import on_failure
from amci_explorer.state.case import Case
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML
from bokeh.document import Document
from servers import run_apart


class Slow(Results):
    """Results that a test computes by hand."""

    def __init__(self):
        super().__init__(Document())
        self.under_way = {}

    def _start(self, card):
        self.under_way[card.name] = card
        return SimpleNamespace(cancel=lambda: self.under_way.pop(card.name, None))

    def do(self, name, *, runs=4, wanted=4, end=True):
        asked, card = self._running[name], self.under_way[name]
        progress = {"runs": runs, "runs_wanted": wanted, "progress": runs / wanted}
        value = SimpleNamespace(**progress, of=asked.settings.theta)
        self._bring(card, Result(asked, value, 7.25, complete=end))
        if end:
            del self.under_way[name]

    def fail(self, name, message):
        self._finish(self.under_way.pop(name), self._running[name], message)


class Plain(Card):
    name = param.String("play")

    def content(self):
        self.words = HTML("")
        return [self.words]

    def asked(self, case):
        return Request("error_curves", case.settings)

    def draw(self, found, *, complete):
        self.words.object = f"{found.of} {complete}"

    def frame(self, found):
        return pd.DataFrame({"theta": [found.of[0]]})


@pytest.fixture
def jobs():
    return Slow()


@pytest.fixture
def card(jobs):
    created = Plain(Case("tail-1d"), jobs)
    created.open()
    return created


def parts(card, name):
    return card.panel.select(lambda part: getattr(part, "label", None) == name)


def status(card):
    said = card.panel.select(lambda part: 'data-card="play"' in str(getattr(part, "object", "")))
    return said[0].object


def move(card, theta):
    card.state.move(theta=theta)


def test_a_result_of_another_choice_is_faded_and_says_what_it_answers(card, jobs):
    card.start()
    jobs.do("play")
    assert "4 runs in 7.2 s" in status(card)
    assert card.body.styles["opacity"] == "1"
    move(card, 1.0)
    assert card.body.styles == {"opacity": "0.4"}
    assert "for θ = 3" in status(card)
    assert "runs in" not in status(card)
    card.start()
    assert "Waiting for the first result; showing the result for θ = 3" in status(card)
    jobs.do("play")
    assert card.body.styles["opacity"] == "1"
    assert "(1.0,)" in card.words.object
    assert "θ" not in status(card)


def test_the_time_left_is_told(card, jobs):
    card.start()
    assert ">Waiting for the first result<" in status(card)
    jobs.do("play", runs=4, wanted=100, end=False)
    assert ">4 of 100 runs<" in status(card)
    jobs.do("play", runs=10, wanted=100, end=False)
    assert ">10 of 100 runs, 65 s left<" in status(card)


def test_a_card_that_counts_nothing_says_that_it_waits(jobs):
    card = type("Whole", (Plain,), {"unit": ""})(Case("tail-1d"), jobs)
    card.open()
    card.start()
    assert ">Waiting for the first result<" in status(card)
    jobs.do("play")
    assert ">Waiting" not in status(card)


def test_coming_back_shows_what_was_there(card, jobs):
    card.start()
    jobs.do("play")
    move(card, 1.0)
    move(card, 3.0)
    assert card.body.styles["opacity"] == "1"
    assert "4 runs in 7.2 s" in status(card)
    card.start()
    assert not jobs.under_way


def test_a_file_names_the_choice_of_what_it_holds(card, jobs):
    card.start()
    jobs.do("play")
    move(card, 1.0)
    text = card.csv.callback().read()
    assert text.startswith("# problem=tail-1d&y=1&theta=3&")
    assert text.splitlines()[1:] == ["theta", "3.0"]


def test_what_the_user_called_off_stays_so_until_something_else_is_asked_for(card, jobs):
    (button,) = parts(card, "Cancel")
    card.start()
    jobs.do("play", runs=2, end=False)
    button.clicks += 1
    assert button.label == "Run"
    assert "Cancelled" in status(card)
    card.start()
    assert not jobs.under_way
    button.clicks += 1
    assert jobs.under_way
    button.clicks += 1
    move(card, 2.0)
    card.start()
    assert jobs.under_way


def test_a_failure_is_said_in_the_card_which_offers_to_try_again(card, jobs):
    card.start()
    jobs.fail("play", "no <b>memory</b>")
    assert 'role="alert"' in status(card)
    assert "no &lt;b&gt;memory" in status(card)
    assert card.results.failed("play") == card.asked(card.state)
    (button,) = parts(card, "Run")
    assert not button.disabled
    button.clicks += 1
    assert "play" in jobs.under_way
    assert card.results.failed("play") is None


def test_another_problem_leaves_nothing(card, jobs):
    card.start()
    jobs.do("play")
    card.results.forget()
    card.open()
    assert card.results.of("play") is None
    assert card.shown is None


def test_results_are_kept_with_what_they_answer(card, jobs):
    card.start()
    asked = card.asked(card.state)
    jobs.do("play", runs=2, end=False)
    first = card.results.of("play")
    assert (first.asked, first.complete) == (asked, False)
    jobs.do("play")
    assert card.results.of("play") == Result(
        asked, card.results.of("play").value, card.results.of("play").seconds, complete=True
    )


class Noted:
    """A card that notes what it is told."""

    name = "noted"

    def __init__(self):
        self.told = []

    def begin(self):
        self.told.append("begin")

    def take(self, result):
        self.told.append((result.value, result.complete))

    def end(self, message):
        self.told.append(message)


class Page(Document):
    """A document whose session does what it has to do when it is told to."""

    def __init__(self):
        super().__init__()
        self.turns, self.stuck = 0, False

    def add_next_tick_callback(self, callback):
        self.turns += 1
        if not self.stuck:
            asyncio.get_running_loop().call_soon(callback)


@pytest.fixture
def brought(monkeypatch):
    """Has results brought to a card by a runner that gives what it is told to give."""

    def run(body, *gives):
        attempts = iter(gives)

        class Fake:
            def finished(self, asked):
                return None

            async def results(self, asked, browser):
                for each in next(attempts):
                    if isinstance(each, Exception):
                        raise each
                    yield runner.Result(asked, each, 0.5, each == "last")
                    await asyncio.sleep(0)

        fake = Fake()
        monkeypatch.setattr(runner, "runner", lambda: fake)
        monkeypatch.setattr("amci_explorer.compute.results.SECONDS_TO_ASK_AGAIN", 0.01)

        async def inside():
            page, card = Page(), Noted()
            results = Results(page)
            await body(results, card, page)
            return card.told

        return run_apart(inside())

    return run


async def rested(results):
    async with asyncio.timeout(20):
        while results.is_running("noted"):
            await asyncio.sleep(0.01)


def asked(**chosen):
    state = Case("tail-1d")
    state.move(**chosen)
    return Request("error_curves", state.settings)


def test_a_card_is_brought_every_result_and_the_end(brought):
    async def body(results, card, page):
        results.want(card, asked())
        assert results.is_running("noted")
        await rested(results)
        # The last result and the end are one message.
        assert page.turns == 2

    told = brought(body, ["first", "last"])
    assert told == ["begin", ("first", False), ("last", True), None]


def test_a_page_is_told_nothing_after_a_cancel_even_if_it_was_on_its_way(brought):
    async def body(results, card, page):
        page.stuck, waiting = True, []
        page.add_next_tick_callback = waiting.append
        results.want(card, asked())
        while not waiting:
            await asyncio.sleep(0.01)
        results.cancel("noted")
        waiting[0]()

    assert brought(body, ["first", "last"]) == ["begin"]


def test_a_new_request_takes_the_place_of_the_one_before(brought):
    async def body(results, card, page):
        results.want(card, asked())
        while results.of("noted") is None:
            await asyncio.sleep(0)
        results.want(card, asked(theta=2.0))
        await rested(results)
        assert results.of("noted").asked == asked(theta=2.0)

    told = brought(body, ["first", "second", "last"], ["last"])
    assert told == ["begin", ("first", False), "begin", ("last", True), None]


def test_while_a_handle_moves_the_case_on_its_way_is_shown_and_then_the_newest(brought):
    seen = []

    async def body(results, card, page):
        take = card.take
        card.take = lambda result: (seen.append(result.asked.settings.theta), take(result))
        results.want(card, asked(theta=1.0))
        await asyncio.sleep(0)
        for theta in (2.0, 2.5, 2.75):
            results.want(card, asked(theta=theta))
        await rested(results)

    told = brought(body, ["first of 1", "last"], ["first", "last"])
    assert told == ["begin"] * 4 + [("first of 1", False), ("first", False), ("last", True), None]
    assert seen == [(1.0,), (2.75,), (2.75,)]


def test_what_is_known_at_once_is_not_replaced_by_what_was_on_its_way(brought, monkeypatch):
    async def body(results, card, page):
        known = Result(asked(), "known", 0.5, complete=True)
        page.stuck, waiting = True, []
        page.add_next_tick_callback = waiting.append
        results.want(card, asked(theta=1.0))
        while not waiting:
            await asyncio.sleep(0)
        monkeypatch.setattr(runner.runner(), "finished", lambda _: known)
        results.want(card, asked())
        waiting[0]()
        assert results.of("noted") is known
        assert not results.is_running("noted")

    assert brought(body, ["late", "last"]) == ["begin", ("known", True), None]


def test_a_failure_is_said_in_words(brought):
    async def body(results, card, page):
        results.want(card, asked())
        await rested(results)
        assert results.failed("noted") == asked()

    assert brought(body, ["first", ValueError("too many")])[-1] == "too many"


def test_without_workers_the_card_says_so_and_they_are_asked_again(brought):
    async def body(results, card, page):
        results.want(card, asked())
        await rested(results)

    gone = Unreachable("The Dask scheduler does not answer.")
    told = brought(body, ["first", gone], [gone], ["last"])
    said = "The Dask scheduler does not answer. It is asked again every second."
    assert told == ["begin", ("first", False), said, said, ("last", True), None]


def test_what_fails_while_a_result_is_shown_does_not_keep_the_end_away(brought):
    class Said(list):
        def take(self, error):
            self.append(str(error))

    def fail(_):
        raise RuntimeError("no picture")

    said = Said()

    async def body(results, card, page):
        on_failure(page, said.take)
        card.take = fail
        results.want(card, asked())
        await rested(results)

    assert brought(body, ["last"]) == ["begin", None]
    assert said == ["no picture"]
