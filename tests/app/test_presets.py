"""Texts at presets say true numbers, and every problem has a place to open at."""

import numpy as np
import pytest
from amci_explorer.problems.presets import LABELS, PRESETS, opening, presets, variable_labels
from amci_explorer.state.case import Case

import amci_core as amci
from amci_core.models import Variable


def truths(name):
    """mu at every preset of a problem, by the preset's name."""
    case, found = Case(name), {}
    for preset in PRESETS[name]:
        case.visit(preset.link)
        found[preset.name] = float(case.problem.truth(*case.settings.pair))
    return found


def test_cancers_presets_say_true_numbers():
    expected = {"a typical patient": 0.18, "an open question": 0.43, "a rare success": 4.9e-5}
    found = truths("cancer")
    assert {n: found[n] for n in expected} == pytest.approx(expected, rel=0.02)
    assert amci.problem("cancer").mismatch((550.0, 350.0)) == pytest.approx(0.8, abs=0.05)


def test_the_presets_of_five_dimensions_say_true_numbers():
    rare, _, common, failure, _ = truths("tail-5d").values()
    assert 1 / rare == pytest.approx(3200, rel=0.01)
    assert common == pytest.approx(0.96, abs=0.005)
    assert 1 / failure == pytest.approx(170e9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "one_in", "small"),
    [("tail-2d", 40, 0.96), ("tail-10d", 714_000, 0.97), ("tail-20d", 11e9, 0.98)],
)
def test_the_presets_of_other_numbers_of_dimensions_say_true_numbers(name, one_in, small):
    rare, common = truths(name).values()
    assert 1 / rare == pytest.approx(one_in, rel=0.02)
    assert common == pytest.approx(small, abs=0.005)
    assert PRESETS[name][0].text.endswith("1,000 draws keep the error below 1 %.")
    curves = amci.error_curves(
        name, None, *opening(amci.problem(name)), draws=[1000], runs=30, estimators=["amci-cv"]
    )
    assert curves["amci-cv"].remse + 4 * curves["amci-cv"].remse_error < 0.01**2


def test_every_problem_has_presets_and_names_for_its_controls():
    assert set(PRESETS) == set(LABELS) == set(amci.problems())
    for name in amci.problems():
        problem = amci.problem(name)
        y, theta = opening(problem)
        problem.check(y or None, theta or None)
        for variable in (problem.y, problem.theta):
            if variable is not None:
                assert len(variable_labels(problem, variable)) in (1, variable.dim)


def test_a_problem_without_presets_opens_at_a_typical_case(monkeypatch):
    monkeypatch.setattr(amci.problem("tail-1d"), "name", "own")
    problem = amci.problem("tail-1d")
    assert presets(problem) == ()
    assert opening(problem) == ((2.0,), (2.5,))
    assert variable_labels(problem, problem.y) == ("y",)


def test_if_a_range_has_no_end_the_typical_case_is_the_median(monkeypatch):
    problem = amci.problem("tail-1d")
    monkeypatch.setattr(problem, "y", Variable("y", 1, -np.inf, np.inf, "an observation"))
    y, theta = problem.typical_case()
    # y has standard deviation sqrt(2), a median of 1,001 draws of it one of 0.056.
    assert abs(y[0]) < 0.25
    assert theta == 2.5
