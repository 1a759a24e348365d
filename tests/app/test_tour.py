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
    found, case = tour(), Case()
    assert len(found.steps) == 13
    for i, step in enumerate(found.steps):
        assert found.index(step.name) == found.index(str(i + 1)) == i
        assert step.question.endswith("?")
        assert 0 < len(step.text) < 600
        case.set(draws=7, alpha=0.3, seed=5)
        case.commit()
        case.visit(step.link)
        assert case.link() == ({**step.link, "f": case.f} if case.f else step.link)
        # Back leads away from it.
        assert case.can_go[0]
    assert found.index("nothing") is found.index("0") is found.index("14") is None


@pytest.mark.parametrize(
    ("dim", "mu", "error"),
    [(1, 0.14, 0.0002), (2, 0.025, 0), (5, 3e-4, 0), (10, 1e-6, 0), (20, 1e-10, 0.004)],
)
def test_the_step_through_the_dimensions_says_true_numbers(dim, mu, error):
    at = [0.5] * dim, [1.0] * dim
    assert float(amci.problem(f"tail-{dim}d").truth(*at)) == pytest.approx(mu, rel=0.5)
    estimate = amci.estimate(f"tail-{dim}d", None, *at, draws=1000)
    # As presets say, too, from 2 dimensions on.
    assert estimate.relative_standard_error < 0.01
    if error:
        assert estimate.relative_standard_error == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize(
    ("name", "y", "theta", "better", "factor", "worse"),
    [
        ("tail-1d", 1.0, 3.0, "amci-cv", 100, "bound"),
        ("tail-1d", 1.0, 3.0, "bound", 10, "snis-q2"),
        ("tail-1d", -1.0, 3.0, "snis-qm-stratified", 2 / 3, "amci-cv"),
        ("tail-1d", -1.0, 3.0, "amci-cv", 150, "snis-qm"),
        ("cancer", (550.0, 350.0), None, "amci-cv", 50, "snis-qm-stratified"),
        ("cancer", (900.0, 60.0), None, "amci-cv", 2, "amci"),
    ],
)
def test_the_steps_on_the_bound_the_mixture_and_control_variates_say_true_things(
    name, y, theta, better, factor, worse
):
    of = {"draws": [128], "runs": 100, "estimators": [better, worse], "seed": 1}
    curves = amci.error_curves(name, None, y, theta, **of)
    assert factor * curves[better].remse[0] ** 0.5 < curves[worse].remse[0] ** 0.5


def test_your_own_tour_is_read_with_links_from_the_page_that_go_on_from_step_to_step(written):
    links = "http://localhost:5006/dashboard?y=2&seed=3", "problem=cancer", "y=300,100"
    steps = [f'{STEP.replace("one", f"s{i}")}link = "{link}"\n' for i, link in enumerate(links)]
    text = f'title = "Mine"\n{"".join(steps)}'
    # Some editors mark the encoding.
    found = read_tour(written(text, "utf-8-sig"))
    assert found.title == "Mine"
    assert [step.link for step in found.steps] == [
        {"problem": "tail-1d", "y": "2", "seed": "3"},
        {"problem": "cancer"},
        {"problem": "cancer", "y": "300,100"},
    ]
    with pytest.raises(TourError, match=r"step 3: .*expected 2 numbers"):
        read_tour(written(text.replace("300,100", "1")))


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
