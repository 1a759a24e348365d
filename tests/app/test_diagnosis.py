"""What the Diagnostics tab shows: the weights of the core's draws, their tail, the way to mu."""

import re
from dataclasses import replace

import numpy as np
import pytest
from amci_explorer.numbers.answer import WAYS, find_answer
from amci_explorer.numbers.case import LEAST_DIAGNOSED
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.problems.presets import opening
from amci_explorer.words.diagnosis import about_answer, about_verdict
from imperfect import Normal, imperfect

import amci_core as amci

PROBLEM = amci.problem("tail-1d")
TERMS = {
    "tail-1d": ["E1_plus", "E2"],
    "tail-5d": ["E1_plus", "E2"],
    "cancer": ["E1_plus", "E2"],
    "gain-loss": ["E1_plus", "E1_minus", "E2"],
    "peak": ["E1_plus"],
}


def found(problem, proposals, y, theta, *, draws=64, seed=0):
    y, theta = problem.check(y, theta)
    return diagnosis(problem, proposals, y=y, theta=theta, draws=draws, seed=seed)


@pytest.fixture(scope="module")
def broad():
    return found(PROBLEM, imperfect(), 1.0, 1.5, draws=2000)


@pytest.mark.parametrize("name", TERMS)
def test_every_term_that_is_drawn_for_is_there(name):
    problem = amci.problem(name)
    y, theta = opening(problem)
    last = found(problem, amci.load_proposals(name), y or None, theta or None)
    assert [term.name for term in last.terms] == TERMS[name]
    for term in last.terms:
        assert term.x.shape == (LEAST_DIAGNOSED, problem.x.dim)
        assert 0 < term.heights.sum() <= term.nonzero
    assert last.along.draws[-1] == last.draws == LEAST_DIAGNOSED


def test_the_way_to_mu_ends_at_the_estimate_of_the_core(broad):
    given = {"draws": 4571, "seed": 0}
    expected = amci.estimate(PROBLEM, imperfect(), 1.0, 1.5, **given, estimator="amci")
    low, high = expected.interval()
    along = broad.along
    control = amci.estimate(PROBLEM, imperfect(), 1.0, 1.5, **given)
    assert along.control[-1] == broad.answers[0].value == control.value
    assert (along.value[-1], along.low[-1], along.high[-1]) == (expected.value, low, high)
    assert (broad.level, broad.text) == (expected.verdict.level, expected.verdict.text)
    assert broad.mu.value == PROBLEM.truth(1.0, 1.5)
    # On the way the interval shrinks by about the root of the draws.
    widths = along.high - along.low
    at = int(np.searchsorted(along.draws, 200))
    assert widths[at] / widths[-1] == pytest.approx(np.sqrt(2000 / along.draws[at]), rel=0.3)


def test_weights_are_those_of_the_draws_shown_beside_them(broad):
    # q2 is N(y / 2 + 0.2, 0.9^2), the posterior N(y / 2, 1 / 2).
    term = broad.terms[1]
    x = term.x[:, 0]
    log_w = -np.square(x - 0.5) + np.square((x - 0.7) / 0.9) / 2
    expected = (log_w - np.log(np.mean(np.exp(log_w)))) / np.log(10)
    np.testing.assert_allclose(term.log_weights, expected, atol=1e-9)


def test_the_fitted_tail_expects_the_draws_that_it_was_fitted_to():
    narrow = replace(imperfect(), q2=Normal(lambda y, theta: y / 2 + 0 * theta, scale=0.55))
    term = found(PROBLEM, narrow, 1.0, 0.0).terms[1]
    # Weights exp((1 / 0.55^2 - 2) (x - y / 2)^2 / 2) have k = 1 - 2 * 0.55^2 = 0.4.
    assert abs(term.k - 0.4) < 4 * term.error
    width = term.edges[1] - term.edges[0]
    expects = np.trapezoid(term.tail_heights, term.tail) / width
    # The curve ends a little past the last draw.
    assert expects == pytest.approx(3 * term.nonzero**0.5, rel=0.1)


