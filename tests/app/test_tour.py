r"""The tour: its numbers are true, its steps lead to their cases, a file that is none says why."""

import pytest
from amci_explorer.state.case import Case
from amci_explorer.state.tour import TourError, read_tour, tour

import amci_core as amci

STEP = '[[steps]]\nname = "one"\ntitle = "One"\ntext = "Text $x$."\n'


@pytest.fixture
def written(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "my_tour.toml"
        path.write_text(text, encoding=encoding)
        return path

    return write


def test_every_step_of_the_shipped_tour_leads_to_its_case_and_asks_a_question():
    steps = tour().steps
    assert len(steps) == 13
    case = Case()
    for step in steps:
        assert step.question.endswith("?")
        assert 0 < len(step.text) < 600
        case.set(draws=7, alpha=0.3, seed=5)
        case.commit()
        case.visit(step.link)
        link = {**step.link, "f": case.f} if case.f else step.link
        assert case.link() == link
        # Back leads away from it.
        assert case.can_go[0]


@pytest.mark.parametrize(
    ("dim", "mu", "error"),
    [(1, 0.14, 1.6e-4), (2, 0.025, None), (5, 3e-4, None), (10, 1e-6, None), (20, 1e-10, 4.2e-3)],
)
def test_the_step_through_the_dimensions_says_true_numbers(dim, mu, error):
    at = [0.5] * dim, [1.0] * dim
    truth = amci.problem(f"tail-{dim}d").truth(*at)
    assert float(truth) == pytest.approx(mu, rel=0.5)
    if error:
        estimate = amci.estimate(f"tail-{dim}d", None, *at, draws=1000)
        assert estimate.relative_standard_error == pytest.approx(error, rel=0.5)


def errors(problem, y, theta=None, variant=None):
    """Relative errors with 64 draws from each of two proposals, by estimator."""
    proposals = variant and amci.load_proposals(problem, variant=variant)
    names = ["amci", "amci-cv", "snis-q2", "snis-qm", "snis-qm-stratified", "bound"]
    curves = amci.error_curves(
        problem, proposals, y, theta, draws=[128], runs=200, estimators=names, seed=1
    )
    return {name: float(curve.remse[0]) ** 0.5 for name, curve in curves.by_name.items()}


def test_the_steps_on_the_bound_and_the_mixture_say_true_things():
    rare = errors("tail-1d", 1.0, 3.0)
    assert rare["snis-q2"] > 2
    assert rare["bound"] == pytest.approx(2 / 128**0.5, rel=0.01)
    assert 100 * rare["amci-cv"] < rare["bound"]
    apart = errors("tail-1d", -1.0, 3.0)
    assert apart["snis-qm-stratified"] < 1.5 * apart["amci-cv"] < 0.01 * apart["snis-qm"]
    patient = errors("cancer", (550.0, 350.0))
    assert 50 * patient["amci-cv"] < patient["snis-qm-stratified"]


def test_the_steps_on_control_variates_and_signs_say_true_things():
    unlikely = errors("cancer", (900.0, 60.0))
    assert 2 * unlikely["amci-cv"] < unlikely["amci"]
    terms = amci.problem("gain-loss")
    gain = float(terms.truth(1.0, 0.4))
    assert gain == pytest.approx(0.335 - 0.235, abs=0.001)


def test_steps_are_found_by_name_and_by_number():
    found = tour()
    assert found.index("failure") == found.index("12") == 11
    assert found.index("nothing") is found.index("0") is found.index("14") is None


def test_your_own_tour_is_read_with_an_address_from_the_page(written):
    link = 'link = "http://localhost:5006/dashboard?y=2&seed=3"\n'
    # Some editors mark the encoding.
    tour = read_tour(written(f'title = "Mine"\n{STEP}{link}', "utf-8-sig"))
    assert tour.title == "Mine"
    assert tour.steps[0].link == {"problem": "tail-1d", "y": "2", "seed": "3"}


def test_a_step_without_a_problem_is_about_that_of_the_step_before(written):
    first = STEP + 'link = "problem=cancer"\n'
    second = STEP.replace('"one"', '"two"') + 'link = "y=300,100"\n'
    found = read_tour(written(first + second))
    assert found.steps[1].link == {"problem": "cancer", "y": "300,100"}
    with pytest.raises(TourError, match=r"step 2: .*expected 2 numbers"):
        read_tour(written(first + second.replace("300,100", "1")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = [", "my_tour.toml: Invalid value"),
        ("", r"expected at least one table \[\[steps\]\]"),
        (STEP + "colour = 1\n", "step 1: unexpected keyword argument 'colour'"),
        ('[[steps]]\nname = "one"\ntitle = "One"\n', "step 1: missing 1 .* argument: 'text'"),
        (STEP.replace('title = "One"\n', ""), "step 1: expected a title"),
        (STEP + STEP, "step 2: expected another name for each step, got 'one'"),
        (STEP + 'light = "sun"\n', "step 1: expected one of headline, .* as light, got 'sun'"),
        (STEP + 'question = "Why?"\n', "step 1: expected question and answer together"),
        (STEP.replace('"one"', '"a b"'), "letters, digits and hyphens as name, got 'a b'"),
        (STEP + 'link = "colour=3"\n', "colour: no such choice"),
        (STEP + 'link = "problem=none"\n', "problem: expected one of tail-1d"),
        (STEP + 'link = "y=99"\n', "y: "),
        (STEP + 'link = "y"\n', "step 1: bad query field"),
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
