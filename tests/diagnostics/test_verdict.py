"""Verdicts: what is said of estimates, and why."""

import re

import numpy as np
import pytest
from discrete import judged, prepared, row

import amci_core as amci
from amci_core.diagnostics import LEVELS, diagnose, judge
from amci_core.estimators.mis import pooled
from amci_core.estimators.tables import reuse, snis_q2
from amci_core.flows import Proposals

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")


def diagnosed(table, draws):
    """Every term, by the draws alone."""
    return diagnose(prepared(table, draws), pooled(draws))


def lognormal(spread, *, n=1000, seed=0):
    """log weights of that standard deviation, in nats."""
    return spread * np.random.default_rng(seed).normal(size=n)


def verdict(log_w, f=None, relative_error=None):
    """On an estimate from one set of weights."""
    zero = np.zeros_like(log_w)
    f = zero + 1 if f is None else f
    draws = row({"j": 2, "f": f, "log_joint": log_w, "log_q": {2: zero}})
    return judge(diagnosed(snis_q2(), draws), relative_error)


def test_even_weights_are_reliable():
    found = verdict(lognormal(0.05))
    assert found.level == "reliable"
    assert found.reasons == ()
    assert found.text == (
        "reliable: every term has an effective sample size of at least 998, 99.8% of its draws"
    )


def test_many_effective_draws_are_written_out():
    assert verdict(lognormal(0.01, n=30_000)).text.startswith(
        "reliable: every term has an effective sample size of at least 29,9"
    )


def test_heavy_tails_are_not_to_be_trusted():
    # Pareto weights with k = 1 have no mean.
    weights = 1 + np.random.default_rng(0).pareto(1.0, 4000)
    found = verdict(np.log(weights))
    assert found.level == "do not trust"
    assert found.text.startswith("do not trust E1: k-hat is")
    assert any(reason.startswith("E2: k-hat") for reason in found.reasons)


def tied_weights(seed):
    """940 log weights of 0, and 60 from a Pareto distribution with k = 1."""
    rng = np.random.default_rng(seed)
    return np.log(np.append(np.ones(940), 1 + rng.pareto(1.0, 60)))


def test_ties_do_not_hide_a_heavy_tail():
    found = verdict(np.stack([tied_weights(seed) for seed in range(40)]))
    assert (found.level != "reliable").all()


def test_equal_weights_of_an_indicator_are_reliable():
    inside = np.random.default_rng(0).random(1000) < 0.3
    found = verdict(np.full(1000, -3.0), inside.astype(float))
    assert found.level == "reliable"


def test_a_tail_that_cannot_be_fitted_asks_for_more_draws():
    found = verdict(np.log(np.append(np.ones(500), np.full(500, 4.0))))
    assert found.text == (
        "use more draws: E1: k-hat cannot be judged: too many of the largest weights of q2 are "
        "equal"
    )


@pytest.mark.parametrize("answer", [np.nan, np.inf, -np.inf])
def test_a_failed_fit_is_never_reliable(monkeypatch, answer):
    from arviz_stats.base import array_stats

    kind = type(array_stats)
    monkeypatch.setattr(kind, "psislw", lambda self, w, **_: (-w, answer))
    monkeypatch.setattr(kind, "pareto_khat", lambda self, w, **_: answer)
    assert verdict(lognormal(1.0)).level != "reliable"


def test_a_tail_that_could_be_heavy_asks_for_more_draws():
    # Lognormal weights have every moment, but a hundred of them can hardly tell.
    few, many = (verdict(lognormal(1.0, n=(100, n))) for n in (100, 10_000))
    assert (few.level == "reliable").mean() < 0.5
    assert (many.level == "reliable").mean() > 0.95
    asks = few[int(np.flatnonzero(few.level == "use more draws")[0])]
    assert asks.text.startswith("use more draws: E1: k-hat is")


