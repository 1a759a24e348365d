import math

import pytest

import amci_core as amci
from amci_core.proposals import available_variants
from app.presets import presets
from app.state import LIMITS, State, whole_number

PROBLEMS = [name for name in amci.problems() if available_variants(name)]
MOVES = [{"y": -3.5}, {"theta": 0.2}, {"level": 4.0}, {"y": 7.0, "level": 1.0}]


@pytest.fixture
def state():
    return State("tail-1d")


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_three_handles_show_one_point(state, move):
    state.move(**move)
    level = float(state.problem.mismatch(state.y, state.theta))
    assert state.level == pytest.approx(level, abs=1e-6)
    for name, value in move.items():
        assert getattr(state, name) == (value if name == "level" else (value,))


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
    assert state.y == before[0]
    assert state.theta == pytest.approx(before[1], abs=1e-12)
    assert state.level == pytest.approx(before[2], abs=1e-9)


@pytest.mark.parametrize("y", [-4.0, 1.0, 8.0])
def test_levels_beyond_reach_stop_at_the_ends_of_theta(state, y):
    state.move(y=y, level=1000.0)
    assert state.theta == (5.0,)
    assert state.level == pytest.approx(state.level_range()[1])
    state.move(level=0.0)
    assert state.theta == (0.0,)
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
    assert len(presets(state.problem)) == 5
    released = []
    state.param.watch(lambda *_: released.append(state.choice), "released")
    for preset in presets(state.problem):
        state.param.update(alpha=0.3, draws=7, variant="oracle", snapshot=1)
        state.apply(preset)
        assert (state.y, state.theta) == (preset.y, preset.theta)
        assert state.variant == (preset.variant or "spline")
        assert state.draws == (preset.draws or 64)
        assert state.alpha == (1.0 if preset.alpha is None else preset.alpha)
        assert state.snapshot is None
    assert [c.theta for c in released] == [p.theta for p in presets(state.problem)]


def test_reset_leads_back_to_the_start(state):
    start = State("tail-1d").param.values()
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
    other = State()
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
    assert (state.y, state.theta) == ((1.0,), (3.0,))


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


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_opens_at_its_first_preset_and_its_address_leads_back(name):
    state = State(name)
    preset = presets(amci.problem(name))[0]
    assert (state.y, state.theta) == (preset.y, preset.theta or ())
    low, high = state.level_range()
    state.move(level=low + 0.4 * (high - low))
    state.param.update(draws=10)
    other = State()
    assert other.read_query(state.query()) == {}
    assert other.problem is state.problem
    assert other.choice.draws == 10
    assert other.y == pytest.approx(state.y, rel=1e-3)
    assert other.theta == pytest.approx(state.theta, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_level_moves_every_problem_along_its_path(name):
    state = State(name)
    low, high = state.level_range()
    for share in (0.2, 0.7):
        level = low + share * (high - low)
        state.move(level=level)
        found = float(state.problem.mismatch(*state.choice.pair))
        assert found == pytest.approx(level, abs=1e-5)


def test_another_problem_keeps_what_it_can(state):
    state.move(y=2.0, theta=1.5)
    state.param.update(draws=10, seed=4, variant="oracle")
    state.open("gain-loss")
    assert (state.y, state.theta) == ((2.0,), (1.5,))
    assert (state.draws, state.seed, state.variant, state.runs) == (10, 4, "oracle", 1000)
    state.open("tail-5d")
    assert (state.variant, state.runs) == ("spline", 200)
    state.move(y=(1.0,) * 5)
    state.open("tail-1d")
    assert (state.y, state.theta) == ((2.0,), (1.5,))
    state.open("tail-5d")
    assert state.y == (1.0,) * 5


def test_a_number_of_runs_of_ones_own_is_kept(state):
    state.runs = 50
    state.open("tail-5d")
    assert state.runs == 50


def test_vectors_of_the_wrong_length_are_refused():
    state = State("tail-5d")
    before = state.choice
    with pytest.raises(ValueError, match="y: expected 5 numbers, got 2"):
        state.move(y=(1.0, 2.0))
    wrong = state.read_query({"theta": "1,2", "problem": "tail-5d"})
    assert "expected 5 numbers, got 2" in wrong["theta"]
    assert "expected one of" in State().read_query({"problem": "tail-9"})["problem"]
    assert "none" in State("peak").read_query({"y": "1"})["y"]
    assert state.choice == before
