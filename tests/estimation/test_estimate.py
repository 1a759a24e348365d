"""Estimates of mu(y, theta): Theorem 1, uncertainty, a stated precision, and what is refused."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from imperfect import imperfect

import amci_core as amci
import amci_core.proposals as stored
from amci_core.estimation import sampling
from amci_core.estimators import ESTIMATORS
from amci_core.estimators.tables import reuse
from amci_core.io import pretrained_root

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
IMPERFECT = imperfect()


def estimates(n, *, y=1.0, theta=1.5, draws=400, estimator="amci", seed=0):
    """n independent estimates at the same (y, theta), as one batch."""
    batch = np.full((n, 1), y)
    return amci.estimate(
        PROBLEM, IMPERFECT, batch, theta, draws=draws, estimator=estimator, seed=seed
    )


def with_f(change, zero_below=-torch.inf):
    """The problem with another f, x -> change(x, f), and a prior that is cut off."""

    class Changed(type(PROBLEM)):
        def f(self, x, theta):
            return change(x[..., 0], super().f(x, theta))

        def log_prior(self, x):
            return super().log_prior(x).where(x[..., 0] > zero_below, -torch.inf)

    return Changed(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, f: torch.where(x > 3.5, -f, f), "f: expected values >= 0, .*, got -1"),
        (lambda x, f: torch.where(x > 3.5, torch.nan, f), "f: expected finite numbers"),
        (lambda x, f: torch.where(x > 3.5, torch.inf, f), "f: expected finite numbers"),
    ],
)
def test_values_that_make_an_estimate_wrong_are_refused(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.estimate(with_f(change), "oracle", 1.0, 2.5, draws=400)


@pytest.mark.parametrize("there", [torch.nan, torch.inf])
def test_f_may_be_no_number_where_the_density_is_zero(there):
    found, expected = (
        amci.estimate(with_f(lambda x, f: f.where(x > 0, value), 0), IMPERFECT, 1.0, 1.5)  # noqa: B023
        for value in (there, 0.0)
    )
    assert found.value == expected.value > 0
    assert found.standard_error == expected.standard_error


def test_proposals_by_name_are_those_of_the_files_of_now(tmp_path, monkeypatch):
    shutil.copytree(pretrained_root() / "tail-1d", tmp_path / "tail-1d")
    for module in (sampling, stored):
        monkeypatch.setattr(module, "pretrained_root", lambda: tmp_path)
    before = amci.estimate(PROBLEM, None, 1.0, 2.0).value
    assert before == amci.estimate(PROBLEM, None, 1.0, 2.0).value
    paper = amci.load_proposals(PROBLEM, variant="paper")
    others = replace(paper, variant="spline", q1_complement=None)
    others.save(tmp_path / "tail-1d" / "spline", replace=True)
    for name in (None, "paper"):
        assert before != amci.estimate(PROBLEM, name, 1.0, 2.0).value
        assert amci.estimate(PROBLEM, name, 1.0, 2.0).value == (
            amci.estimate(PROBLEM, paper, 1.0, 2.0).value
        )


def test_an_estimate_is_shown_in_three_lines_and_a_precise_one_in_a_fourth():
    found = estimates(1, draws=500)
    *numbers, verdict = str(found).splitlines()
    pattern = r"mu = (\S+), standard error (\S+) \(\S+ %\) 95 % interval: (\S+) to (\S+)"
    numbers = [float(number) for number in re.fullmatch(pattern, " ".join(numbers)).groups()]
    expected = np.ravel([found.value, found.standard_error, *found.interval()])
    np.testing.assert_allclose(numbers, expected, rtol=0.05)
    assert verdict == found.verdict.text
    precise = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, relative_error=0.05)
    *_, verdict, last = str(precise).splitlines()
    assert verdict == precise.verdict.text
    assert last == f"as precise as requested: yes, after {precise.draws:,} draws"
    pattern = (
        r"2 estimates of mu, shape \(2,\): 0\.0002\S* to \S+\n"
        r"relative standard error: \S+ % in the median, \S+ % at most\n2 reliable, .*\n"
        "as precise as requested: 2 of 2, after 256 draws"
    )
    assert re.fullmatch(pattern, repr(amci.estimate_to(PROBLEM, None, [[1.0], [2.0]], 3.0)))
    alone = amci.estimate(PROBLEM, None, 1.0, 3.0, estimator="amci", diagnose=False)
    with pytest.raises(ValueError, match="Pass diagnose=True"):
        _ = alone.standard_error
    nothing = amci.estimate(PROBLEM, ORACLE, 1.0, 3.0, estimator="snis-q2")
    assert str(nothing).startswith("mu = 0, standard error not known\n95 % interval: not known\n")


def test_theorem_1_one_draw_of_each_exact_proposal_gives_mu_and_many_show_no_error():
    y = np.linspace(-8, 8, 65)[:, None, None]
    theta = np.linspace(0, 5, 51)[:, None]
    for estimator, draws in (("amci", 2), ("amci-cv", 3)):
        found = amci.estimate(PROBLEM, ORACLE, y, theta, draws=draws, estimator=estimator)
        assert found.draws == draws
        # Log densities of some 150 nats are known to 150 times the rounding error.
        np.testing.assert_allclose(found.value, PROBLEM.truth(y, theta), rtol=1e-12)
        log_E2 = -np.square(y[..., 0]) / 4 - np.log(4 * np.pi) / 2
        log_terms = np.broadcast_to(log_E2, found.value.shape)
        np.testing.assert_allclose(found.terms["E2"].log_value, log_terms, atol=1e-12)
    found = amci.estimate(PROBLEM, ORACLE, *PROBLEM.cases(200, seed=0), draws=914)
    # Every one of few draws may have the same f at (3, 0.1).
    one_sided = replace(ORACLE, q1_complement=None)
    few = amci.estimate(PROBLEM, one_sided, np.full((300, 1), 3.0), 0.1, draws=80, seed=1)
    assert (few.prepared.draws.f == 1).all(axis=-1).any()
    assert (few.verdict.level == "reliable").mean() > 0.9
    assert (found.verdict.level == "reliable").all()
    assert (found.verdict.determined_by == np.inf).all()
    for each in (found, few):
        assert (each.standard_error <= 1e-12 * each.value).all()
    for term in found.diagnostics.values():
        np.testing.assert_allclose(term.ess, term.draws)
        assert (term.nonzero_share == 1).all()


@pytest.mark.parametrize(
    "estimator", ["amci-cv", "amci", "snis-qm", "snis-qm-stratified", reuse(0.7, -0.1)]
)
def test_standard_errors_are_the_spread_of_estimates(estimator):
    n, draws = 1000, 500
    found = estimates(n, draws=draws, estimator=estimator, seed=1)
    predicted = np.sqrt(np.mean(found.standard_error**2))
    # A spread of nearly normal values is known to 1 / sqrt(2 n).
    assert abs(found.value.std() / predicted - 1) < 4 / np.sqrt(2 * n) + 0.02
    bias = found.value.mean() - PROBLEM.truth(1.0, 1.5)
    assert abs(bias) < 4 * found.value.std() / np.sqrt(n) + found.value.std() / np.sqrt(draws)


@pytest.mark.parametrize(
    ("draws", "defensive", "remse", "reliable"),
    [(1000, 1 / 8, 0.055, False), (2000, 0.5, 0.0075, True)],
)
def test_control_variates_repair_the_case_that_is_not_to_be_trusted(
    draws, defensive, remse, reliable
):
    # The paper's q1 misses three quarters of E1 here: AMCI's relative error is 0.55.
    n, mu = 200, PROBLEM.truth(-4.0, 5.0)
    arguments = (PROBLEM, "paper", np.full((n, 1), -4.0), 5.0)
    how = {"draws": draws, "defensive": defensive, "seed": 1}
    plain = amci.estimate(*arguments, estimator="amci", **how)
    found = amci.estimate(*arguments, **how)
    relative = found.value / mu - 1
    assert np.mean(np.square(relative)) < min(remse, np.mean(np.square(plain.value / mu - 1)) / 10)
    right = abs(relative) < 2 * found.relative_standard_error * found.value / mu
    assert right.mean() > 0.93 - 2 * np.sqrt(0.95 * 0.05 / n)
    share = (found.verdict.level == "reliable").mean()
    assert share > 0.9 if reliable else share == 0


def test_where_every_draw_has_the_same_f_there_is_no_standard_error():
    # At (3, 0.1) all of 64 exact posterior draws lie above theta with probability mu^64 = 0.21:
    # the answer is then 1, and no draw says that it is wrong.
    n, mu = 1000, float(PROBLEM.truth(3.0, 0.1))
    found = amci.estimate(
        PROBLEM, ORACLE, np.full((n, 1), 3.0), 0.1, draws={"q2": 64}, estimator="snis-q2", seed=1
    )
    one, levels = abs(found.value - 1) < 1e-9, found.verdict.level
    np.testing.assert_array_equal(one, np.isnan(found.standard_error))
    assert one[(found.prepared.draws.f == 1).all(axis=-1)].all()
    assert not (one & (levels == "reliable")).any()
    all_above = mu**64
    assert abs(one.mean() - all_above) < 4 * np.sqrt(all_above * (1 - all_above) / n)
    lower, upper = (end[~one] for end in found.interval())
    assert ((lower < mu) & (mu < upper)).mean() > 0.95


@pytest.mark.parametrize(
    ("estimator", "draws", "defensive", "expected"),
    [
        ("amci", 128, 1 / 8, {0: 56, 2: 56, 3: 16}),
        ("amci-cv", 129, 1 / 8, {0: 57, 2: 56, 3: 16}),
        ("amci-cv", 40, 0.5, {0: 10, 2: 10, 3: 20}),
        ("amci", 20, 0, {0: 10, 2: 10}),
        ("amci", 5, 1 / 8, {0: 2, 2: 2, 3: 1}),
        ("snis-q2", 128, 1 / 8, {2: 112, 3: 16}),
        ("snis-qm", 128, 1 / 8, {2: 112, 3: 16}),
        # Without a number for it, the complement has an eighth.
        ("amci-cv", {"q1_plus": 64, "q2": 64}, 1 / 8, {0: 64, 2: 64, 4: 18, 3: 21}),
        ("amci", {"q1_plus": 300, "q2": 20}, 1 / 8, {0: 300, 2: 20, 3: 46}),
        ("snis-q2", {"q2": 5}, 1 / 8, {2: 5, 3: 4}),
    ],
)
def test_draws_are_the_total_of_the_proposals_and_the_defensive_density(
    estimator, draws, defensive, expected
):
    proposals = ORACLE if 4 in expected else IMPERFECT
    how = {"draws": draws, "estimator": estimator, "defensive": defensive}
    found = amci.estimate(PROBLEM, proposals, 1.0, 1.5, **how)
    assert found.prepared.draws.counts == expected
    assert found.draws == sum(expected.values())


def test_the_same_seed_gives_the_same_numbers_and_touches_nothing_global():
    def state():
        numpy_state = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
        torch_state = torch.random.get_rng_state().tolist()
        return numpy_state, torch_state, torch.get_default_dtype(), torch.get_num_threads()

    before = state()
    for estimator in ESTIMATORS:
        first, again = (estimates(3, estimator=estimator, seed=7).value for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert (first != estimates(3, estimator=estimator, seed=8).value).all()
    assert state() == before
    case = {"problem": PROBLEM, "proposals": IMPERFECT, "y": 1.0, "theta": 3.0}
    once, again = np.random.default_rng(5), np.random.default_rng(5)
    first, second = (amci.estimate(**case, rng=once).value for _ in range(2))
    assert first == amci.estimate(**case, rng=again).value != second
    assert amci.estimate(**case, seed=None).value != amci.estimate(**case, seed=None).value


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": 9.0}, r"y: expected .* within \[-8, 8\], got 9"),
        ({"y": [0.0, 1.0]}, r"y: expected a number .* got shape \(2,\)"),
        ({"draws": 0}, r"draws: expected a whole number from 1 to 20,000,000, got 0"),
        ({"draws": 1}, r"draws: expected at least 2, one per proposal, got 1"),
        ({"draws": {"q2": 5}}, r"draws: expected a number for each of q1_plus, q2, .* got"),
        ({"y": np.zeros((1000, 1)), "draws": 10**6}, r"draws, .* together: .* got 1000000000"),
        ({"defensive": 1}, r"defensive: expected a number from 0 to below 1, got 1"),
        ({"shift": "much"}, r"shift: expected a finite number, got 'much'"),
        ({"estimator": "reuse"}, r"estimator: expected reuse:ALPHA:BETA, got 'reuse'"),
        ({"seed": -1}, r"seed: expected a whole number from 0 .* got -1"),
        ({"rng": 3}, r"rng: expected a numpy.random.Generator or None, got 3"),
        ({"estimator": "bound"}, r"estimator: expected one of amci-cv, .* a table, got 'bound'"),
        ({"proposals": imperfect("tail-5d")}, r"proposals: .* for tail-1d, got .*5d"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    arguments = {"problem": PROBLEM, "proposals": IMPERFECT, "y": 1.0, "theta": 3.0} | changed
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.estimate(**arguments)


@pytest.mark.parametrize("how", [{"estimator": "snis-qm"}, {"points": "sobol"}])
def test_the_precision_asked_for_is_reached_and_true(how):
    y, theta = PROBLEM.cases(60, seed=0)
    theta = np.minimum(theta, abs(y) / 2)  # where SNIS can do it
    found = amci.estimate_to(PROBLEM, IMPERFECT, y, theta, relative_error=0.05, **how)
    assert found.reached.all()
    if "points" in how:
        plain = amci.estimate_to(PROBLEM, IMPERFECT, y, theta, relative_error=0.05)
        assert found.draws.sum() < plain.draws.sum()
    assert (found.relative_half_width() <= 0.05).all()
    within = abs(found.value / PROBLEM.truth(y, theta) - 1) < 0.05
    # At the half-width of a 95 % interval, errors are within it 95 times of 100.
    assert within.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)


def test_a_batch_has_the_figures_of_each_case():
    y, theta = PROBLEM.cases(60, seed=0)
    y, theta = y.reshape(6, 10, 1), theta.reshape(6, 10, 1)
    found = amci.estimate_to(PROBLEM, IMPERFECT, y, theta, relative_error=0.05, draws=200_000)
    shapes = {v.shape for v in (found.value, found.draws, found.reached, found.verdict.codes)}
    assert shapes == {(6, 10)}
    z = (found.value - PROBLEM.truth(y, theta)) / found.standard_error
    assert (abs(z) < 4).all()
    lower, upper = found.interval(0.95)
    np.testing.assert_allclose((upper - lower) / 2 / found.value, found.relative_half_width())
    # Each goes on for as long as it needs: 128 draws, and twice as many each time.
    assert set(np.unique(found.draws)) <= {128 * (2**k - 1) for k in range(1, 11)}
    assert found.draws.max() > 4 * found.draws.min()


def test_it_gives_up_within_the_most_draws():
    found = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, relative_error=1e-4, draws=3000)
    assert not found.reached
    assert found.value.shape == ()
    # 128 + 256 + 512 + 1,024, and what is left
    assert found.draws == 3000
    few = amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, draws=20)
    assert (few.draws, few.verdict.level) == (20, "use more draws")
    for wrong in (0, 1.01):
        with pytest.raises(ValueError, match=r"^relative_error: expected a number from 1e-15 to"):
            amci.estimate_to(PROBLEM, IMPERFECT, 1.0, 3.0, relative_error=wrong)
    # An estimate that is not reliable is never precise enough.
    found = amci.estimate_to(PROBLEM, "paper", [[1.0], [-4.0]], [[0.5], [5.0]], draws=2000)
    assert found.reached.tolist() == (found.verdict.level == "reliable").tolist() == [True, False]
