import json
import math
import random
from urllib.parse import parse_qsl, urlencode

import pytest
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.presets import presets
from amci_explorer.state.fields import FIELDS
from amci_explorer.state.state import State
from amci_explorer.views.bound import CaseControls
from amci_explorer.views.slider import Slider
from conjugate import Share

import amci_core as amci
from amci_core.models import Variable
from amci_core.proposals import available_variants

PROBLEMS = [name for name in amci.problems() if available_variants(name)]
MOVES = [{"y": -3.5}, {"theta": 0.2}, {"level": 4.0}, {"y": 7.0, "level": 1.0}]


@pytest.fixture
def state():
    return State("tail-1d")


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_three_handles_show_one_point(state, move):
    state.move(**move)
    level = float(state.problem.mismatch(state.y, state.theta))
    # The point is kept to six digits, the level as it was asked for.
    assert state.level == pytest.approx(level, abs=1e-3)
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
    assert state.theta == before[1]
    assert state.level == pytest.approx(before[2], abs=1e-3)


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
    assert len(presets(state.problem)) == 6
    released = []
    state.param.watch(lambda *_: released.append(state.settings), "committed")
    for preset in presets(state.problem):
        state.set(alpha=0.3, draws=7, variant="oracle", snapshot=1)
        state.apply(preset)
        assert (state.y, state.theta) == (preset.y, preset.theta)
        assert state.variant == (preset.variant or "spline")
        assert state.draws == (preset.draws or 64)
        assert state.alpha == (1.0 if preset.alpha is None else preset.alpha)
        assert state.snapshot is None
        assert state.card == (preset.card or "play")
        assert state.at(preset)
    assert [c.theta for c in released] == [p.theta for p in presets(state.problem)]


def test_reset_leads_back_to_the_start(state):
    start = State("tail-1d").param.values()
    state.move(y=3.0, level=0.5)
    state.set(variant="paper", snapshot=2, draws=5, runs=9, seed=3, alpha=0.1, measure="MSE")
    state.set(card="map", layer="bound", across="theta", coordinate=1, share=0.2, common=True)
    assert state.upwards == "y"
    state.reset()
    end = state.param.values()
    assert {k: v for k, v in end.items() if k != "name"} == {
        k: v for k, v in start.items() if k != "name"
    }


def test_what_is_wrong_with_an_address_is_told_and_the_rest_is_used(state):
    link = {"y": "99", "theta": "x", "variant": "best", "draws": "0", "runs": "50", "else": "1"}
    wrong = state.read(link)
    assert set(wrong) == {"y", "theta", "variant", "draws"}
    assert "99" in wrong["y"]
    assert "spline, paper, oracle" in wrong["variant"]
    assert state.settings.runs == 50
    # What is too large stops at the end; what is no number is left out.
    assert (state.y, state.theta, state.draws) == ((8.0,), (3.0,), 2)


@pytest.mark.parametrize("end", [2 / 3, math.pi / 2, 2 * math.pi])
def test_ends_that_round_outwards_are_reached_without_a_word(end, monkeypatch):
    monkeypatch.setattr(registry, "OWN", {})
    problem = Share()
    problem.theta = Variable("theta", 1, -end, end, "a threshold")
    registry.hand_in(problem)
    for theta in (end, -end):
        state = State("share")
        state.move(theta=(theta,))
        assert state.theta == (theta,)
        for link in (state.link(), {"problem": "share", "theta": repr(theta)}):
            again = State()
            assert again.read(link) == {}
            assert again.theta == (theta,)
    assert "expected a number from" in State("share").read({"theta": "7"})["theta"]
    assert "expected whole numbers" in State("share").read({"y": "3.7"})["y"]


def test_sliders_of_counts_and_narrow_ranges_have_steps_to_fit(monkeypatch):
    monkeypatch.setattr(registry, "OWN", {})
    problem = Share()
    problem.theta = Variable("theta", 1, 0.0, 0.02, "a threshold")
    registry.hand_in(problem)
    sliders = CaseControls(State("share")).panel.select(Slider)
    assert [(each.step, each.digits) for each in sliders[:2]] == [(1, 0), (1e-4, 4)]


def test_what_is_wrong_is_told_in_a_few_words(state):
    for text in ("9" * 10_000, "<img src=x onerror=alert(1)>" * 400, "\ufffd" * 9_999):
        wrong = state.read(dict.fromkeys([*FIELDS, "problem"], text))
        assert set(wrong) == {*FIELDS, "problem"}
        assert all(len(why) < 250 for why in wrong.values()), wrong
    assert state.as_json() == State("tail-1d").as_json()


def anything(name, rng):
    """A state of a problem with every field somewhere within its bounds."""
    state = State(name)
    low, high = state.level_range()
    if state.y and state.problem.theta is not None:
        ends = [state.problem.y.typical_range, state.problem.theta.typical_range]
        state.move(
            **{
                key: [rng.uniform(*end) for _ in range(len(getattr(state, key)))]
                for key, end in zip(("y", "theta"), ends, strict=True)
            }
        )
    else:
        state.move(level=rng.uniform(low, high))
    for field in FIELDS.values():
        if state.options(field.name):
            state.set(**{field.name: rng.choice(list(state.options(field.name)))})
        elif field.bounds is not None:
            state.set(
                **{
                    field.name: field.bounds[0]
                    + rng.random() * (field.bounds[1] - field.bounds[0])
                    if field.name in ("alpha", "beta", "share")
                    else rng.randint(*field.bounds)
                }
            )
    state.set(snapshot=rng.choice([None, *list(state.options("snapshot"))[:3]]))
    if rng.random() < 0.5:
        state.compare()
    return state


