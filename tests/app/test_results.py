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
        asked, card = self.running[name], self.under_way[name]
        progress = {"runs": runs, "runs_wanted": wanted, "progress": runs / wanted}
        value = SimpleNamespace(**progress, of=asked.settings.theta)
        self._bring(card, Result(asked, value, 7.25, complete=end))
        if end:
            del self.under_way[name]

    def fail(self, name, message):
        self._finish(self.under_way.pop(name), self.running[name], message)


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


def test_a_result_of_another_choice_is_faded_says_what_it_answers_and_comes_back(card, jobs):
    card.start()
    assert ">Waiting for the first result<" in status(card)
    jobs.do("play")
    assert "4 runs in 7.2 s" in status(card)
    assert card.body.styles["opacity"] == "1"
    card.state.move(theta=1.0)
    assert card.body.styles == {"opacity": "0.4"}
    assert "for θ = 3" in status(card)
    assert "runs in" not in status(card)
    text = card.details.csv.callback().read()
    assert text.startswith("# problem=tail-1d&y=1&theta=3&")
    assert text.splitlines()[1:] == ["theta", "3.0"]
    card.state.move(theta=3.0)
    card.start()
    assert not jobs.under_way
    assert card.body.styles["opacity"] == "1"
    assert "4 runs in 7.2 s" in status(card)
    card.state.move(theta=1.0)
    card.start()
    assert "Waiting for the first result; showing the result for θ = 3" in status(card)
    jobs.do("play")
    assert card.body.styles["opacity"] == "1"
    assert "(1.0,)" in card.words.object
    assert "θ" not in status(card)


def test_the_time_left_is_told_of_what_is_not_complete(card, jobs):
    card.start()
    jobs.do("play", runs=4, wanted=100, end=False)
    assert ">4 of 100 runs<" in status(card)
    first = card.results.all.get("play")
    assert (first.asked, first.complete) == (card.asked(card.state), False)
    jobs.do("play", runs=10, wanted=100, end=False)
    assert ">10 of 100 runs, 65 s left<" in status(card)
    jobs.do("play")
    last = card.results.all.get("play")
    assert (last.asked, last.complete) == (first.asked, True)


def test_a_card_that_counts_nothing_waits_and_another_problem_leaves_nothing(jobs):
    card = type("Whole", (Plain,), {"unit": ""})(Case("tail-1d"), jobs)
    card.open()
    card.start()
    assert ">Waiting for the first result<" in status(card)
    jobs.do("play")
    assert ">Waiting" not in status(card)
    card.results.forget()
    card.open()
    assert card.results.all.get("play") is card.shown is None


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
    card.state.move(theta=2.0)
    card.start()
    assert jobs.under_way


def test_a_failure_is_said_in_the_card_which_offers_to_try_again(card, jobs):
    card.start()
    jobs.fail("play", "no <b>memory</b>")
    assert 'role="alert"' in status(card)
    assert "no &lt;b&gt;memory" in status(card)
    assert card.results.failed.get("play") == card.asked(card.state)
    (button,) = parts(card, "Run")
    assert not button.disabled
    button.clicks += 1
    assert "play" in jobs.under_way
    assert card.results.failed.get("play") is None


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
    """A document whose session does what it has to do at once, or waits if it is stuck."""

    def __init__(self):
        super().__init__()
        self.turns, self.stuck, self.waiting = 0, False, []

    def add_next_tick_callback(self, callback):
        self.turns += 1
        if self.stuck:
            self.waiting.append(callback)
        else:
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
                    yield Result(asked, each, 0.5, each == "last")
                    await asyncio.sleep(0)

        fake = Fake()
        monkeypatch.setattr(runner, "runner", lambda: fake)
        monkeypatch.setattr("amci_explorer.compute.results.SECONDS_TO_ASK_AGAIN", 0.01)

        async def inside():
            page, card = Page(), Noted()
            await body(Results(page), card, page)
            return card.told

        return run_apart(inside())

    return run


async def until(true):
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0)


async def rested(results):
    await until(lambda: "noted" not in results.running)


def asked(**chosen):
    state = Case("tail-1d")
    state.move(**chosen)
    return Request("error_curves", state.settings)


GONE = Unreachable("The Dask scheduler does not answer.")
AGAIN = f"{GONE} It is asked again every second."


@pytest.mark.parametrize(
    ("gives", "told", "turns"),
    [
        # The last result and the end are one message.
        ([["first", "last"]], [("first", False), ("last", True), None], 2),
        ([["first", ValueError("too many")]], [("first", False), "too many"], 2),
        (
            [["first", GONE], [GONE], ["last"]],
            [("first", False), *2 * [AGAIN], ("last", True), None],
            4,
        ),
    ],
    ids=["results", "failure", "no workers"],
)
def test_a_card_is_brought_every_result_and_the_end_or_why_there_is_none(
    brought, gives, told, turns
):
    async def body(results, card, page):
        results.want(card, asked())
        assert "noted" in results.running
        await rested(results)
        assert page.turns == turns
        assert results.failed.get("noted") == (None if told[-1] is None else asked())

    assert brought(body, *gives) == ["begin", *told]


@pytest.mark.parametrize("known", [None, Result(asked(), "known", 0.5, complete=True)])
def test_what_was_on_its_way_is_not_shown_after_a_cancel_or_what_is_known_at_once(
    brought, monkeypatch, known
):
    async def body(results, card, page):
        page.stuck = True
        results.want(card, asked(theta=1.0))
        await until(lambda: page.waiting)
        if known:
            monkeypatch.setattr(runner.runner(), "finished", lambda _: known)
            results.want(card, asked())
        else:
            results.cancel("noted")
        page.waiting[0]()
        assert results.all.get("noted") is known
        assert "noted" not in results.running

    told = brought(body, ["late", "last"])
    assert told == ["begin", *([("known", True), None] if known else [])]


def test_a_new_request_takes_the_place_of_the_one_before(brought):
    async def body(results, card, page):
        results.want(card, asked())
        await until(lambda: results.all.get("noted"))
        results.want(card, asked(theta=2.0))
        await rested(results)
        assert results.all.get("noted").asked == asked(theta=2.0)

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


def test_what_fails_while_a_result_is_shown_does_not_keep_the_end_away(brought):
    failures = Noted()

    def fail(_):
        raise RuntimeError("no picture")

    async def body(results, card, page):
        on_failure(page, failures.end)
        card.take = fail
        results.want(card, asked())
        await rested(results)

    assert brought(body, ["last"]) == ["begin", None]
    assert [str(error) for error in failures.told] == ["no picture"]