def test_a_posterior_proposal_that_never_reaches_f_is_not_to_be_trusted():
    found = amci.estimate(PROBLEM, ORACLE, 1.0, 3.0, draws=256, estimator="snis-q2").verdict
    assert found.level == "do not trust"
    assert found.text == "do not trust E1: all 256 weights of q2 are zero"


def test_a_few_hits_are_too_few():
    hits = np.arange(1000) < 10
    found = verdict(np.zeros(1000), hits.astype(float))
    assert found.level == "use more draws"
    assert found.text.startswith("use more draws: E1: only 10 weights of q2 are positive")


def test_draws_of_another_component_show_missed_mass():
    # Half of the mass lies where q1 draws once in a thousand times, and has not drawn yet.
    def cells(j, second):
        second = np.array(second)
        half = np.full(second.shape, np.log(0.5))
        log_q = {0: np.log(np.where(second, 0.001, 0.999)), 2: half}
        return {"j": j, "f": np.ones(second.shape), "log_joint": half, "log_q": log_q}

    draws = row(cells(0, [False] * 100), cells(2, [False, True] * 50))
    found = judge(diagnosed(reuse(alpha=1, beta=0), draws))
    assert found.level == "do not trust"
    assert found.text == "do not trust E1: q1 misses 49.9% of it, where it almost never samples"


@pytest.mark.parametrize("draws", [64, 256, 1000])
def test_mass_that_a_proposal_misses_is_named_at_any_number_of_draws(draws):
    # q1 of these proposals misses three quarters of E1 here; its own draws look fine.
    paper = amci.load_proposals("tail-1d", variant="paper")
    estimates = [
        amci.estimate(PROBLEM, paper, -4.0, 5.0, draws=draws, seed=seed) for seed in range(25)
    ]
    assert np.median([e.value for e in estimates]) < 0.3 * PROBLEM.truth(-4.0, 5.0)
    missed = []
    for text in (e.verdict.text for e in estimates):
        share = re.match(r"do not trust E1: q1 misses (.*)% of it", text)
        assert share is not None
        missed.append(float(share.group(1)))
    assert 70 < np.median(missed) < 80


def lopsided(own, others):
    """Two components with equal densities; the estimate is made of the first one's draws."""
    zero = np.zeros(len(own) + len(others))
    parts = [
        {"j": j, "f": np.ones(len(log_w)), "log_joint": log_w, "log_q": {0: z, 2: z}}
        for j, log_w, z in ((0, own, zero[: len(own)]), (2, others, zero[: len(others)]))
    ]
    draws = row(*parts)
    table = prepared(reuse(alpha=1, beta=1), draws)
    return judge(diagnose(table, pooled(draws), judged(table).uncertainty.term_errors))


def test_effective_draws_are_those_that_all_components_see():
    # The own draws have equal weights; one in ten of the other component's is ten times as large.
    even = np.zeros(200)
    other = np.where(np.arange(200) % 10 == 0, np.log(10.0), 0.0)
    assert lopsided(even, even).effective_share == pytest.approx(1)
    found = lopsided(even, other)
    assert found.effective_share < 0.6


@pytest.mark.parametrize(
    ("error", "level", "reason"),
    [
        (0.1, "reliable", None),
        (0.7, "use more draws", "mu: its standard error is 0.7 times the estimate"),
        (np.nan, "use more draws", "mu: its standard error is not known"),
        (np.inf, "do not trust", "mu: its standard error is infinite: a proposal misses part"),
    ],
)
def test_the_standard_error_has_a_say(error, level, reason):
    found = verdict(lognormal(0.05), relative_error=np.array(error))
    assert found.level == level
    assert [r.startswith(reason or "") for r in found.reasons] == [True] * (reason is not None)


def test_a_batch_is_judged_case_by_case():
    log_w = np.stack([lognormal(0.05), lognormal(3.0)])
    found = verdict(log_w)
    assert found.level.tolist() == ["reliable", "do not trust"]
    for i in range(2):
        alone = verdict(log_w[i])
        assert (found[i].text, found[i].reasons) == (alone.text, alone.reasons)
    for ask in (lambda: found.text, lambda: found.reasons):
        with pytest.raises(ValueError, match=r"^verdict: index it for a single case"):
            ask()


