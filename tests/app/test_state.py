"""The page's case: one point with three handles, links, steps, and what another problem keeps."""

import json
import math
import random
from urllib.parse import parse_qsl, urlencode

import param
import pytest
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.presets import preset_at, presets
from amci_explorer.state.case import CHOICES, Case
from own_problems import SQUARE

import amci_core as amci
from amci_core.models import Variable


@pytest.fixture
def case():
    return Case("tail-1d")


@pytest.mark.parametrize(
    "move", [{"y": -3.5}, {"theta": 0.2}, {"level": 4.0}, {"y": 7.0, "level": 1.0}]
)
def test_three_handles_move_one_point_seen_once_and_whole(case, move):
    seen, names = [], ["y", "theta", "level"]
    case.param.watch(lambda *_: seen.append([getattr(case, name) for name in names]), names)
    case.move(**move)
    assert seen == [[getattr(case, name) for name in names]]
    # The point is kept to six digits, the level as it was asked for.
    assert case.level == pytest.approx(float(case.problem.mismatch(case.y, case.theta)), abs=1e-3)
    for name, value in move.items():
        assert getattr(case, name) == (value if name == "level" else (value,))
    before = case.y, case.theta
    case.move(level=case.level)
    assert (case.y, case.theta) == before


@pytest.mark.parametrize("name", ["tail-5d", "cancer", "gain-loss", "peak"])
def test_the_level_moves_every_problem_along_its_path_to_its_ends(name):
    case = Case(name)
    low, high = case.level_range()
    for share in (0.2, 0.7):
        level = low + share * (high - low)
        case.move(level=level)
        assert float(case.problem.mismatch(*case.settings.pair)) == pytest.approx(level, abs=1e-3)
    case.move(level=1000.0)
    assert case.level == pytest.approx(case.level_range()[1], rel=1e-5)


@pytest.mark.parametrize("bad", [{"y": 8.5}, {"theta": -0.1}, {"y": math.nan}, {"level": -1.0}])
def test_bad_moves_are_refused_and_leave_the_point_alone(case, bad):
    before = (case.y, case.theta, case.level)
    with pytest.raises(ValueError, match=next(iter(bad))):
        case.move(**bad)
    with pytest.raises(TypeError):
        case.theta = 1.0
    assert (case.y, case.theta, case.level) == before


@pytest.mark.parametrize("name", amci.problems())
def test_a_preset_leads_to_its_case_and_all_else_opens_anew(name):
    for preset in presets(amci.problem(name)):
        case = Case("tail-1d")
        case.set(alpha=0.3, draws=7, variant="oracle", snapshot=1, runs=50, theme="dark")
        case.visit(preset.link)
        assert preset_at(case.link()) is preset
        assert {**case.link()} == {**preset.link, "theme": "dark"}


def test_reset_leads_back_to_the_start_but_for_the_theme(case):
    start = case.as_json()
    case.set(theme="dark")
    case.commit()
    assert case.can_go == (False, False)
    case.move(y=3.0, level=0.5)
    case.set(variant="paper", draws=5, seed=3, alpha=0.1, measure="MSE", every=True)
    case.set(card="map", across="theta")
    assert case.upwards == "y"
    case.reset()
    assert case.as_json() == start | {"theme": "dark"}


def test_what_is_wrong_with_an_address_is_told_and_the_rest_is_used(case):
    link = {"y": "99", "theta": "x", "variant": "best", "draws": "0", "runs": "50", "else": "1"}
    wrong = case.read(link)
    assert set(wrong) == {"y", "theta", "variant", "draws"}
    assert "99" in wrong["y"]
    assert "spline, paper, oracle" in wrong["variant"]
    assert case.settings.runs == 50
    # What is too large stops at the end; what is no number is left out.
    assert (case.y, case.theta, case.draws) == ((8.0,), (3.0,), 2)
    wrong = case.read({"theta": "1,2", "problem": "tail-5d"})
    assert "expected 5 numbers, got 2" in wrong["theta"]
    assert "expected one of" in Case().read({"problem": "tail-9"})["problem"]
    assert "no y" in Case("peak").read({"y": "1"})["y"]


@pytest.mark.parametrize("text", ["9" * 10_000, "<img src=x>" * 400, "\ufffd" * 9_999])
def test_what_is_wrong_is_told_in_a_few_words(case, text):
    wrong = case.read(dict.fromkeys([*CHOICES, "problem"], text))
    assert set(wrong) == {*CHOICES, "problem"}
    assert all(len(why) < 250 for why in wrong.values()), wrong
    assert case.as_json() == Case("tail-1d").as_json()


