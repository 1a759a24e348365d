r"""The first words hold question, answer and lesson to each problem, by another route to mu."""

import re

import numpy as np
import pytest
import torch
from amci_explorer.compute.computations import computations_of
from amci_explorer.compute.results import Result, Results
from amci_explorer.numbers.known import Level, Mu
from amci_explorer.problems.presets import PRESETS
from amci_explorer.state.case import Case
from amci_explorer.views.headline import HeadlineView
from amci_explorer.words.headline import answer, lesson, measured, question
from scipy.stats import norm

import amci_core as amci

SCALES = {"": 1, "million": 1e6, "billion": 1e9, "trillion": 1e12}
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
NUMBER = r"−?[\d,.]*\d(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"


def read(text):
    """The number in a text."""
    mantissa, _, power = text.replace(",", "").replace("−", "-").partition(" × 10")
    return float(mantissa) * 10.0 ** int(power.translate(RAISED) or 0)


def said(text):
    """mu as an answer says it."""
    if found := re.fullmatch(r"In (\d+) of 100 (cases|such patients)\.", text):
        return int(found[1]) / 100
    count = rf"one (?:in|of) ({NUMBER}) ?(|million|billion|trillion)(?: such patients)?\.$"
    if found := re.search(count, text, re.IGNORECASE):
        share = 1 / (read(found[1]) * SCALES[found[2]])
        return 1 - share if "all but" in text else share
    return read(re.fullmatch(rf"({NUMBER})\.", text)[1])


def above(y, theta, draws=100_000):
    """P(x > theta | y) by sequential draws of a truncated Gaussian (GHK), as the paper has it."""
    D = len(y)
    A = np.tril(np.linspace(0.20, 0.25, D * D).reshape(D, D)).T
    prior = A @ A.T + np.eye(D) if D > 1 else np.eye(1)
    P = np.linalg.inv(np.linalg.inv(prior) + np.eye(D))
    mean, L = P @ y, np.linalg.cholesky(P)
    z, log_p = np.zeros((draws, D)), np.zeros(draws)
    u = np.random.default_rng(0).uniform(size=(draws, D))
    for i in range(D):
        low = (theta[i] - mean[i] - z[:, :i] @ L[i, :i]) / L[i, i]
        log_p += norm.logsf(low)
        z[:, i] = norm.isf(u[:, i] * norm.sf(low))
    return np.exp(log_p).mean()


def by_another_route(problem, y, theta):
    if problem.name.startswith("tail"):
        return above(np.array(y), np.array(theta))
    if problem.name == "gain-loss":
        # The posterior is N(y / 2, 1 / 2).
        return y[0] / 2 - theta[0]
    if problem.name == "peak":
        a = 100 ** theta[2]
        u = np.array(theta[:2])
        return np.prod((np.arctan(a * (1 - u)) + np.arctan(a * u)) / a)
    # The trapezoidal rule: everything vanishes at the ends.
    axes = torch.linspace(10, 1800, 300).double(), torch.linspace(0.001, 0.999, 300).double()
    x = torch.cartesian_prod(*axes)
    w = problem.log_joint(x, torch.tensor(y).double()).softmax(0)
    return float(w @ problem.f(x, None))


@pytest.mark.parametrize(
    ("name", "preset"),
    [(name, preset) for name, presets in PRESETS.items() for preset in presets],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_every_preset_has_a_question_its_answer_and_a_lesson(name, preset):
    state = Case(name)
    state.visit(preset.link)
    view = HeadlineView(state, Results())
    view.show()
    asked = question(state.problem, state.y, state.theta)
    text = re.sub("<[^>]*>", "", re.search('status">(.*?)</p>', view.panel.object)[1])
    answered = text.rpartition("? ")[2]
    expected = by_another_route(state.problem, state.y, state.theta)
    assert said(answered) == pytest.approx(expected, rel=0.02)
    if said(answered) > 0.5:
        assert 1 - said(answered) == pytest.approx(1 - expected, rel=0.3)
    assert asked.endswith("?")
    # It fits on a line of the first screen.
    assert len(f"{asked} {answered}") < 75
    assert "μ = " in view.panel.object


def test_the_examples_of_the_questions():
    shown = {}
    for name in PRESETS:
        view = HeadlineView(Case(name), Results())
        view.show()
        shown[name] = view.panel.object
    assert "How likely is x &gt; 3, having seen y = 1? One in 4,915." in shown["tail-1d"]
    assert "small after 100 days? In 18 of 100 such patients." in shown["cancer"]
    assert "bought at 0.40 worth, having seen y = 1? 0.10." in shown["gain-loss"]


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.5, "In 50 of 100 cases."),
        (0.05, "One in 20."),
        (1.4e-6, "One in 714,000."),
        (5.9365e-12, "One in 168 billion."),
        (2.1e-23, "One in 4.76 × 10²²."),
        (0.99766, "Almost surely: all but one in 427."),
        (0.0, "Practically never."),
        (1.0, "Practically always."),
    ],
)
def test_a_probability_is_one_in_so_many(p, text):
    assert answer(amci.problem("tail-1d"), Mu(p)) == text


