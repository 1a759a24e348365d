"""Terms of every problem by every method against the truth, and mu made of them."""

import math

import numpy as np
import pytest
import torch

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.terms import Annealed, Importance, Nested, TermEstimate

# Smaller than the ones that have names, for speed.
ANNEALED = Annealed(chains=300, pilot=200)
NESTED = Nested(live=100, pilot=200)
IMPORTANCE = Importance(size=2000)
ORACLE = amci.load_proposals("tail-1d", variant="oracle")


def cases(name, n):
    """Single pairs y, theta, each None where the problem has none."""
    y, theta = amci.problem(name).cases(n, seed=1)
    return [(None if y is None else y[i], None if theta is None else theta[i]) for i in range(n)]


def assert_terms_agree(name, how, *, n, proposals=None):
    problem = amci.problem(name)
    for i, at in enumerate(cases(name, n)):
        truth = problem.log_terms(*at)
        found = amci.estimate_terms(
            problem, *at, methods=dict.fromkeys(truth, how), proposals=proposals, seed=i
        )
        assert set(found.terms) == set(truth)
        for term, estimate in found.terms.items():
            error = abs(estimate.log_value - float(truth[term]))
            assert error < 4 * estimate.standard_error + 1e-9, (i, term)
            assert estimate.standard_error < 0.5
        mu_error = abs(found.value - float(problem.truth(*at)))
        assert mu_error < 4 * found.standard_error + 1e-9
        assert found.draws == sum(term.draws for term in found.terms.values())


@pytest.mark.parametrize("how", [IMPORTANCE, ANNEALED, NESTED], ids=lambda how: type(how).__name__)
@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "gain-loss", "peak"])
def test_every_term_without_proposals(name, how):
    assert_terms_agree(name, how, n=2 if how is NESTED else 5)


@pytest.mark.parametrize(
    "how",
    [IMPORTANCE, Annealed(chains=150, pilot=50, retained=0.85), Nested(live=60, pilot=100)],
    ids=lambda how: type(how).__name__,
)
def test_terms_of_a_tumour_without_proposals(how):
    assert_terms_agree("cancer", how, n=1)


@pytest.mark.parametrize("how", [IMPORTANCE, ANNEALED], ids=lambda how: type(how).__name__)
@pytest.mark.parametrize("name", ["tail-1d", "tail-5d", "gain-loss", "peak"])
def test_every_term_from_learnt_proposals(name, how):
    assert_terms_agree(name, how, n=3, proposals=amci.load_proposals(name))


def test_a_tail_of_1e_21():
    problem = amci.problem("tail-1d")
    at = (-4.0, 4.7)
    truth = float(problem.log_truth(*at))
    assert truth == pytest.approx(math.log(1e-21), abs=1)
    for how in (ANNEALED, NESTED):
        found = amci.estimate_terms(problem, *at, methods={"E1_plus": how, "E2": ANNEALED})
        error = abs(math.log(found.value) - truth)
        assert error < 4 * found.standard_error / found.value < 0.6


def test_where_a_learnt_proposal_misses_most_of_a_term_other_methods_reach_it():
    # The preset "far from training": draws of q1 stay near theta, with weights that look fine.
    problem, at = amci.problem("tail-1d"), (-4.0, 5.0)
    proposals = amci.load_proposals("tail-1d", variant="paper")
    log_E1 = float(problem.log_terms(*at)["E1_plus"])

    def found(how):
        return amci.estimate_terms(
            problem, *at, methods={"E1_plus": how}, proposals=proposals
        ).terms["E1_plus"]

    assert found("importance").log_value < log_E1 - 20 * found("importance").standard_error
    assert abs(found("annealed").log_value - log_E1) < 0.25
    assert abs(found(NESTED).log_value - log_E1) < 4 * found(NESTED).standard_error


@pytest.mark.parametrize("how", ["importance", "annealed"])
def test_theorem_1_exact_proposals_leave_no_error(how):
    problem = amci.problem("tail-1d")
    for y, theta in ((1.0, 3.0), (-4.0, 4.5), (3.0, 0.1)):
        found = amci.estimate_terms(problem, y, theta, methods=how, proposals=ORACLE)
        assert found.value == pytest.approx(float(problem.truth(y, theta)), rel=1e-12)
        assert found.standard_error < 1e-12 * found.value