@pytest.mark.parametrize("end", [2 / 3, 2 * math.pi])
def test_ends_that_round_outwards_are_reached_without_a_word(new, end):
    problem, _ = new(**SQUARE)
    problem.theta = Variable("theta", 1, -end, end, "a threshold")
    for theta in (end, -end):
        case, again = Case("new"), Case()
        case.move(theta=(theta,))
        for link in (case.link(), {"problem": "new", "theta": repr(theta)}):
            assert again.read(link) == {}
            assert case.theta == again.theta == (theta,)
    assert "expected a number from" in Case("new").read({"theta": "7"})["theta"]


def anything(name, rng):
    """A case of a problem with every choice somewhere within its bounds."""
    case = Case(name)
    for key in ("y", "theta"):
        variable = getattr(case.problem, key)
        if variable is not None:
            ends = variable.typical.T.tolist()
            case.move(**{key: [rng.uniform(low, high) for low, high in ends]})
    for key in CHOICES:
        declared = Case.param[key]
        if case.options(key):
            case.set(**{key: rng.choice(list(case.options(key)))})
        elif isinstance(declared, param.Number):
            low, high = declared.bounds
            whole = isinstance(declared, param.Integer)
            case.set(**{key: rng.randint(low, high) if whole else rng.uniform(low, high)})
    if rng.random() < 0.5:
        case.compare()
    return case


@pytest.mark.parametrize("name", amci.problems())
def test_any_case_survives_a_link_and_a_file(name):
    rng = random.Random(name)
    for _ in range(2):
        case = anything(name, rng)
        link = urlencode(case.link())
        # Any browser and mail program takes 2,000; forty numbers and their reference need most.
        assert len(link) < (2000 if name == "tail-20d" else 1000)
        for read in (dict(parse_qsl(link)), json.loads(json.dumps(case.as_json()))):
            other = Case()
            assert other.read(read) == {}
            assert other.as_json() == case.as_json()
            assert other.settings == case.settings


def test_back_and_forward_lead_through_what_was_committed(case):
    seen = [case.as_json()]
    for change in (
        lambda: case.move(y=2.0),
        lambda: case.set(alpha=0.25, draws=9),
        lambda: case.open("peak"),
        lambda: case.compare(),
    ):
        change()
        case.commit()
        case.commit()
        seen.append(case.as_json())
    assert case.can_go == (True, False)
    for step, way in ((-1, [*reversed(seen[:-1]), seen[0]]), (1, seen[1:])):
        for expected in way:
            case.go(step)
            assert case.as_json() == expected
        assert case.can_go == (step > 0, step < 0)
    case.go(-1)
    case.set(seed=5)
    case.commit()
    assert case.can_go == (True, False)


def test_the_case_that_is_kept_is_a_case_of_its_own(case):
    assert case.reference is None
    case.set(draws=9)
    case.compare()
    kept = case.settings
    case.move(y=2.0)
    case.open("cancer")
    assert case.reference.settings == kept
    assert case.same_reference is None
    # Both cases have the same random numbers, whatever the seed is now.
    case.set(seed=7)
    assert case.reference.seed == 7
    case.compare(here=False)
    assert case.reference is None


@pytest.mark.parametrize("text", ["", "1.5", "many", "99999999999"])
def test_counts_out_of_bounds_are_refused_with_the_bounds(case, text):
    for name in ("draws", "runs", "seed"):
        low, high = Case.param[name].bounds
        with pytest.raises(ValueError, match=f"{name}: .*from {low:,} to {high:,}"):
            case.set(**{name: text})
    case.set(draws=" 1,024 ")
    assert case.draws == 1024


def test_another_problem_keeps_what_it_can(case):
    case.move(y=2.0, theta=1.5)
    # Other numbers of dimensions keep the means of y and of theta.
    for dim in (2, 20):
        case.open(f"tail-{dim}d")
        assert (case.y, case.theta) == ((2.0,) * dim, (1.5,) * dim)
    case.move(y=(1.0, 3.0) * 10)
    case.open("tail-1d")
    case.set(draws=10, seed=4, variant="oracle")
    case.open("gain-loss")
    assert (case.y, case.theta) == ((2.0,), (1.5,))
    assert (case.draws, case.seed, case.variant, case.runs) == (10, 4, "oracle", 1000)
    case.set(runs=50)
    case.open("cancer")
    assert (case.y, case.variant, case.runs) == ((550.0, 350.0), "spline", 50)
    with pytest.raises(ValueError, match="y: expected 2 numbers, got 3"):
        case.move(y=(1.0, 2.0, 3.0))


def test_what_one_visitor_trained_another_cannot_name(case):
    made = registry.proposals("tail-1d", "oracle")
    name = session_proposals.add("tail-1d", "learnt", made, case, taken=()).variant
    other = Case("tail-1d")
    assert f"got {name!r}" in other.read({"variant": name})["variant"]
    assert "compared" in other.read({"compared": f"problem=tail-1d&variant={name}"})
    case.set(variant=name)
    case.compare()
    assert case.same_reference.variant == name
    case.set(variant="spline")
    case.commit()
    case.go(-1)
    assert case.variant == name
    session_proposals.forget(case)
