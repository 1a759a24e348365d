"""Sliders answer at once, and fall behind nobody."""

import contextlib
import time

import pytest

from app.state import State
from app.views.bound import bound
from app.views.case import CaseControls
from app.views.inputs import LONGEST_REST, MILLISECONDS_OF_DEBOUNCE, slider


def moved(seconds):
    """A slider after a move whose answer took so long."""
    created = slider("Threshold", value=0, start=0, end=5)
    created.param.watch(lambda _: time.sleep(seconds), "value")
    created._process_events({"value": 1.0})
    return created


def test_a_slider_at_rest_answers_at_once():
    assert slider("Threshold", value=0, start=0, end=5)._debounce == MILLISECONDS_OF_DEBOUNCE


def test_after_an_answer_it_rests_for_as_long_as_that_took():
    created = moved(0.1)
    assert 50 < created._debounce < 250
    time.sleep(0.25)
    assert created._debounce == MILLISECONDS_OF_DEBOUNCE


def test_no_answer_makes_it_rest_for_long():
    assert moved(2 * LONGEST_REST)._debounce <= 1000 * LONGEST_REST + 1


def test_an_answer_that_fails_is_no_reason_to_answer_all():
    created = slider("Threshold", value=0, start=0, end=5)

    def fail(_):
        time.sleep(0.05)
        raise RuntimeError

    created.param.watch(fail, "value")
    with contextlib.suppress(RuntimeError):
        created._process_events({"value": 1.0})
    assert created._debounce > MILLISECONDS_OF_DEBOUNCE


def test_a_list_is_told_its_value_again_when_the_labels_change():
    state = State()
    state.open("gain-loss")
    widget = bound(state, "layer", "Shows", listed=True)
    before, told = dict(widget.options), []
    widget.param.watch(lambda event: told.append(event.new), "value", onlychanged=False)
    state.open("tail-5d")
    assert dict(widget.options) != before
    # What the page has is the label of the value, which may not be listed any more.
    assert told
    assert told[-1] == widget.value == state.layer


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
