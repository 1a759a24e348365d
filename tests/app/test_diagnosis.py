"""What the Diagnostics tab shows: the weights of the core's draws, their tail, the way to mu."""

import re
from dataclasses import replace

import numpy as np
import pytest
from amci_explorer.numbers.answer import WAYS, find_answer
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.words.diagnosis import about_answer, about_terms, about_verdict
from imperfect import Normal, imperfect

import amci_core as amci

PROBLEM = amci.problem("tail-1d")
PAPER = amci.load_proposals("tail-1d", variant="paper")


def found(problem, proposals, y, theta, *, draws=64, seed=0):
    return diagnosis(CaseDraws(problem, proposals, y, theta, draws=draws, seed=seed))


@pytest.fixture(scope="module")
def broad():
    return found(PROBLEM, imperfect(), 1.0, 1.5, draws=2000)


def test_the_way_to_mu_ends_at_the_estimate_of_the_core(broad):
    given = {"draws": 4571, "seed": 0}
    expected = amci.estimate(PROBLEM, imperfect(), 1.0, 1.5, **given)
    plain = amci.estimate(PROBLEM, imperfect(), 1.0, 1.5, **given, estimator="amci")
    along = broad.along
    assert along.plain[-1] == plain.value
    ends = (along.low[-1], along.high[-1])
    assert (along.value[-1], *ends) == (expected.value, *expected.interval())
    assert (broad.level, broad.text) == (expected.verdict.level, expected.verdict.text)
    assert broad.mu.value == PROBLEM.truth(1.0, 1.5)
    # On the way the interval shrinks by about the root of the draws.
    widths = along.high - along.low
    at = int(np.searchsorted(along.draws, 200))
    assert widths[at] / widths[-1] == pytest.approx(np.sqrt(2000 / along.draws[at]), rel=0.3)


def test_weights_are_those_of_the_draws_and_the_harder_integral_has_fewer_effective(broad):
    # q2 is N(y / 2 + 0.2, 0.9^2), the posterior N(y / 2, 1 / 2).
    above, all_of_it = broad.terms
    x = all_of_it.x[:, 0]
    log_w = -np.square(x - 0.5) + np.square((x - 0.7) / 0.9) / 2
    expected = (log_w - np.log(np.mean(np.exp(log_w)))) / np.log(10)
    np.testing.assert_allclose(all_of_it.log_weights, expected, atol=1e-9)
    below = above.x[:, 0] <= 1.5
    assert np.isnan(above.log_weights[below]).all()
    assert above.core.nonzero_draws == 2000 - below.sum() < 2000
    assert above.core.smallest_ess < 0.5 * all_of_it.core.smallest_ess
    assert "E₁ is the harder integral" in about_terms(broad, signed=False)


def test_the_tail_and_its_k_hat_are_those_of_its_largest_weights():
    narrow = replace(imperfect(), q2=Normal(lambda y, theta: y / 2 + 0 * theta, scale=0.55))
    term = found(PROBLEM, narrow, 1.0, 0.0).terms[1]
    # Weights exp((1 / 0.55^2 - 2) (x - y / 2)^2 / 2) have k = 1 - 2 * 0.55^2 = 0.4.
    assert abs(term.core.pareto_k - 0.4) < 4 * term.error
    width = term.edges[1] - term.edges[0]
    expects = np.trapezoid(term.tail_heights, term.tail) / width
    # The curve ends a little past the last draw.
    assert expects == pytest.approx(3 * term.core.nonzero_draws**0.5, rel=0.1)


def test_with_exact_proposals_every_draw_counts():
    last = found(PROBLEM, amci.load_proposals("tail-1d", variant="oracle"), 1.0, 3.0)
    for term in last.terms:
        np.testing.assert_allclose(term.log_weights, 0, atol=1e-9)
        assert (term.core.pareto_k, len(term.tail)) == (-np.inf, 0)
    assert last.level == "reliable"
    said = about_terms(last, signed=False)
    assert said.count("every draw counts") == 2
    assert "not clear at this number of draws" in said


def test_a_verdict_says_why(broad):
    assert broad.level == "reliable"
    said = about_verdict(broad)
    assert said.count("<li>") == 2
    assert "draws determine its error" in said
    assert "defensive density" in said
    last = found(PROBLEM, PAPER, -4.0, 5.0)
    assert last.level == "do not trust"
    assert last.along.plain[-1] < 0.6 * PROBLEM.truth(-4.0, 5.0)


@pytest.mark.parametrize(
    ("case", "draws", "ways"),
    [((-4.0, 5.0), 10_000, WAYS), ((1.0, 3.0), 10_000, WAYS[:1]), ((1.0, 3.0), 1500, WAYS[2:])],
)
def test_an_answer_is_found_by_the_first_way_that_has_one(case, draws, ways):
    answer = find_answer(PROBLEM, PAPER, *case, relative_error=0.05, draws=draws, seed=0)
    low, high = answer.interval
    assert low < PROBLEM.truth(*case) < high
    assert answer.way in ways
    assert answer.refused == ""


def test_a_case_that_no_way_answers_says_why():
    class Nothing(type(PROBLEM)):
        def f(self, x, theta):
            return 0 * x.sum(-1)

    problem = Nothing(1)
    proposals = amci.load_proposals(problem, variant="defensive")
    limits = {"relative_error": 0.1, "draws": 1000, "seed": 0}
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
        state.set(variant="spline")
        state.commit()
        assert not card.find.visible
        assert card.answer.object == ""

    in_a_loop(body)