def test_draws_that_bring_nothing_are_left_out_of_pictures(broad):
    below = broad.terms[0].x[:, 0] <= 1.5
    assert below.any()
    assert np.isnan(broad.terms[0].log_weights[below]).all()
    assert broad.terms[0].nonzero == 2000 - below.sum()


def test_exact_proposals_have_weights_without_a_tail():
    oracle = amci.load_proposals("tail-1d", variant="oracle")
    last = found(PROBLEM, oracle, 1.0, 3.0)
    for term in last.terms:
        np.testing.assert_allclose(term.log_weights, 0, atol=1e-9)
        assert term.k == -np.inf
        assert len(term.tail) == 0
        assert (term.heights > 0).sum() <= 2
    assert last.level == "reliable"


def test_a_reliable_estimate_answers_three_questions(broad):
    assert broad.level == "reliable"
    assert len(broad.answers) == 1
    said = about_verdict(broad)
    assert said.count("<li>") == 3
    for words in ("draws determine its error", "All draws together", "defensive density"):
        assert words in said


def test_where_draws_contradict_amci_the_page_says_what_answers():
    paper = amci.load_proposals("tail-1d", variant="paper")
    last = found(PROBLEM, paper, -4.0, 5.0)
    assert last.level == "do not trust"
    truth = float(PROBLEM.truth(-4.0, 5.0))
    same, more, defensive = last.answers
    assert same.level != "reliable"
    assert last.estimate < 0.6 * truth
    for answer in (more, defensive):
        assert answer.level == "reliable"
        assert abs(answer.value - truth) < 3 * answer.error < 0.3 * truth
    said = about_verdict(last)
    first, _, step = said.partition("Next step")
    assert "; its standard error is not judged: use more draws." in first
    assert "not judged" not in step
    assert more.draws in step
    assert defensive.draws in step
    assert "All draws together disagree" in said


def test_each_way_to_an_answer_is_tried_until_one_is_reliable():
    paper = amci.load_proposals("tail-1d", variant="paper")
    for draws, way in ((10_000, WAYS[0]), (1500, WAYS[2])):
        limits = {"relative_error": 0.05, "draws": draws, "seed": 0}
        answer = find_answer(PROBLEM, paper, 1.0, 3.0, **limits)
        low, high = answer.interval
        assert low < PROBLEM.truth(1.0, 3.0) < high
        assert (answer.way, answer.refused) == (way, "")


def test_a_case_that_no_way_answers_says_why():
    class Nothing(type(PROBLEM)):
        def f(self, x, theta):
            return 0 * x.sum(-1)

    limits = {"relative_error": 0.1, "draws": 1000, "seed": 0}
    problem = Nothing(1)
    proposals = amci.load_proposals(problem, variant="defensive")
    answer = find_answer(problem, proposals, 1.0, 3.0, **limits)
    assert answer.refused.startswith("the reference value fails: ")
    assert "No answer after" in about_answer(answer, 1.0)


def test_a_verdict_leads_to_an_answer(in_a_loop):
    def body(turned):
        turned.does = True
        state = turned.explorer.state
        state.set(card="diagnostics", variant="paper")
        state.commit()
        card = turned.explorer.tabs.card
        assert card.find.visible
        card.find.clicks += 1
        said = re.sub("<[^>]*>", "", card.answer.object)
        value = float(re.match(r"μ = (\S+) × 10⁻⁴, 95 % interval", said).group(1))
        assert abs(value * 1e-4 / PROBLEM.truth(1.0, 3.0) - 1) < 0.03
        assert "draws and evaluations of p(x, y) in" in said
        state.set(variant="spline")
        state.commit()
        assert not card.find.visible
        assert card.answer.object == ""

    in_a_loop(body)
