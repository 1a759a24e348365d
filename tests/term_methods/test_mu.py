"""Terms of every problem by every method against the truth, and mu made of them."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from imperfect import Normal

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.term_methods import Annealed, Importance, Nested, TermEstimate

# Smaller than the ones that have names, for speed.
ANNEALED = Annealed(chains=300, pilot=200)
NESTED = Nested(live=60, pilot=100, batch=32)
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
    [IMPORTANCE, Annealed(chains=150, pilot=50, retained=0.85), NESTED],
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
    for how in (ANNEALED, Nested(live=100, pilot=200)):
        found = amci.estimate_terms(problem, *at, methods={"E1_plus": how, "E2": ANNEALED})
        error = abs(math.log(found.value) - truth)
        assert error < 4 * found.standard_error / found.value < 0.6


def test_where_a_learnt_proposal_misses_most_of_a_term_other_methods_reach_it():
    # The preset "far from training": draws of q1 stay near theta, with weights that look fine.
    problem, at = amci.problem("tail-1d"), (-4.0, 5.0)
    proposals = amci.load_proposals("tail-1d", variant="paper")
    log_E1 = float(problem.log_terms(*at)["E1_plus"])

    sampled, annealed, nested = (
        amci.estimate_terms(
            problem, *at, methods={"E1_plus": how, "E2": "importance"}, proposals=proposals
        ).terms["E1_plus"]
        for how in ("importance", "annealed", NESTED)
    )
    assert sampled.log_value < log_E1 - 20 * sampled.standard_error
    assert abs(annealed.log_value - log_E1) < 0.25
    assert abs(nested.log_value - log_E1) < 4 * nested.standard_error


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


def known(truth, spread):
    """Methods that give these values, and these relative standard errors."""

    def of(term):
        return lambda integrand, start, *, seed: (math.log(truth[term]), spread[term], 10)

    return {term: of(term) for term in truth}


@pytest.mark.parametrize("shift", [0.0, 0.7, -2.0])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_fiellers_interval_of_independent_terms_ends_z_deviations_away(shift, level):
    truth = {"E1_plus": 1.5, "E1_minus": 0.5, "E2": 2.0}
    spread = {"E1_plus": 0.3, "E1_minus": 0.2, "E2": 0.1}
    found = amci.estimate_terms(
        amci.problem("gain-loss"), 1.0, 0.4, methods=known(truth, spread), shift=shift
    )
    assert found.value == pytest.approx(0.5 + shift)
    variance = (1.5 * 0.3) ** 2 + (0.5 * 0.2) ** 2
    z = NormalDist().inv_cdf((1 + level) / 2)
    ends = found.interval(level)
    for end in ends:
        ratio = end - shift
        deviation = math.sqrt(variance + (ratio * 2.0 * 0.1) ** 2)
        assert abs(1.0 - ratio * 2.0) == pytest.approx(z * deviation)
    assert ends[0] < found.value < ends[1]


def test_the_interval_is_on_the_log_scale_where_mu_is_known_to_be_positive():
    terms = {"E1_plus": 1e-9, "E2": 2.0}, {"E1_plus": 0.6, "E2": 0.8}
    problem = amci.problem("tail-1d")
    found = amci.estimate_terms(problem, 1.0, 3.0, methods=known(*terms))
    z = NormalDist().inv_cdf(0.95)
    for end, sign in zip(found.interval(0.9), (-1, 1), strict=True):
        # Variances of independent logarithms add: 0.6^2 + 0.8^2 = 1.
        assert math.log(end / 5e-10) == pytest.approx(sign * z)
    # With a shift mu is a difference, and here E2 is not told from zero.
    found = amci.estimate_terms(problem, 1.0, 3.0, methods=known(*terms), shift=-1.0)
    assert found.interval(0.9) == (-math.inf, math.inf)


def test_there_is_no_interval_where_a_term_says_nothing_of_its_error():
    unknown = known({"E1_plus": 0.1, "E2": 1.0}, {"E1_plus": math.nan, "E2": 0.1})
    found = amci.estimate_terms(amci.problem("tail-1d"), 1.0, 3.0, methods=unknown)
    assert all(map(math.isnan, found.interval()))
    with pytest.raises(ValueError, match="level: expected a number between 0 and 1, got 95"):
        found.interval(95)


@pytest.mark.parametrize(
    ("name", "at", "shift", "learnt"),
    [
        ("tail-1d", (1.0, 1.5), 0.0, False),
        ("tail-1d", (3.0, 0.1), 0.5, False),
        ("tail-1d", (1.0, 1.5), -1.0, True),
        ("gain-loss", (1.0, 0.4), 0.3, True),
        ("gain-loss", (-1.0, 2.0), -1.0, False),
    ],
)
def test_intervals_keep_their_level_at_any_shift(name, at, shift, learnt):
    problem, n = amci.problem(name), 600
    truth = float(problem.truth(*at))
    proposals = amci.load_proposals(name) if learnt else None
    found = [
        amci.estimate_terms(
            problem,
            *at,
            methods=Importance(size=500),
            proposals=proposals,
            shift=shift,
            seed=seed,
        ).interval()
        for seed in range(n)
    ]
    covered = np.mean([low <= truth <= high for low, high in found])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / n)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_importance_sampling_of_terms_is_what_amci_is(shift):
    problem, at = amci.problem("gain-loss"), (1.0, 0.4)
    # All of them wide and off centre: moments of nearly exact ones depend on a few draws.
    proposals = Proposals(
        "gain-loss",
        "imperfect",
        Normal(lambda y, theta: torch.maximum(y / 2, theta) + 0.2, scale=0.8),
        Normal(lambda y, theta: torch.minimum(y / 2, theta) - 0.2, scale=0.8),
        Normal(lambda y, theta: y / 2 + 0.2 + 0 * theta, scale=0.9),
    )
    terms = amci.estimate_terms(
        problem,
        *at,
        methods=Importance(size=50_000),
        proposals=proposals,
        shift=shift,
    )
    together = amci.estimate(problem, proposals, *at, draws=50_000, shift=shift)
    assert set(terms.terms) == set(together.terms)
    error = math.hypot(terms.standard_error, float(together.standard_error))
    assert abs(terms.value - float(together.value)) < 4 * error
    # From so many draws the variance of weights is known to two per cent.
    widths = [float(high - low) for low, high in (terms.interval(), together.interval())]
    assert widths[0] == pytest.approx(widths[1], rel=0.02)
    np.testing.assert_allclose(terms.covariance, together.covariance, rtol=0.1, atol=1e-9)


@pytest.mark.parametrize("how", [IMPORTANCE, ANNEALED, NESTED], ids=lambda how: type(how).__name__)
@pytest.mark.parametrize(
    ("name", "shift"), [("tail-1d", 0.4), ("tail-1d", -0.5), ("gain-loss", 1)]
)
def test_terms_of_a_shifted_f_by_every_method(name, shift, how):
    problem, at = amci.problem(name), (1.0, 1.5)
    found = amci.estimate_terms(problem, *at, methods={"E2": how, "E1_plus": how}, shift=shift)
    error = found.value - float(problem.truth(*at))
    assert abs(error) < 4 * found.standard_error < 2
    # f - c has a negative part unless it lies above zero everywhere.
    assert ("E1_minus" in found.terms) == (shift > 0)
    truth, log_E2 = float(problem.truth(*at)), float(problem.log_terms(*at)["E2"])
    if name == "tail-1d":
        # f is 1 with probability mu, else 0.
        part = truth * (1 - shift) if shift > 0 else truth - shift
        expected = math.log(part) + log_E2
        assert abs(found.terms["E1_plus"].log_value - expected) < (
            4 * found.terms["E1_plus"].standard_error + 1e-9
        )


def test_where_f_minus_c_reaches_further_the_term_starts_where_nothing_is_missed():
    # q1 lives above theta, where f = 1 has 7 % of the posterior; f + 1 is nowhere zero.
    problem, at = amci.problem("tail-1d"), (1.0, 1.5)
    found = amci.estimate_terms(
        problem, *at, methods=IMPORTANCE, proposals=ORACLE, shift=-1.0, seed=3
    )
    assert abs(found.value - float(problem.truth(*at))) < 4 * found.standard_error
    # Where it does not, the term starts from q1, whose draws have equal weights.
    found = amci.estimate_terms(
        problem, *at, methods=IMPORTANCE, proposals=ORACLE, shift=0.5, seed=3
    )
    assert found.terms["E1_plus"].standard_error < 1e-12


def test_proposals_for_a_shift_are_asked_where_the_problem_knows_them():
    # The gain above the price theta + c is the gain above theta less c.
    problem, proposals = amci.problem("gain-loss"), amci.load_proposals("gain-loss")
    shifted = amci.estimate_terms(
        problem, 1.0, 0.4, methods=IMPORTANCE, proposals=proposals, shift=0.5
    )
    dearer = amci.estimate_terms(problem, 1.0, 0.9, methods=IMPORTANCE, proposals=proposals)
    for name, term in dearer.terms.items():
        assert shifted.terms[name].log_value == pytest.approx(term.log_value, rel=1e-9)
        assert shifted.terms[name].standard_error == pytest.approx(term.standard_error, rel=1e-6)
    assert shifted.value == pytest.approx(dearer.value + 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": "anneal"}, "one of importance, annealed, nested, got 'anneal'"),
        ({"methods": {"E2": "anneal"}}, "one of importance, annealed, nested, got 'anneal'"),
        ({"methods": {"E1_minus": "nested"}}, "terms among E1_plus, E2 for tail-1d"),
        ({"methods": {"E3": "nested"}}, "terms among E1_plus, E2 for tail-1d, got 'E3'"),
        ({"proposals": amci.load_proposals("peak")}, "ones for tail-1d, got ones for peak"),
        ({"seed": -1}, "seed: expected a whole number"),
        ({"shift": "pilot"}, "shift: expected a finite number, got 'pilot'"),
        ({"shift": math.inf}, "shift: expected a finite number, got inf"),
        ({"methods": {"E1_minus": "nested"}, "shift": -1.0}, "terms among E1_plus, E2 for tail"),
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
