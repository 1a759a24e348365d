"""Every problem has a place to open at, and the numbers in its presets' texts are true."""

import numpy as np
import pytest
from amci_explorer.problems.presets import LABELS, PRESETS, opening, presets, variable_labels
from amci_explorer.state.case import Case

import amci_core as amci
from amci_core.models import Variable


@pytest.mark.parametrize(
    ("name", "place", "words", "mu"),
    [
        ("tail-1d", 0, "One posterior draw in 4,900 ", 1 / 4900),
        ("tail-1d", 2, "f is 1 on 99.8 % of the posterior", 0.998),
        ("tail-2d", 0, "One posterior draw in 40 ", 1 / 40),
        ("tail-2d", 1, "96 % of the posterior", 0.96),
        ("tail-5d", 0, "One posterior draw in 3,200 ", 1 / 3200),
        ("tail-5d", 2, "96 % of the posterior", 0.96),
        ("tail-5d", 3, "One part in 170 billion ", 1 / 170e9),
        ("tail-10d", 0, "One posterior draw in 714,000 ", 1 / 714_000),
        ("tail-10d", 1, "97 % of the posterior", 0.97),
        ("tail-20d", 0, "One part in eleven billion ", 1 / 11e9),
        ("tail-20d", 1, "98 % of the posterior", 0.98),
        ("cancer", 0, "success has probability 0.18", 0.18),
        ("cancer", 1, "Success has probability 0.43", 0.43),
        ("cancer", 2, "success has probability 5 in 100,000", 5e-5),
    ],
)
def test_texts_say_true_probabilities(name, place, words, mu):
    case, preset = Case(name), PRESETS[name][place]
    case.visit(preset.link)
    assert words in preset.text
    truth = float(case.problem.truth(*case.settings.pair))
    assert truth == pytest.approx(mu, rel=0.02 if mu < 0.5 else 0.005)


def test_every_problem_has_presets_and_names_for_its_controls():
    assert set(PRESETS) == set(LABELS) == set(amci.problems())
    for name in amci.problems():
        problem = amci.problem(name)
        y, theta = opening(problem)
        problem.check(y or None, theta or None)
        for variable in (problem.y, problem.theta):
            if variable is not None:
                assert len(variable_labels(problem, variable)) in (1, variable.dim)


def test_a_problem_without_presets_opens_at_a_typical_case_or_a_median(monkeypatch):
    problem = amci.problem("tail-1d")
    monkeypatch.setattr(problem, "name", "own")
    assert presets(problem) == ()
    assert opening(problem) == ((2.0,), (2.5,))
    assert variable_labels(problem, problem.y) == ("y",)
    monkeypatch.setattr(problem, "y", Variable("y", 1, -np.inf, np.inf, "an observation"))
    (y,), theta = opening(problem)
    # y has standard deviation sqrt(2), a median of 1,001 draws of it one of 0.056.
    assert abs(y) < 0.25
    assert theta == (2.5,)
