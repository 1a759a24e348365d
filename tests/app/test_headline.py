r"""The first words hold question, answer and lesson to each problem, and how typical its y is."""

import re
from html import escape

import numpy as np
import pytest
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.numbers.known import Level, Mu
from amci_explorer.numbers.typical import DRAWS, as_extreme
from amci_explorer.problems.presets import PRESETS
from amci_explorer.state.case import Case
from amci_explorer.views.headline import HeadlineView
from amci_explorer.words.headline import answer, how_extreme, lesson, measured, question
from scipy.stats import chi2

import amci_core as amci


def shown(state, results=None):
    """What the page shows of a case: headline and lesson without markup, and more about it."""
    view = HeadlineView(state, results or Results())
    view.show()
    return *re.findall('">(.*?)</p>', re.sub("</?b.*?>", "", view.panel.object)), view.about[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tail-1d", "How likely is x &gt; 3, having seen y = 1? One in 4,915."),
        ("tail-2d", "How likely are both x above 1, given y = 0.5? One in 40."),
        ("tail-5d", "How likely are all five x above 1, given y = 0.5? One in 3,207."),
        ("tail-10d", "How likely are all ten x above 1, given y = 0.5? One in 714,000."),
        ("tail-20d", "How likely are all 20 x above 1, given y = 0.5? One in 10.8 billion."),
        ("cancer", "Will the tumour be small after 100 days? In 18 of 100 such patients."),
        ("gain-loss", "What is a position bought at 0.40 worth, having seen y = 1? 0.10."),
        ("peak", "What is the integral of a peak at (0.4, 0.6) with s = 0.85? 0.00372."),
    ],
)
def test_every_preset_has_a_question_its_answer_and_a_lesson(name, expected):
    state = Case(name)
    for preset in reversed(PRESETS[name]):
        state.visit(preset.link)
        headline, why, about = shown(state)
        assert re.fullmatch(r"[^?]+\? [^?]+\.", headline)
        # It fits on a line of the first screen.
        assert len(headline) < 78
        assert "μ = " in why
        for words in (state.problem.description, how_extreme(state.problem, state.y), preset.text):
            assert escape(words) in about.object
    assert headline == expected


@pytest.mark.parametrize(
    ("name", "mu", "log_mu", "text"),
    [
        ("tail-1d", 0.5, np.nan, "In 50 of 100 cases."),
        ("tail-1d", 0.05, np.nan, "One in 20."),
        ("tail-1d", 1.4e-6, np.nan, "One in 714,000."),
        ("tail-1d", 5.9365e-12, np.nan, "One in 168 billion."),
        ("tail-1d", 2.1e-23, np.nan, "One in 4.76 × 10²²."),
        ("tail-1d", 0.99766, np.nan, "Almost surely: all but one in 427."),
        ("tail-1d", 0.0, np.nan, "Practically never."),
        ("tail-1d", 1.0, np.nan, "Practically always."),
        # What no float holds, and what nobody knows.
        ("tail-20d", 0.0, -1000.0, "One in more than 10³⁰⁰."),
        ("tail-20d", np.nan, np.nan, ""),
        ("cancer", 0.9981, np.nan, "In all but one of 526 such patients."),
        ("cancer", 3e-5, np.nan, "In one of 33,300 such patients."),
        ("gain-loss", -2e-17, np.nan, "0."),
        ("gain-loss", -0.0131, np.nan, "−0.0131."),
    ],
)
def test_an_answer_is_one_in_so_many_or_a_value(name, mu, log_mu, text):
    assert answer(amci.problem(name), Mu(mu), log_mu) == text


