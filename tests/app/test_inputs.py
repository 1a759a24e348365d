"""What is moved or chosen is answered, and follows the state."""

import pytest

from app.state import State
from app.views.bound import bound
from app.views.case import CaseControls


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
