"""What a slider does to the state, and the state to it."""

import panel_material_ui as pmui
import pytest
from amci_explorer.state.state import State
from amci_explorer.views.bound import CaseControls, sliding
from amci_explorer.views.slider import Slider


def test_a_handle_moves_the_case_and_the_others_follow():
    state = State()
    controls = CaseControls(state)
    y, theta, level = controls.panel.select(Slider)
    theta.value = 2.0
    assert (state.y, state.theta) == ((y.value,), (2.0,))
    assert level.value == pytest.approx(state.level)
    level.value = 5.0
    assert (state.level, theta.value) == (5.0, state.theta[0])


def test_the_number_of_dimensions_is_a_handle():
    state, committed = State("tail-5d"), []
    state.param.watch(lambda _: committed.append(state.problem.name), "committed")
    (buttons,) = CaseControls(state).panel.select(pmui.RadioButtonGroup)
    assert list(buttons.options) == ["1", "2", "5", "10", "20"]
    buttons.value = buttons.options["20"]
    assert committed == ["tail-20d"]
    assert state.y == (0.5,) * 20
    assert not CaseControls(State("cancer")).panel.select(pmui.RadioButtonGroup)


def test_letting_go_commits_where_it_is():
    state, committed = State(), []
    _, theta, _ = CaseControls(state).panel.select(Slider)
    state.param.watch(lambda _: committed.append(state.theta), "committed")
    theta.param.update(value=2.0, committed=1)
    assert committed == [(2.0,)]


def test_a_move_that_fails_leaves_the_slider_where_the_state_is(monkeypatch):
    state = State()
    controls = CaseControls(state)
    (widget, *_), at = controls.panel.select(Slider), state.y[0]

    def fail(**_):
        raise ValueError("refused")

    monkeypatch.setattr(state, "move", fail)
    with pytest.raises(ValueError, match="refused"):
        widget.value = at + 1
    assert widget.value == at


@pytest.mark.parametrize("name", ["theta", "share"])
def test_the_steps_of_a_key_are_not_put_back_where_the_state_rounds_them(name):
    state = State()
    theta = CaseControls(state).panel.select(Slider)[1]
    widget = theta if name == "theta" else sliding(state, name, "Share")
    # As 0.1 + 0.2 is.
    stepped, put = 0.30000000000000004, []
    widget.param.watch(lambda event: put.append(event.new), "value")
    widget.value = stepped
    at = state.theta[0] if name == "theta" else state.share
    assert (at, put) == (0.3, [stepped])


def test_what_comes_late_from_another_problems_slider_moves_nothing():
    state = State()
    controls = CaseControls(state)
    left = controls.panel.select(Slider)[0]
    state.open("gain-loss")
    controls.open()
    before = state.settings
    left.param.update(value=left.end, committed=1)
    assert state.settings == before


def test_each_handle_says_what_it_moves():
    state = State()
    moves = [each.moves for each in CaseControls(state).panel.select(Slider)]
    assert moves == [["y", 0], ["theta", 0], ["level", 0]]