@pytest.mark.parametrize(
    ("name", "f", "y", "theta", "text"),
    [
        (
            *("tail-2d", "", (0.5, -1.0), (1.0, 2.0)),
            "How likely are both x above (1, 2), given y = (0.5, −1)?",
        ),
        (
            *("tail-5d", "", (0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 1.0, 1.0, 1.0, 2.0)),
            "How likely are all five x above θ, given y?",
        ),
        (
            *("tail-1d", "x1 > theta1", (1.0,), (3.0,)),
            "How likely is x1 > theta1, given y = 1, at θ = 3?",
        ),
        (
            *("tail-1d", "exp(x1) * (x1 > theta1) + 0.5 * x1**2", (1.0,), (3.0,)),
            "What is the mean of this f, given y = 1, at θ = 3?",
        ),
    ],
)
def test_vectors_and_another_f_are_written_out_if_short_and_named_if_long(name, f, y, theta, text):
    state = Case(name)
    state.open(name, f=f)
    assert question(state.problem, y, theta) == text


def test_another_f_is_answered_by_its_reference_value_and_proposals_are_said_to_be_untrained():
    state, results = Case("tail-1d"), Results()
    state.open("tail-1d", f="x1**2 + theta1")
    state.move(y=1.0, theta=0.5)
    headline, why, _ = shown(state, results)
    asked = "What is the mean of x1**2 + theta1, given y = 1, at θ = 0.5?"
    assert headline == f"{asked} Measuring …"
    assert "No proposal is trained for this f: AMCI draws from" in why
    request = Request("summary", state.settings)
    summary = request.result([request.part(0)[1]])
    results.all["summary"] = Result(request, summary, 1.0, complete=True)
    # Under N(1 / 2, 1 / 2) it is 1 / 4 + 1 / 2 + 1 / 2.
    assert shown(state, results)[0] == f"{asked} 1.25."


def test_the_lesson_is_that_of_the_case():
    def of(name, level, proposals=("q2",), draws=64):
        text = lesson(amci.problem(name), Level(level, 0.0), draws, proposals)
        return re.sub("<[^>]*>", "", text)

    # Of 4,915 posterior draws one gets there; of 40 one.
    assert of("tail-1d", 8.5) == (
        "Draws that match the posterior hardly ever get there; draws that get there miss most of "
        "the posterior. AMCI uses one proposal for each integral: μ = E₁ / E₂."
    )
    assert "never get there" in of("tail-20d", 23)
    assert "only sometimes get there" in of("tail-2d", 3.7)
    assert "only sometimes get there; draws that get there are poor for p(y)" in of("cancer", 0.8)
    assert "there is less to gain" in of("tail-2d", 0.04)
    assert "AMCI draws that too, from q₁ᶜ" in of("tail-1d", 0.02, ("q2", "q1_complement"))
    assert of("gain-loss", 0.3) == (
        "Gains, losses and p(y) need different draws. "
        "AMCI uses one proposal for each integral: μ = (E₁⁺ − E₁⁻) / E₂."
    )
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


@pytest.mark.parametrize("y", [[0.0], [1.0], [-2.0], [3.0], [1.5, -2.0, 0.5, 1.0, -1.0]])
def test_as_many_observations_are_as_extreme_as_the_law_of_the_distance_has_it(y):
    # y ~ N(0, 2 I), in five dimensions but for correlations, which hardly matter at this one.
    expected = chi2.sf(np.square(y).sum() / 2, len(y))
    found = as_extreme(amci.problem(f"tail-{len(y)}d"), y) / DRAWS
    assert found == pytest.approx(expected, abs=5 * np.sqrt(expected / DRAWS) + 0.02)


@pytest.mark.parametrize(
    ("name", "y", "text"),
    [
        # 2 Phi(-3.2 / sqrt 2) = 0.0237, 2 Phi(-4 / sqrt 2) = 0.0047.
        ("tail-1d", [3.2], r"About 1 in 4\d simulated observations is as extreme\."),
        ("tail-1d", [-4.0], r"About 1 in 2[0-3]\d simulated observations is as extreme\."),
        ("tail-1d", [0.0], r"About 100 in 100 simulated observations are as extreme\."),
        ("tail-1d", [-8.0], r"None of 50,000 simulated observations is as extreme\."),
        ("peak", [], ""),
    ],
)
def test_a_sentence_says_how_extreme_an_observation_is(name, y, text):
    assert re.fullmatch(text, how_extreme(amci.problem(name), y))
