import math

import pytest

import amci_core as amci
from app.state import LIMITS, State, whole_number

MOVES = [{"y": -3.5}, {"theta": 0.2}, {"level": 4.0}, {"y": 7.0, "level": 1.0}]


@pytest.fixture
def state():
    return State(amci.problem("tail-1d"))


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_three_handles_show_one_point(state, move):
    state.move(**move)
    level = float(state.problem.mismatch(state.y, state.theta))
    assert state.level == pytest.approx(level, abs=1e-6)
    for name, value in move.items():
        assert getattr(state, name) == value


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_a_move_is_seen_once_and_whole(state, move):
    seen = []
    state.param.watch(
        lambda *_: seen.append((state.y, state.theta, state.level)), ["y", "theta", "level"]
    )
    state.move(**move)
    assert seen == [(state.y, state.theta, state.level)]


def test_moving_to_where_it_is_changes_nothing(state):
    state.move(level=5.0)
    before = (state.y, state.theta, state.level)
    state.move(level=state.level)
    state.move(theta=state.theta)
    assert (state.y, state.theta) == before[:2]
    assert state.level == pytest.approx(before[2], abs=1e-9)


@pytest.mark.parametrize("y", [-4.0, 1.0, 8.0])
def test_levels_beyond_reach_stop_at_the_ends_of_theta(state, y):
    state.move(y=y, level=1000.0)
    assert state.theta == 5.0
    assert state.level == pytest.approx(state.level_range()[1])
    state.move(level=0.0)
    assert state.theta == 0.0
    assert state.level == pytest.approx(state.level_range()[0], abs=1e-6)


@pytest.mark.parametrize("bad", [{"y": 8.5}, {"theta": -0.1}, {"y": math.nan}, {"level": -1.0}])
def test_bad_moves_are_refused_and_leave_the_point_alone(state, bad):
    before = (state.y, state.theta, state.level)
    with pytest.raises(ValueError, match=next(iter(bad))):
        state.move(**bad)
    assert (state.y, state.theta, state.level) == before


def test_handles_cannot_be_moved_apart(state):
    with pytest.raises(TypeError):
        state.theta = 1.0


def test_presets_are_within_reach_and_set_back_the_rest(state):
    assert len(state.problem.presets) == 5
    released = []
    state.param.watch(lambda *_: released.append(state.choice), "released")
    for preset in state.problem.presets:
        state.param.update(alpha=0.3, draws=7, variant="oracle", snapshot=1)
        state.apply(preset)
        assert (state.y, state.theta) == (preset.y[0], preset.theta[0])
        assert state.variant == (preset.variant or "spline")
        assert state.draws == (preset.draws or 64)
        assert state.alpha == (1.0 if preset.alpha is None else preset.alpha)
        assert state.snapshot is None
    assert [c.theta for c in released] == [p.theta[0] for p in state.problem.presets]


def test_reset_leads_back_to_the_start(state):
    start = State(state.problem).param.values()
    state.move(y=3.0, level=0.5)
    state.param.update(
        variant="paper", snapshot=2, draws=5, runs=9, seed=3, alpha=0.1, relative=False
    )
    state.reset()
    end = state.param.values()
    assert {k: v for k, v in end.items() if k != "name"} == {
        k: v for k, v in start.items() if k != "name"
    }


def test_an_address_leads_back_to_the_same_choice(state):
    state.move(y=2.0, theta=1.5)
    state.param.update(variant="paper", draws=10, seed=4)
    other = State(state.problem)
    assert other.read_query(state.query()) == {}
    assert other.choice == state.choice


def test_an_address_holds_rounded_values(state):
    state.move(y=1 / 3, theta=2 / 3)
    assert state.query() == {"y": "0.3333", "theta": "0.6667"}


def test_what_is_wrong_with_an_address_is_told_and_the_rest_is_used(state):
    query = {"y": "99", "theta": "x", "variant": "best", "draws": "0", "runs": "50", "else": "1"}
    wrong = state.read_query(query)
    assert set(wrong) == {"y", "theta", "variant", "draws"}
    assert "99" in wrong["y"]
    assert "spline, paper, oracle" in wrong["variant"]
    assert state.choice.runs == 50
    assert (state.y, state.theta) == (1.0, 3.0)


def test_the_film_is_of_the_spline_alone(state):
    state.snapshot = 2
    assert state.choice.snapshot == 2
    state.variant = "paper"
    assert state.choice.snapshot is None


@pytest.mark.parametrize("text", ["", "1.5", "-3", "1e3", "many", "99999999999", None])
@pytest.mark.parametrize("name", LIMITS)
def test_counts_out_of_limits_are_refused_with_the_limits(name, text):
    with pytest.raises(ValueError, match=f"from {LIMITS[name][0]:,} to {LIMITS[name][1]:,}"):
        whole_number(name, text)


def test_counts_may_have_thousands_commas():
    assert whole_number("draws", " 1,024 ") == 1024