def test_exact_proposals_are_reliable_everywhere():
    y, theta = PROBLEM.cases(200, seed=0)
    assert (amci.estimate(PROBLEM, ORACLE, y, theta).verdict.level == "reliable").all()


def test_the_terms_of_a_signed_problem_have_signs():
    problem, trained = amci.problem("gain-loss"), amci.load_proposals("gain-loss")
    swapped = Proposals("gain-loss", "swapped", trained.q1_plus, trained.q1_plus, trained.q2)
    with np.errstate(all="ignore"):
        found = amci.estimate(problem, swapped, 1.0, 0.4, draws=100).verdict
    assert found.text == "do not trust E1-: all 100 weights of q1- are zero"


@pytest.mark.parametrize(("narrow", "at_most"), [(0.5, 0.3), (0.3, 0.1)])
def test_a_proposal_too_narrow_is_rarely_called_reliable(narrow, at_most):
    def too_narrow(y, theta):
        """Excesses over theta, of about the right mean, times a factor."""
        return _Scaled(ORACLE.q1_plus(y, theta), theta, narrow)

    spoilt = Proposals("tail-1d", "narrow", too_narrow, None, ORACLE.q2)
    runs = np.full((400, 1), 1.0)
    found = amci.estimate(PROBLEM, spoilt, runs, 3.0, draws=256, seed=1)
    # An exponential tail drawn with rate 1 / c has k = 1 - c: the variance is infinite.
    assert (found.verdict.level == "reliable").mean() < at_most
    lower, upper = found.interval()
    covered = (lower < PROBLEM.truth(1.0, 3.0)) & (PROBLEM.truth(1.0, 3.0) < upper)
    # The draws of the reference show what the narrow ones miss.
    assert covered.mean() > 0.93


class _Scaled:
    def __init__(self, density, theta, factor):
        self.density, self.theta, self.factor = density, theta[..., None, :], factor

    def draw(self, n, generator=None):
        x, _ = self.density.draw(n, generator)
        moved = self.theta + self.factor * (x - self.theta)
        return moved, self.log_prob(moved)

    def log_prob(self, x):
        inside = self.theta + (x - self.theta) / self.factor
        return self.density.log_prob(inside) - np.log(self.factor)


def test_levels_are_in_the_order_of_concern():
    assert LEVELS == ("reliable", "use more draws", "do not trust")


@pytest.mark.parametrize("batch", [(1,), (1, 1)])
def test_a_batch_of_one_speaks_like_a_single_estimate(batch):
    single = amci.estimate(PROBLEM, ORACLE, 1.0, 3.0, draws=64).verdict
    y = np.ones((*batch, 1))
    found = amci.estimate(PROBLEM, ORACLE, y, 3.0, draws=64).verdict
    assert (found.text, found.reasons) == (single.text, single.reasons)
    assert str(found) == str(single) == single.text
    few = amci.estimate(PROBLEM, ORACLE, y, 3.0, draws=4).verdict
    assert few.codes.shape == batch
    assert few.text.startswith("use more draws: ") or few.text.startswith("reliable")
    assert len(few.reasons) == len(few.why.item())


def test_a_verdict_prints_what_it_says():
    paper = amci.load_proposals("tail-1d", variant="paper")
    single = amci.estimate(PROBLEM, paper, -4.0, 5.0, draws=100).verdict
    assert len(single.reasons) > 1
    assert str(single).splitlines() == [single.text, *(f"  {r}" for r in single.reasons[1:])]
    many = amci.estimate(PROBLEM, paper, [[1.0], [-4.0]], [[0.5], [5.0]], draws=300).verdict
    said = re.fullmatch(r"1 reliable, 1 (use more draws|do not trust), of 2 estimates", str(many))
    assert said
    assert str(many[:0]) == "none, of 0 estimates"
    with pytest.raises(ValueError, match=r"^verdict: index it for a single case, it has batch"):
        _ = many.text
