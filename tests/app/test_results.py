"""What is shown answers what is asked, or says what it answers."""

from types import SimpleNamespace

import pytest
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.state.state import State
from amci_explorer.views.card import Card
from amci_explorer.views.layout import HTML


class Slow:
    """Jobs that a test does by hand."""

    def __init__(self):
        self.under_way = {}
        self.cancelled = []

    def start(self, name, work, *, show, finish):
        self.under_way[name] = SimpleNamespace(work=work, show=show, finish=finish)

    def cancel(self, name):
        self.cancelled.append(name)
        self.under_way.pop(name, None)

    def cancel_all(self):
        self.under_way.clear()

    def do(self, name, *, runs=4, wanted=4, end=True):
        job = self.under_way[name]
        job.show(SimpleNamespace(runs=runs, runs_wanted=wanted, of=job.work.settings.theta), 7.25)
        if end:
            self.under_way.pop(name).finish(None)


class Plain(Card):
    name = "plain"
    title = "Plain"

    def content(self):
        self.words = HTML("")
        return [self.words]

    def asked(self, case):
        return Request("error_curves", case.settings)

    def draw(self, found, *, complete):
        self.words.object = f"{found.of} {complete}"

    def rows(self, found):
        return [["theta"], [found.of[0]]]


@pytest.fixture
def jobs():
    return Slow()


@pytest.fixture
def card(jobs):
    created = Plain(State("tail-1d"), Results(jobs))
    created.open()
    return created


def parts(card, name):
    return card.panel.select(lambda part: getattr(part, "label", None) == name)


def status(card):
    said = card.panel.select(lambda part: 'data-card="plain"' in str(getattr(part, "object", "")))
    return said[0].object


def move(card, theta):
    card.state.move(theta=theta)
    card.follow({"theta"})


def test_a_result_of_another_choice_is_faded_and_says_what_it_answers(card, jobs):
    card.start()
    jobs.do("plain")
    assert "4 runs in 7.2 s" in status(card)
    assert card.body.styles["opacity"] == "1"
    move(card, 1.0)
    assert card.body.styles == {"opacity": "0.4"}
    assert "for θ = 3" in status(card)
    assert "runs in" not in status(card)
    card.start()
    assert "starting" in status(card)
    assert "for θ = 3" in status(card)
    jobs.do("plain")
    assert card.body.styles["opacity"] == "1"
    assert "(1.0,)" in card.words.object
    assert "θ" not in status(card)


def test_the_time_left_is_told_once_a_twentieth_is_done(card, jobs):
    card.start()
    for runs, words in ((4, "4 of 100 runs<"), (5, "5 of 100 runs, 138 s left<")):
        jobs.do("plain", runs=runs, wanted=100, end=False)
        assert f">{words}" in status(card)


def test_coming_back_shows_what_was_there(card, jobs):
    card.start()
    jobs.do("plain")
    move(card, 1.0)
    move(card, 3.0)
    assert card.body.styles["opacity"] == "1"
    assert "4 runs in 7.2 s" in status(card)
    card.start()
    assert not jobs.under_way


def test_a_file_names_the_choice_of_what_it_holds(card, jobs):
    (download,) = parts(card, "CSV")
    assert download.disabled
    assert download.description == "CSV: nothing to download yet."
    card.start()
    jobs.do("plain")
    move(card, 1.0)
    assert not download.disabled
    assert "theta-3" in download.filename
    text = download.callback().read()
    assert text.startswith("# problem=tail-1d&y=1&theta=3&")
    assert text.splitlines()[1:] == ["theta", "3.0"]


def test_what_the_user_called_off_stays_so_until_something_else_is_asked_for(card, jobs):
    (button,) = parts(card, "Cancel")
    card.start()
    jobs.do("plain", runs=2, end=False)
    button.clicks += 1
    assert button.label == "Run again"
    assert "cancelled after 2 runs" in status(card)
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
    jobs.under_way["plain"].finish("no <b>memory</b>")
    assert 'role="alert"' in status(card)
    assert "no &lt;b&gt;memory" in status(card)
    assert card.results.failed("plain") == card.asked(card.state)
    (button,) = parts(card, "Try again")
    assert not button.disabled
    button.clicks += 1
    assert "plain" in jobs.under_way
    assert card.results.failed("plain") is None


def test_another_problem_leaves_nothing(card, jobs):
    card.start()
    jobs.do("plain")
    card.results.forget()
    card.open()
    assert card.results.of("plain") is None
    assert card.shown is None
    assert parts(card, "CSV")[0].disabled


def test_results_are_kept_with_what_they_answer(card, jobs):
    card.start()
    asked = card.asked(card.state)
    jobs.do("plain", runs=2, end=False)
    first = card.results.of("plain")
    assert (first.asked, first.complete) == (asked, False)
    jobs.do("plain")
    assert card.results.of("plain") == Result(
        asked, card.results.of("plain").value, card.results.of("plain").seconds, complete=True
    )
