"""A move is answered, and what a late page says is told from one."""

import time

import pytest
from amci_explorer.state.state import State
from amci_explorer.views import slider as sliders
from amci_explorer.views.bound import sliding
from amci_explorer.views.case import CaseControls
from amci_explorer.views.slider import slider
from bokeh.document import Document


def test_a_move_that_fails_leaves_the_slider_where_the_state_is(monkeypatch):
    state = State()
    controls = CaseControls(state)
    (widget, *_), at = controls.single, state.y[0]

    def fail(**_):
        raise ValueError("refused")

    monkeypatch.setattr(state, "move", fail)
    with pytest.raises(ValueError, match="refused"):
        widget.value = at + 1
    assert widget.value == at


@pytest.mark.parametrize("name", ["theta", "share"])
def test_the_steps_of_a_key_are_not_put_back_where_the_state_rounds_them(name):
    """The page would hear of a put when the key has gone on, and lose the steps since."""
    state = State()
    widget = CaseControls(state).single[1] if name == "theta" else sliding(state, name, "Share")
    # As 0.1 + 0.2 is.
    stepped, told = 0.30000000000000004, []
    widget.param.watch(lambda event: told.append(event.new), "value")
    widget.value = stepped
    at = state.theta[0] if name == "theta" else state.share
    assert (at, told) == (0.3, [stepped])


class Told:
    """A slider that the server has put elsewhere twice, and where it is moved in answer."""

    def __init__(self):
        self.document, self.moves = Document(), []
        self.slider = slider("Level", value=1.0, start=0, end=5)
        self.slider.value = 1.5
        self.slider.value = 1.33
        self.slider.param.watch(lambda event: self.moves.append(event.new), "value")

    def hear(self, **events):
        """What a page says at once; then the time passes in which it could say more."""
        self.slider._events, self.slider._heard = events, time.monotonic()
        self.slider._change_event(self.document)
        return self

    def wait(self):
        for each in self.document.session_callbacks:
            self.document.remove_timeout_callback(each)
            each.callback()
        return self.moves


@pytest.mark.parametrize(
    ("said", "moves"),
    [
        ({"value": 1.4}, [1.4]),
        ({"value": 1.5, "value_throttled": 1.5}, [1.5]),
        ({"value": 1.0, "value_throttled": 1.0}, [1.0]),
    ],
)
def test_a_move_is_believed(said, moves):
    assert Told().hear(**said).wait() == moves


def test_an_echo_of_where_the_server_had_put_it_is_not(monkeypatch):
    monkeypatch.setattr(sliders, "callback", lambda act: act)
    told = Told().hear(value=1.5)
    assert told.moves == []
    # The page is told again where it is.
    assert told.wait() == [1.33]
    assert told.slider.value == 1.33


@pytest.mark.parametrize(
    ("said", "moves"), [({"value": 1.5}, []), ({"value": 1.4}, [1.4]), ({}, [])]
)
def test_where_a_slider_begins_and_ends_is_not_for_the_page_to_say(monkeypatch, said, moves):
    """An echo of the problem before names its ends too."""
    monkeypatch.setattr(sliders, "callback", lambda act: act)
    told = Told()
    model = told.slider.get_root(told.document).data
    model.end, model.label = 36.86, "Before"
    told.hear(end=36.86, label="Before", **said).wait()
    assert [move for move in told.moves if move != 1.33] == moves
    assert (told.slider.end, told.slider.label) == (5, "Level")
    # The page is told again.
    assert (model.end, model.label) == (5, "Level")


def test_a_slider_takes_its_theme_from_the_page():
    told = Told()
    told.slider.get_root(told.document)
    told.hear(dark_theme=True).wait()
    assert told.slider.dark_theme


def test_who_lets_go_later_has_moved_it():
    told = Told().hear(value=1.5)
    told.slider._events |= {"value_throttled": 1.5}
    assert told.wait() == [1.5]


@pytest.mark.parametrize("at", ["hear", "answer"])
def test_long_after_it_is_a_move(monkeypatch, at):
    monkeypatch.setattr(sliders, "callback", lambda act: act)
    told, now = Told(), time.monotonic()
    if at == "hear":
        monkeypatch.setattr(time, "monotonic", lambda: now + 2 * sliders.SECONDS_OF_ECHO)
        assert told.hear(value=1.5).wait() == [1.5]
    else:
        told.hear(value=1.5)
        monkeypatch.setattr(time, "monotonic", lambda: now + 2 * sliders.SECONDS_OF_ECHO)
        # It was said in time, only a busy server answers it late.
        assert told.wait() == [1.33]


def test_a_place_between_two_steps_is_an_echo_however_late(monkeypatch):
    monkeypatch.setattr(sliders, "callback", lambda act: act)
    told, now = Told(), time.monotonic()
    told.slider.value = 4.417378250519752
    told.slider.value = 1.33
    told.moves.clear()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2 * sliders.SECONDS_OF_ECHO)
    assert told.hear(value=4.417378250519752).wait() == [1.33]
    # A key that is pressed at such a place and back again.
    told.moves.clear()
    said = {"value": 4.417378250519752, "value_throttled": 4.417378250519752}
    assert told.hear(**said).wait() == [4.417378250519752]