def test_what_no_float_holds_and_what_nobody_knows():
    problem = amci.problem("tail-20d")
    assert answer(problem, Mu(0.0), -1000.0) == "One in more than 10³⁰⁰."
    assert answer(problem, Mu()) == ""
    assert answer(amci.problem("gain-loss"), Mu(-2e-17)) == "0."
    assert answer(amci.problem("gain-loss"), Mu(-0.0131)) == "−0.0131."
    assert answer(amci.problem("cancer"), Mu(0.9981)) == "In all but one of 526 such patients."


def test_vectors_are_written_out_if_short_and_named_if_long():
    plane, five = amci.problem("tail-2d"), amci.problem("tail-5d")
    asked = question(plane, (0.5, -1.0), (1.0, 2.0))
    assert asked == "How likely are both x above (1, 2), given y = (0.5, −1)?"
    asked = question(five, (0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0, 2.0))
    assert asked == "How likely are all five x above θ, given y?"


def test_another_f_stands_in_the_question_and_its_reference_value_is_the_answer():
    state = Case("tail-1d")
    state.open("tail-1d", f="x1**2 + theta1")
    state.move(y=1.0, theta=0.5)
    results = Results()
    view = HeadlineView(state, results)
    view.show()
    assert "What is the mean of x1**2 + theta1, given y = 1, at θ = 0.5? Measuring …" in (
        view.panel.object
    )
    summary = computations_of(state.problem.name).summary(state.settings).run()

    class Asked:
        settings = state.settings

    results.all["summary"] = Result(Asked, summary, 1.0, complete=True)
    view.show()
    # Under N(1 / 2, 1 / 2) it is 1 / 4 + 1 / 2 + 1 / 2.
    assert "at θ = 0.5? 1.25." in view.panel.object
    state.open("tail-1d", f="x1 > theta1")
    assert (
        question(state.problem, (1.0,), (3.0,))
        == "How likely is x1 > theta1, given y = 1, at θ = 3?"
    )


def test_a_long_f_is_named_and_untrained_proposals_are_said_to_be():
    state = Case("tail-1d")
    state.open("tail-1d", f="exp(x1) * (x1 > theta1) + 0.5 * x1**2")
    asked = question(state.problem, (1.0,), (3.0,))
    assert asked == "What is the mean of this f, given y = 1, at θ = 3?"
    view = HeadlineView(state, Results())
    view.show()
    assert "No proposal is trained for this f: AMCI draws from" in view.panel.object


def test_the_lesson_is_that_of_the_case():
    def of(name, level, proposals=("q2",), draws=64):
        text = lesson(amci.problem(name), Level(level, 0.0), draws, proposals)
        return re.sub("<[^>]*>", "", text)

    each = "AMCI uses one proposal for each integral"
    # Of 4,915 posterior draws one gets there; of 40 one.
    assert of("tail-1d", 8.5) == (
        "Draws that match the posterior hardly ever get there; draws that get there miss most of "
        "the posterior. "
        f"{each}: μ = E₁ / E₂."
    )
    assert "never get there" in of("tail-20d", 23)
    assert "only sometimes get there" in of("tail-2d", 3.7)
    assert "only sometimes get there; draws that get there are poor for p(y)" in of("cancer", 0.8)
    assert "there is less to gain" in of("tail-2d", 0.04)
    assert "AMCI draws that too, from q₁ᶜ" in of("tail-1d", 0.02, ("q2", "q1_complement"))
    assert of("gain-loss", 0.3).startswith("Gains, losses and p(y) need different draws.")
    assert of("gain-loss", 0.3).endswith("μ = (E₁⁺ − E₁⁻) / E₂.")
    assert of("peak", 4.4, ()) == (
        "Draws that match the prior only sometimes get there. "
        "AMCI uses one proposal, for the one unknown integral: μ = E₁."
    )


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((2.034e-4, 2.0327e-4, 2.0353e-4), "(2.0340 ± 0.0013) × 10⁻⁴"),
        ((0.18028, 0.17996, 0.1806), "0.18028 ± 0.00032"),
        ((-2.5, -2.6, -2.4), "−2.50 ± 0.10"),
        ((12347.0, 12247.0, 12447.0), "(1.235 ± 0.010) × 10⁴"),
        ((0.0, -0.5, 0.5), "0.00 ± 0.50"),
        ((0.2, 0.17, 0.24), "0.2, between 0.17 and 0.24"),
        ((0.25, 0.25, 0.25), "0.25, exact up to rounding"),
    ],
)
def test_an_estimate_stands_with_two_digits_of_its_interval(ends, text):
    assert measured(*ends)[0] == text


def test_the_problem_at_length_says_how_extreme_the_observation_is():
    state = Case("tail-1d")
    state.move(y=-4.0)
    view = HeadlineView(state, Results())
    view.show()
    about = view.about[0].object
    assert state.problem.description in about
    # 2 Phi(-4 / sqrt 2) = 0.0047.
    assert re.search(r"About 1 in 2[0-3]\d simulated observations is as extreme\.", about)