@pytest.mark.parametrize("name", PROBLEMS)
def test_any_state_survives_a_link_and_a_file(name):
    rng = random.Random(name)
    for _ in range(8):
        state = anything(name, rng)
        link = urlencode(state.link())
        # Any browser and mail program takes 2,000; forty numbers and their reference need most.
        assert len(link) < (2000 if name == "tail-20d" else 1000)
        for read in (dict(parse_qsl(link)), json.loads(json.dumps(state.as_json()))):
            other = State()
            assert other.read(read) == {}
            assert other.as_json() == state.as_json()
            assert other.settings == state.settings


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_opens_at_its_first_preset(name):
    state = State(name)
    preset = presets(amci.problem(name))[0]
    assert (state.y, state.theta) == (preset.y, preset.theta or ())


def test_back_and_forward_lead_through_what_was_settled(state):
    seen = [state.as_json()]
    for change in (
        lambda: state.move(y=2.0),
        lambda: state.set(alpha=0.25, draws=9),
        lambda: state.open("peak"),
        lambda: state.set(card="diagnostics"),
        lambda: state.compare(),
    ):
        change()
        state.commit()
        state.commit()
        seen.append(state.as_json())
    assert state.can_go == (True, False)
    for expected in reversed(seen[:-1]):
        state.go(-1)
        assert state.as_json() == expected
    assert state.can_go == (False, True)
    state.go(-1)
    assert state.as_json() == seen[0]
    for expected in seen[1:]:
        state.go(1)
        assert state.as_json() == expected
    state.go(-1)
    state.set(seed=5)
    state.commit()
    assert state.can_go == (True, False)


def test_the_theme_is_no_step(state):
    state.set(theme="dark")
    state.commit()
    assert state.can_go == (False, False)
    state.reset()
    assert state.theme == "dark"


def test_the_case_that_is_kept_is_a_state_of_its_own(state):
    assert state.reference is None
    state.set(draws=9)
    state.compare()
    kept = state.settings
    state.move(y=2.0)
    state.open("cancer")
    assert state.reference.settings == kept
    state.compare(here=False)
    assert state.reference is None


def test_the_film_is_of_the_spline_alone(state):
    state.set(snapshot=2)
    assert state.settings.snapshot == 2
    state.set(variant="paper")
    assert state.settings.snapshot is None


@pytest.mark.parametrize("text", ["", "1.5", "many", "99999999999"])
@pytest.mark.parametrize("name", ["draws", "runs", "seed"])
def test_counts_out_of_bounds_are_refused_with_the_bounds(state, name, text):
    low, high = FIELDS[name].bounds
    with pytest.raises(ValueError, match=f"from {low:,} to {high:,}"):
        state.set(**{name: text})


def test_counts_may_have_thousands_commas(state):
    state.set(draws=" 1,024 ")
    assert state.draws == 1024


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_level_moves_every_problem_along_its_path(name):
    state = State(name)
    low, high = state.level_range()
    for share in (0.2, 0.7):
        level = low + share * (high - low)
        state.move(level=level)
        found = float(state.problem.mismatch(*state.settings.pair))
        assert found == pytest.approx(level, abs=1e-3)


def test_another_problem_keeps_what_it_can(state):
    state.move(y=2.0, theta=1.5)
    state.set(draws=10, seed=4, variant="oracle")
    state.open("gain-loss")
    assert (state.y, state.theta) == ((2.0,), (1.5,))
    assert (state.draws, state.seed, state.variant, state.runs) == (10, 4, "oracle", 1000)
    state.open("tail-5d")
    assert (state.variant, state.runs) == ("spline", 200)
    state.move(y=(1.0,) * 5)
    state.open("gain-loss")
    assert (state.y, state.theta) == ((2.0,), (1.5,))
    state.open("tail-5d")
    assert state.y == (1.0,) * 5


def test_another_number_of_dimensions_keeps_the_means_of_y_and_theta(state):
    state.move(y=2.0, theta=1.5)
    for dim in (2, 5, 10, 20):
        state.open(f"tail-{dim}d")
        assert (state.y, state.theta) == ((2.0,) * dim, (1.5,) * dim)
    state.open("tail-2d")
    state.move(y=(1.0, 4.0))
    state.open("tail-1d")
    assert (state.y, state.theta) == ((2.5,), (1.5,))


def test_a_number_of_runs_of_ones_own_is_kept(state):
    state.set(runs=50)
    state.open("tail-5d")
    assert state.runs == 50


def test_vectors_of_the_wrong_length_are_refused():
    state = State("tail-5d")
    before = state.settings
    with pytest.raises(ValueError, match="y: expected 5 numbers, got 2"):
        state.move(y=(1.0, 2.0))
    wrong = state.read({"theta": "1,2", "problem": "tail-5d"})
    assert "expected 5 numbers, got 2" in wrong["theta"]
    assert "expected one of" in State().read({"problem": "tail-9"})["problem"]
    assert "no y" in State("peak").read({"y": "1"})["y"]
    assert state.settings == before


def test_what_one_visitor_trained_another_cannot_name(state):
    made = registry.proposals("tail-1d", "oracle")
    name = registry.add_variant("tail-1d", "learnt", made, session=state).variant
    other = State("tail-1d")
    assert f"got {name!r}" in other.read({"variant": name})["variant"]
    assert "compared" in other.read({"compared": f"problem=tail-1d&variant={name}"})
    state.set(variant=name)
    state.compare()
    assert state.same_reference.variant == name
    state.set(variant="spline")
    state.commit()
    state.go(-1)
    assert state.variant == name
    session_proposals.forget(state)
