"""Verdicts: the three questions to the draws, on tables and estimates that call for each."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from scipy.stats import norm
from scipy.stats import t as student
from torch.distributions import Independent, Normal

import amci_core as amci
from amci_core.diagnostics.verdict import requirements_near
from amci_core.flows import Proposals

PROBLEM = amci.problem("tail-1d")
RUNS = 20


class Normals:
    """A mixture of normals (weight, mean, scale) and how many draws it gives."""

    def __init__(self, n: int, *parts: tuple[float, float, float], constant: float = 1.0) -> None:
        self.n, self.parts, self.log_constant = n, np.array(parts).T, np.log(constant)

    def draw(self, rng):
        weights, means, scales = self.parts
        part = rng.choice(len(weights), size=self.n, p=weights)
        return rng.normal(means[part], scales[part])

    def log_prob(self, x):
        weights, means, scales = self.parts[..., None]
        each = np.log(weights) + norm.logpdf(x, means, scales)
        return np.logaddexp.reduce(each) + self.log_constant


def level(log_p, f, parts, *, seed, name):
    """How far the estimate of that name is reliable, from a table of draws of these components."""
    rng = np.random.default_rng(seed)
    drawn = {j: part.draw(rng) for j, part in parts.items()}
    x = np.concatenate(list(drawn.values()))
    columns = {f"log_q_{j}": part.log_prob(x) for j, part in parts.items()}
    columns["component"] = np.repeat(list(drawn), [len(of_j) for of_j in drawn.values()])
    columns |= {"log_joint": log_p(x), "f": f(x)}
    return amci.estimate_from_draws(columns).estimates[name].verdict.level.item()


def few_values(x):
    return np.digitize(x, [0.0, 1.5]).astype(float)


def in_tail(x):
    return (x > 2).astype(float)


def modes(x):
    return np.logaddexp(norm.logpdf(x, -4), norm.logpdf(x, 4)) - np.log(2)


def tail(n, **constants):
    """Good proposals for `in_tail` under N(0, 1), and a defensive density."""
    return {
        "q1_plus": Normals(n, (1, 2.3, 0.5), constant=constants.get("q1_plus", 1.0)),
        "q2": Normals(n, (1, 0, 1.1), constant=constants.get("q2", 1.0)),
        "defensive": Normals(n // 4, (1, 0, 2)),
    }


ONE_MODE = {"q2": Normals(1000, (1, 4, 1.2))}
NARROW = [(0.998, 0, 0.6), (0.002, 0, 3)]
# log p, f, the components, which estimate, and how often it is reliable, and not to be trusted.
ASKED: dict[str, tuple[Callable, Callable, dict[str, Normals], str, float, float]] = {
    "good": (norm.logpdf, in_tail, tail(300), "amci-cv", 1, 0),
    "good, amci": (norm.logpdf, in_tail, tail(300), "amci", 1, 0),
    "few values of f": (norm.logpdf, few_values, {"q2": Normals(300, (1, 0, 1))}, "snis-q2", 1, 0),
    # Is it determined?
    "narrow": (norm.logpdf, np.square, {"q2": Normals(2000, *NARROW)}, "snis-q2", 0, 0),
    "narrow, few": (norm.logpdf, np.square, {"q2": Normals(256, *NARROW)}, "snis-q2", 0, 0),
    "light tails": (
        lambda x: student.logpdf(x, 7), np.square, {"q2": Normals(1000, (1, 0, 1))},
        "snis-q2", 0, 0,
    ),
    # Do the draws agree?
    "a mode is missed": (
        modes, lambda x: x, ONE_MODE | {"defensive": Normals(200, (1, 0, 6))}, "snis-q2", 0, 1,
    ),
    "the mixture has both modes": (
        modes, lambda x: x, ONE_MODE | {"defensive": Normals(900, (1, 0, 6))}, "snis-qm", 1, 0,
    ),
    # Could they know?
    "blind reference": (
        norm.logpdf, np.square,
        {"q2": Normals(2000, *NARROW), "defensive": Normals(250, (1, 0, 1e6))}, "snis-q2", 0, 0,
    ),
    "far reference": (
        norm.logpdf, in_tail, tail(300) | {"defensive": Normals(75, (1, 30, 3))}, "amci-cv", 0, 0,
    ),
    # Do densities integrate to one?
    **{
        f"{name} times {factor}": (
            norm.logpdf, in_tail, tail(600, **{name: factor}), "amci", 0, 1,
        )
        for name, factor in (("q1_plus", 0.5), ("q1_plus", 2.0), ("q2", 0.5), ("q2", 2.0))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED)
def test_reliable_is_said_where_the_draws_can_tell_and_nowhere_else(case):
    log_p, f, parts, name, reliable, distrusted = ASKED[case]
    levels = np.array([level(log_p, f, parts, seed=seed, name=name) for seed in range(RUNS)])
    for word, share in (("reliable", reliable), ("do not trust", distrusted)):
        assert abs((levels == word).mean() - share) <= 0.15


def test_an_f_that_no_draw_contradicts_has_no_error_to_state():
    problem = amci.model(prior=Normal(0.0, 1.0), likelihood=lambda x: Normal(x, 1.0), f="x > -4")
    found = amci.estimate(problem, "defensive", 0.0, draws=800, seed=0)
    assert found.value == 1
    assert np.isnan(found.standard_error)
    assert "have the same f" in found.verdict.text
    # Nor have light draws with another f.
    x = np.random.default_rng(0).normal(size=2000)
    light = np.arange(2000) < 20
    columns = {"log_joint": norm.logpdf(x) - 200 * light, "log_q": norm.logpdf(x, 0, 1.1)}
    found = amci.estimate_from_draws(columns, f=1.0 - light)
    assert np.isnan(found.standard_error)
    assert found.verdict.text.startswith("use more draws: all n draws for E1 have the same f")


@pytest.mark.parametrize("estimator", ["amci-cv", "snis-q2", "snis-qm"])
def test_where_one_weight_is_everything_nothing_is_reliable(estimator):
    # The prior as the proposal, ten times too wide in each of 30 dimensions: E[x1] is 0.
    D, ones = 30, torch.ones(30)
    prior, likelihood = Normal(0 * ones, 10.0), lambda x: Independent(Normal(x, ones), 1)
    problem = amci.model(prior=Independent(prior, 1), likelihood=likelihood, f="x1")
    how = {"draws": 2000, "estimator": estimator}
    found = amci.estimate(problem, "defensive", np.zeros((8, D)), **how)
    assert (found.verdict.level != "reliable").all()
    assert not (found.verdict.determined_by > 10).any()


def test_points_of_no_weight_bring_no_rounding():
    # E[x^2] under N(0, 1) within (-1, 1); elsewhere log p is a log of zero as people write it.
    x = np.random.default_rng(0).normal(size=2000)
    log_q = norm.logpdf(x)
    columns = {"log_joint": np.where(abs(x) < 1, log_q, -1e30), "log_q": log_q}
    found = amci.estimate_from_draws(columns, f=np.square(x))
    truth = 1 - 2 * norm.pdf(1) / (norm.cdf(1) - norm.cdf(-1))
    assert abs(found.value - truth) < 4 * found.standard_error < 0.1
    assert found.verdict.level == "reliable"
    assert np.isfinite(found.verdict.determined_by)


def chain(seed):
    """Draws of N(0, 1) from an autoregressive process with correlation 0.9, for E[x]."""
    noise = np.random.default_rng(seed).normal(size=3000)
    x = lfilter([np.sqrt(1 - 0.9**2)], [1, -0.9], noise)
    return {"log_joint": norm.logpdf(x), "log_q": norm.logpdf(x), "f": x}


def test_a_chain_is_reliable_with_its_number_of_independent_draws_alone():
    runs = 40
    chains = [chain(seed) for seed in range(runs)]
    for of_one in chains[:10]:
        text = amci.estimate_from_draws(of_one).verdict.text
        assert text.startswith("do not trust: rows of q2 are correlated")
    found = [amci.estimate_from_draws(of_one, r_eff=0.1 / 1.9) for of_one in chains]
    covered = np.mean([abs(each.value) < 1.96 * each.standard_error for each in found])
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs)
    assert np.mean([each.verdict.level == "reliable" for each in found]) > 0.9
    for wrong in (0, 1.5, "half"):
        with pytest.raises(ValueError, match=r"^r_eff: expected a number above 0, at most 1, got"):
            amci.estimate_from_draws(chains[0], r_eff=wrong)


@pytest.mark.parametrize(
    ("estimator", "points"), [("amci-cv", "sobol"), ("amci-cv", "independent"), ("amci", "sobol")]
)
def test_what_is_reliable_with_poor_proposals_is_right(estimator, points):
    y, theta = PROBLEM.cases(2000, seed=11)
    how = {"draws": 256, "estimator": estimator, "points": points, "seed": 1}
    found = amci.estimate(PROBLEM, "paper", y, theta, **how)
    truth, reliable = PROBLEM.truth(y, theta), found.verdict.codes == 0
    low, high = found.interval()
    covered = ((low <= truth) & (truth <= high))[reliable]
    off = (np.abs(found.value - truth) > 3 * found.standard_error)[reliable]
    assert off.mean() < 0.02 + 3 * np.sqrt(0.02 * 0.98 / len(off))
    assert covered.mean() > 0.92 - 3 * np.sqrt(0.92 * 0.08 / len(off))
    assert reliable.mean() > 0.05


def test_a_verdict_prints_what_it_says():
    many = amci.estimate(PROBLEM, "paper", [[1.0], [-4.0]], [[0.5], [5.0]], draws=686).verdict
    assert re.fullmatch(r"1 reliable, 1 (use more draws|do not trust), of 2 estimates", str(many))
    single = many[1]
    assert str(single).splitlines() == [single.text, *(f"  {r}" for r in single.reasons[1:])]
    assert str(many[:0]) == "none, of 0 estimates"
    with pytest.raises(ValueError, match=r"^verdict: expected a single case, got batch shape"):
        _ = many.text


@pytest.mark.parametrize(("estimator", "needed"), [("amci-cv", 28), ("amci", 5.6)])
def test_a_reliable_verdict_names_what_it_rests_on(estimator, needed):
    shipped, how = amci.load_proposals("tail-1d"), {"draws": 1000, "estimator": estimator}
    unchecked = Proposals("tail-1d", "unchecked", shipped.q1_plus, None, shipped.q2)
    checked, alone = (
        amci.estimate(PROBLEM, proposals, 1.0, 1.0, **how).verdict.text
        for proposals in (shipped, unchecked)
    )
    assert checked == "reliable: the long check covers this case, and the draws agree with it"
    said = re.fullmatch(
        r"reliable: about (\S+) draws determine its error, (\S+) are needed", alone
    )
    assert float(said[1]) >= float(said[2]) == needed


@pytest.mark.parametrize(
    ("y", "theta", "needed"), [(1.0, 3.0, 2), (1.0, 9.0, 28), (12.0, 3.0, 28)]
)
def test_a_long_check_says_nothing_beyond_its_cases_in_any_coordinate(y, theta, needed):
    check = amci.load_proposals("tail-1d").card["configuration"]["verdict"]
    assert requirements_near(check, np.array([y]), np.array([theta])).needed == needed


def test_few_draws_and_infinite_errors_are_never_reliable_however_good_the_card():
    few, enough = (amci.estimate(PROBLEM, None, 1.0, 3.0, draws=n) for n in (20, 146))
    assert few.verdict.text == "use more draws: from fewer than 64 draws little can be told"
    assert enough.verdict.level == "reliable"
    # Nor is an infinite error: half of E2 comes from a q1_plus that lives on a half-line alone.
    table = [[0.5, 0, 0.5], [0, 0.5, 0], [0.5, 0.5, 0.5]]
    found = amci.estimate("gain-loss", y=1.0, theta=0.4, draws=2000, estimator=table, seed=1)
    assert found.standard_error == np.inf
    assert found.verdict.level == "use more draws"