def test_methods_are_mixed_and_a_terms_draws_are_its_own():
    problem = amci.problem("gain-loss")
    both = {"E1_plus": IMPORTANCE, "E1_minus": NESTED}
    mixed = amci.estimate_terms(problem, 1.0, 0.4, methods={**both, "E2": "importance"}, seed=5)
    other = amci.estimate_terms(problem, 1.0, 0.4, methods=both, seed=5)
    assert mixed.terms["E1_plus"] == other.terms["E1_plus"]
    assert mixed.terms["E1_minus"] == other.terms["E1_minus"]
    assert mixed.terms["E2"].draws == 1000
    assert other.terms["E2"].draws > 1000
    assert mixed.terms["E1_plus"] != mixed.terms["E2"]


def test_a_normaliser_that_is_known_costs_nothing_unless_it_is_asked_for():
    problem, theta = amci.problem("peak"), (0.3, 0.5, 0.9)
    found = amci.estimate_terms(problem, theta=theta, methods="annealed")
    assert found.terms["E2"] == TermEstimate(0.0, 0.0, 0)
    asked = amci.estimate_terms(problem, theta=theta, methods={"E2": NESTED})
    assert asked.terms["E2"].draws > 0
    assert abs(asked.terms["E2"].log_value) < 4 * asked.terms["E2"].standard_error


def test_a_proposal_that_is_missing_leaves_the_problems_own_density():
    problem = amci.problem("tail-1d")
    only_q1 = Proposals("tail-1d", "mine", ORACLE.q1_plus, None, None)
    found = amci.estimate_terms(problem, 1.0, 3.0, proposals=only_q1)
    assert found.terms["E1_plus"].standard_error < 1e-12
    assert found.terms["E2"].standard_error > 1e-3


def test_the_standard_error_is_the_spread_of_estimates_from_ones_own_methods():
    truth = {"E1_plus": 1.5, "E1_minus": 0.5, "E2": 2.0}
    spread = {"E1_plus": 0.03, "E1_minus": 0.04, "E2": 0.02}

    def noisy(term):
        def estimate(integrand, start, *, seed):
            noise = spread[term] * np.random.default_rng(seed).standard_normal()
            return math.log(truth[term] * (1 + noise)), spread[term], 10

        return estimate

    methods = {term: noisy(term) for term in truth}
    problem = amci.problem("gain-loss")
    runs = [
        amci.estimate_terms(problem, 1.0, 0.4, methods=methods, seed=seed) for seed in range(3000)
    ]
    values = np.array([run.value for run in runs])
    expected = math.sqrt((1.5 * 0.03) ** 2 + (0.5 * 0.04) ** 2 + (1.0 * 0.02) ** 2) / 2
    assert np.mean([run.standard_error for run in runs]) == pytest.approx(expected, rel=0.01)
    # A standard deviation of 3000 runs is known to 1.3 %.
    assert values.std() == pytest.approx(expected, rel=0.06)
    assert values.mean() == pytest.approx(0.5, abs=4 * expected / math.sqrt(3000))
    assert runs[0].draws == 30


def test_terms_that_came_out_zero_are_not_passed_off_as_known():
    def nothing(integrand, start, *, seed):
        return -math.inf, math.nan, 10

    problem = amci.problem("tail-1d")
    found = amci.estimate_terms(problem, 1.0, 3.0, methods={"E1_plus": nothing})
    assert found.value == 0
    assert math.isnan(found.standard_error)
    found = amci.estimate_terms(problem, 1.0, 3.0, methods={"E2": nothing})
    assert math.isnan(found.value)
    assert math.isnan(found.standard_error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "anneal"}, "one of importance, annealed, nested, got 'anneal'"),
        ({"methods": {"E2": "anneal"}}, "one of importance, annealed, nested, got 'anneal'"),
        ({"methods": {"E1_minus": "nested"}}, "terms among E1_plus, E2 for tail-1d"),
        ({"methods": {"E3": "nested"}}, "terms among E1_plus, E2 for tail-1d, got 'E3'"),
        ({"proposals": amci.load_proposals("peak")}, "ones for tail-1d, got ones for peak"),
        ({"seed": -1}, "seed: expected a whole number"),
        ({"y": [[1.0], [2.0]]}, r"y: expected a single one, got batch \(2,\)"),
        ({"theta": 7.0}, "theta: expected"),
        ({"methods": lambda *a, seed: (math.nan, 0.1, 1)}, "E1_plus: expected a log value"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        amci.estimate_terms(amci.problem("tail-1d"), **{"y": 1.0, "theta": 3.0, **arguments})


def test_global_state_is_left_alone():
    before = torch.random.get_rng_state()
    amci.estimate_terms(amci.problem("tail-1d"), 1.0, 3.0)
    assert torch.equal(torch.random.get_rng_state(), before)
