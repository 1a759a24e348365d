"""What a slider does to the case, and the case to it."""

import panel_material_ui as pmui
import pytest
from amci_explorer.state.case import Case
from amci_explorer.views.bound import sliding
from amci_explorer.views.handles import CaseControls
from amci_explorer.views.slider import Slider
from own_problems import SQUARE

from amci_core.models import Variable


def handles(case):
    return CaseControls(case).panel.select(Slider)


def test_a_handle_moves_the_case_and_the_others_follow_without_an_answer():
    case = Case()
    y, theta, level = handles(case)
    assert [each.moves for each in (y, theta, level)] == [["y", 0], ["theta", 0], ["level", 0]]
    theta.value = 2.0
    assert (case.y, case.theta) == ((y.value,), (2.0,))
    assert level.value == pytest.approx(case.level)
    level.value = 5.0
    assert (case.level, theta.value) == (5.0, case.theta[0])
    case.move(y=2.0)
    assert y.value == 2.0
    # Each answers the user's moves of its own, and nobody else's.
    assert [each.answered for each in (y, theta, level)] == [0, 1, 1]


def test_the_number_of_dimensions_is_a_choice():
    case, committed = Case("tail-5d"), []
    case.param.watch(lambda _: committed.append(case.problem.name), "committed")
    (buttons,) = CaseControls(case).panel.select(pmui.RadioButtonGroup)
    assert list(buttons.options) == ["1", "2", "5", "10", "20"]
    buttons.value = buttons.options["20"]
    assert committed == ["tail-20d"]
    assert case.y == (0.5,) * 20
    assert not CaseControls(Case("cancer")).panel.select(pmui.RadioButtonGroup)


def test_letting_go_commits_and_a_move_that_fails_leaves_the_slider_where_the_case_is(monkeypatch):
    case, committed = Case(), []
    _, theta, _ = handles(case)
    case.param.watch(lambda _: committed.append(case.theta), "committed")
    theta.param.update(value=2.0, committed=1)
    assert committed == [(2.0,)]

    def fail(**_):
        raise ValueError("refused")

    monkeypatch.setattr(case, "move", fail)
    with pytest.raises(ValueError, match="refused"):
        theta.value = 3.0
    assert theta.value == 2.0


@pytest.mark.parametrize("name", ["theta", "share"])
def test_the_steps_of_a_key_are_not_put_back_where_the_case_rounds_them(name):
    case = Case()
    slider = handles(case)[1] if name == "theta" else sliding(case, name, "Share")
    # As 0.1 + 0.2 is.
    stepped, put = 0.30000000000000004, []
    slider.param.watch(lambda event: put.append(event.new), "value")
    slider.value = stepped
    at = case.theta[0] if name == "theta" else case.share
    assert (at, put) == (0.3, [stepped])


def test_what_comes_late_from_another_problems_slider_moves_nothing():
    case = Case()
    controls = CaseControls(case)
    left = controls.panel.select(Slider)[0]
    case.open("gain-loss")
    controls.open()
    before = case.settings
    left.param.update(value=left.end, committed=1)
    assert case.settings == before


def test_sliders_of_counts_and_narrow_ranges_have_steps_to_fit(new):
    problem, _ = new(**SQUARE)
    problem.y = Variable("y", 1, 0.0, 10.0, "successes of ten", whole=True)
    problem.theta = Variable("theta", 1, 0.0, 0.02, "a threshold")
    assert [(each.step, each.digits) for each in handles(Case("new"))[:2]] == [(1, 0), (1e-4, 4)]
