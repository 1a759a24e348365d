r"""The tour: every step sets a state that there is, and a file that is none says why."""

import pytest
from amci_explorer.state.state import State
from amci_explorer.state.tour import TourError, read_tour, tour

import amci_core as amci

STEP = '[[steps]]\nname = "one"\ntitle = "One"\ntext = "Text $x$."\n'


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "my_tour.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_every_step_of_the_shipped_tour_has_a_question_and_its_answer():
    steps = tour().steps
    assert len(steps) == 13
    for step in steps:
        assert step.question.endswith("?")
        assert step.answer
        assert 0 < len(step.text) < 600


@pytest.mark.parametrize("step", tour().steps, ids=lambda step: step.name)
def test_a_step_sets_what_it_names_and_all_else_starts_anew(step):
    state = State()
    state.set(draws=7, alpha=0.3, seed=5)
    state.commit()
    state.visit(step.state)
    found = state.link()
    assert state.draws == 64
    assert state.seed == 0
    assert found["problem"] == step.state["problem"]
    read = State()
    assert read.read(step.state) == {}
    assert (state.y, state.theta, state.variant) == (read.y, read.theta, read.variant)
    assert state.f == read.f
    # It is a step that Back leads away from.
    assert state.can_go[0]


@pytest.mark.parametrize(
    ("dim", "mu", "error"),
    [(1, 0.14, 1.6e-4), (2, 0.025, None), (5, 3e-4, None), (10, 1e-6, None), (20, 1e-10, 4.2e-3)],
)
def test_the_step_through_the_dimensions_says_true_numbers(dim, mu, error):
    at = [0.5] * dim, [1.0] * dim
    truth = amci.problem(f"tail-{dim}d").truth(*at)
    assert float(truth) == pytest.approx(mu, rel=0.5)
    if error:
        found = amci.estimate(f"tail-{dim}d", None, *at, draws=1000, estimator="amci")
        assert found.relative_standard_error == pytest.approx(error, rel=0.5)


def test_steps_are_found_by_name_and_by_number():
    found = tour()
    assert found.index("failure") == found.index("12") == 11
    assert found.index("nothing") is found.index("0") is found.index("14") is None


def test_a_tour_of_ones_own_is_read(written):
    found = read_tour(written(f'title = "Mine"\n{STEP}[steps.state]\ny = [2.0]\nseed = 3\n'))
    assert found.title == "Mine"
    assert dict(found.steps[0].state) == {"y": "2.0", "seed": "3"}
    assert found.steps[0].link == "tour=one"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = [", "my_tour.toml: Invalid value"),
        ("", r"expected tables as \[\[steps\]\]"),
        ("steps = []", "expected at least one step"),
        (STEP + "colour = 1\n", "step 1: unexpected keyword argument 'colour'"),
        ('[[steps]]\nname = "one"\ntitle = "One"\n', "step 1: missing 1 .* argument: 'text'"),
        (STEP + STEP, "step 2: expected another name for each step, got 'one'"),
        (STEP + 'light = "sun"\n', "step 1: expected one of headline, .* as light, got 'sun'"),
        (STEP + 'question = "Why?"\n', "step 1: expected question and answer together"),
        (STEP.replace('"one"', '"a b"'), "letters, digits and hyphens as name, got 'a b'"),
        (STEP + "[steps.state]\ncolour = 3\n", "colour: no such field"),
        (STEP + '[steps.state]\nproblem = "none"\n', "problem: expected one of tail-1d"),
        (STEP + "[steps.state]\ny = [99.0]\n", "y: "),
    ],
)
def test_a_file_that_is_no_tour_says_what_is_wrong(written, text, message):
    path = written(text)
    with pytest.raises(TourError, match=message) as told:
        read_tour(path)
    assert str(path) in str(told.value)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(TourError, match=r"No such file"):
        read_tour(tmp_path / "nothing.toml")


def test_a_file_of_an_editor_that_marks_its_encoding_is_read(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_text(STEP, encoding="utf-8-sig")
    assert read_tour(path).steps[0].title == "One"


def test_a_step_without_a_problem_is_about_that_of_the_step_before(written):
    second = STEP.replace('"one"', '"two"') + "[steps.state]\ny = [300.0, 100.0]\n"
    first = STEP + '[steps.state]\nproblem = "cancer"\n'
    found = read_tour(written(first + second))
    assert found.steps[1].state == {"problem": "cancer", "y": "300.0,100.0"}
    wrong = second.replace("[300.0, 100.0]", "[1.0]")
    with pytest.raises(TourError, match=r"step 2: .*expected 2 numbers"):
        read_tour(written(first + wrong))
