"""Error curves: against closed forms, as they stream, and the arguments that are refused."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hidden import hidden
from imperfect import imperfect
from scipy.stats import binom

import amci_core as amci
from amci_core.evaluation.runs import runs_by_draws

PROBLEM = amci.problem("tail-1d")
ORACLE = amci.load_proposals("tail-1d", variant="oracle")
IMPERFECT = imperfect()


def curve(name, *, y=1.0, theta=1.5, proposals=IMPERFECT, **options):
    how = {"draws": [1000], "runs": 2000, "estimators": [name]}
    return amci.error_curves(PROBLEM, proposals, y, theta, **how | options)[name]


def test_the_mixture_of_exact_proposals_sits_on_the_bound():
    # E[(w (f - mu))^2] under (q1 + q2) / 2 is 4 mu^2 (1 - mu) / (1 + mu): the bound as mu -> 0.
    # The bias adds terms of relative order 1 / T with constants of order ten.
    mu = PROBLEM.truth(1.0, 1.5)
    expected = 4 * (1 - mu) / (1 + mu) / 1000
    found = curve("snis-qm", proposals=ORACLE, runs=1500)
    assert abs(found.remse[0] - expected) < 4 * found.remse_error[0] + 0.02 * expected


def test_fixed_numbers_of_draws_from_each_proposal_go_below_the_bound_for_independent_ones():
    # Half of the draws, and Bin(T / 2, mu) of the others, lie above theta: with the weights of
    # SNIS the error has a closed form. Each total has its own number of runs.
    mu, draws, runs = float(PROBLEM.truth(1.0, 1.5)), np.array([16, 128, 512]), [4000, 2000, 300]
    exact = []
    for half in draws // 2:
        n = np.arange(half + 1)
        above, below = (half + n) * mu / (1 + mu), half - n
        exact.append(binom.pmf(n, half, mu) @ (above / (above + below) / mu - 1) ** 2)
    found = curve("snis-qm-stratified", proposals=ORACLE, draws=draws, runs=runs)
    assert (np.abs(found.remse - exact) < 4 * found.remse_error).all()
    np.testing.assert_array_equal((~np.isnan(found.errors)).sum(axis=0), runs)
    assert exact[1] < 4 * (1 - mu) ** 2 / draws[1] / 5


@pytest.mark.parametrize("seed", range(3))
def test_a_mean_without_the_rare_runs_that_make_it_up_is_not_settled(seed):
    # 1,000 runs have 0.11 to 0.23 of the mean of 1.5 million unless one of these is among them.
    how = {"draws": [10], "estimators": ["amci"], "seed": seed}
    found = amci.error_curves("gain-loss", None, 1.0, 0.4, **how)
    assert not found["amci"].determined[0]


def test_an_evaluation_has_the_marks_of_curves():
    # Ten draws of q_m come from q1 alone in one run of a thousand: no run of 200 shows it.
    settings = {"draws": [10, 1000], "runs": 200, "estimators": ["snis-qm"]}
    curves = amci.error_curves(PROBLEM, ORACLE, 1.0, 3.0, **settings)
    cases = amci.evaluate(PROBLEM, ORACLE, cases=(1.0, 3.0), **settings)
    assert curves["snis-qm"].determined.tolist() == [False, True]
    assert cases.estimators["snis-qm"]["undetermined"] == [1.0, 0.0]


def test_snis_with_the_exact_posterior_answers_zero():
    # No draw of the posterior lies above theta in 98 % of runs of 100 draws: the error is 1.
    how = {"y": 1.0, "theta": 3.0, "proposals": ORACLE}
    posterior = curve("snis-q2", **how, draws=[10, 100], runs=500)
    np.testing.assert_array_equal([posterior.remse_median, *posterior.remse_quartiles], 1)


@pytest.mark.parametrize(
    ("name", "points"),
    [*((name, "independent") for name in ("amci", "amci-cv", "reuse:0.9:0.1")), ("amci", "sobol")],
)
def test_errors_are_those_of_estimates_with_as_many_draws(name, points):
    # In curves, all draws but those of amci-cv come from proposals.
    n, total = 1000, 1000 if name == "amci-cv" else 1143
    how = {"estimator": name, "points": points, "seed": 9}
    found = amci.estimate(PROBLEM, IMPERFECT, np.ones((n, 1)), 1.5, draws=total, **how)
    errors = np.square(found.value / PROBLEM.truth(1.0, 1.5) - 1)
    curves = curve(name, runs=n, points=points)
    tolerance = 4 * np.hypot(curves.remse_error[0], errors.std() / np.sqrt(n))
    assert abs(curves.remse[0] - errors.mean()) < tolerance


def test_the_monte_carlo_error_is_the_spread_over_seeds():
    repeats = 40
    found = [curve("amci", draws=[100], runs=300, seed=seed) for seed in range(repeats)]
    spread = np.std([c.remse[0] for c in found])
    stated = np.sqrt(np.mean([c.remse_error[0] ** 2 for c in found]))
    assert abs(spread / stated - 1) < 4 / np.sqrt(2 * repeats)


@pytest.mark.parametrize("wanted", [700, [700, 200]])
def test_curves_grow_part_by_part_to_those_without_on_progress(wanted):
    arguments = {"draws": [2, 2000], "runs": wanted, "seed": 3}
    steps = []
    final = amci.error_curves(PROBLEM, IMPERFECT, 1.0, 2.0, **arguments, on_progress=steps.append)
    alone = amci.error_curves(PROBLEM, IMPERFECT, 1.0, 2.0, **arguments)
    assert len(steps) > 2
    for before, after in itertools.pairwise(steps):
        assert before.runs < after.runs
        assert before.progress < after.progress
    assert final is steps[-1]
    assert (final.runs, final.runs_wanted, final.progress) == (700, 700, 1)
    assert final["amci"].runs.tolist() == np.broadcast_to(wanted, 2).tolist()
    for name, curve in alone.by_name.items():
        np.testing.assert_array_equal(curve.errors, final[name].errors)


def test_a_rough_curve_of_the_smallest_totals_comes_first():
    draws = [2, 500, 600, 3000]
    runs = runs_by_draws(1000, draws)
    assert runs.tolist() == [1000, 1000, 854, 171]
    steps = []
    settings = {"draws": draws, "runs": runs, "on_progress": steps.append}
    amci.error_curves(PROBLEM, IMPERFECT, 1.0, 2.0, **settings)
    first = steps[0]
    for curve in first.by_name.values():
        known = np.isfinite(curve.remse)
        assert known.all() if curve.known else known.tolist() == [True, True, False, False]
        assert (curve.failed == 0).all()
        assert not curve.determined[2:].any() or curve.known
    assert first["snis-q2"].runs.tolist() == [30, 30, 0, 0]


def test_an_exact_estimate_is_off_by_as_much_as_the_truth_that_is_given():
    # (mu / 2 mu - 1)^2, whatever the problem itself knows.
    truth = 2 * PROBLEM.truth(1.0, 3.0)
    found = amci.error_curves(PROBLEM, ORACLE, 1.0, 3.0, draws=[2], runs=4, truth=truth)
    assert found["amci"].remse[0] == pytest.approx(0.25, rel=1e-9)
    bound = found["bound"]
    assert bound.mse[0] == pytest.approx(curve("bound", theta=3.0, draws=[2]).mse[0])
    assert bound.remse_error[0] == 0
    signed, oracle = amci.problem("gain-loss"), amci.load_proposals("gain-loss", variant="oracle")
    mu = float(signed.truth(-1.0, 2.0))
    assert mu < 0
    found = amci.error_curves(signed, oracle, -1.0, 2.0, draws=[3], runs=4, truth=-mu)
    assert found["amci"].remse[0] == pytest.approx(4, rel=1e-9)


def test_where_mu_is_zero_there_is_no_relative_error():
    settings = {"draws": [4], "runs": 6, "estimators": ["amci", "bound"]}
    at_zero = amci.error_curves(PROBLEM, IMPERFECT, 1.0, 1.5, **settings, truth=0.0)
    near = amci.error_curves(PROBLEM, IMPERFECT, 1.0, 1.5, **settings, truth=1e-12)
    for name, curve in at_zero.by_name.items():
        assert np.isnan([curve.remse, curve.remse_error, *curve.remse_quartiles]).all()
        assert (curve.mse > 0).all()
        np.testing.assert_allclose(curve.mse, near[name].mse, rtol=1e-6)
    assert at_zero["amci"].truth.value == 0


def test_runs_without_an_estimate_are_counted_apart():
    class CutOff(type(PROBLEM)):
        def log_prior(self, x):
            return super().log_prior(x).masked_fill(x[..., 0] > 2, -np.inf)

    # q1 draws above 2 with probability 0.354, where p(x) is zero: so do two draws of two, and
    # the estimate is 0 / 0. Where the estimate exists it is the share of the draws above theta.
    runs, at = 2000, (IMPERFECT, 1.0, 1.5)
    how = {"draws": [2, 100], "runs": [runs, 10], "estimators": ["snis-q1"], "truth": 0.5}
    curves = amci.error_curves(CutOff(1), *at, **how)
    found = curves["snis-q1"]
    assert f"snis-q1 at 2 draws: {found.failed[0]:,} of 2,000 runs failed" in str(curves)
    assert found.failed[1] == 0
    none = 0.3538**2
    assert abs(found.failed[0] / runs - none) < 4 * np.sqrt(none * (1 - none) / runs)
    # All draws below theta, or all above: off by mu itself.
    assert found.remse_quartiles[2, 0] == pytest.approx(1)
    # A budget that is too small for AMCI has no error, and is no failure of it.
    whole = amci.error_curves(PROBLEM, *at, draws=[1, 2], runs=20)
    assert np.isnan(whole["amci"].remse).tolist() == [True, False]
    assert np.isfinite(whole["snis-q2"].remse).all()
    assert all((curve.failed == 0).all() for curve in whole.by_name.values())


def test_a_truth_with_an_error_says_where_it_matters():
    mu, at = float(PROBLEM.truth(1.0, 1.5)), (PROBLEM, IMPERFECT, 1.0, 1.5)
    how = {"draws": [10, 1000], "runs": 200}
    exact = amci.error_curves(*at, **how)
    assert exact.truth_error == 0
    assert not any(curve.reference_limited.any() for curve in exact.by_name.values())
    # Between the errors at 10 draws and those at 1000.
    error = float(np.sqrt(0.1 * np.sqrt(exact["amci"].mse.prod())))
    found = amci.error_curves(*at, **how, truth=SimpleNamespace(value=mu, standard_error=error))
    assert found.truth_error == pytest.approx(error / mu)
    assert found["amci"].reference_limited.tolist() == [False, True]
    np.testing.assert_allclose(found["amci"].mse, exact["amci"].mse, rtol=1e-9)
    with pytest.raises(ValueError, match=r"^truth\.standard_error: expected finite numbers >= 0"):
        amci.error_curves(*at, truth=SimpleNamespace(value=mu, standard_error=-1.0))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"draws": []}, r"draws: expected increasing numbers of draws, got \[\]"),
        ({"draws": [1]}, r"draws: expected at least 2 draws, .* got 1"),
        ({"y": np.zeros((1000, 1)), "draws": [10**5]}, r"draws, of all .*: expected"),
        ({"runs": 0}, r"runs: expected a whole number .* got 0"),
        ({"runs": [2, 1, 2, 1]}, r"runs: expected .* 4 numbers that do not increase, got \[2, 1"),
        ({"estimators": ["amci", "best"]}, r"estimators: expected one of amci-cv, .*, got 'best'"),
        ({"truth": -0.1}, r"truth: expected finite numbers >= 0, got -0.1"),
        ({"truth": [0.1, 0.2]}, r"truth: .* the batch shape \(\) of y and theta, got shape \(2,"),
        (
            {"problem": hidden("tail-1d")},
            "truth: tail-1d has no known mu. Define _log_truth, or pass reference values",
        ),
        (
            {"problem": hidden("tail-1d"), "truth": 0.1, "estimators": ["amci", "bound"]},
            "mean_absolute_deviation: tail-1d",
        ),
    ],
)
def test_bad_arguments_are_named(changed, message):
    arguments = {"problem": PROBLEM, "proposals": IMPERFECT, "y": 1.0, "theta": 3.0} | changed
    with pytest.raises(ValueError, match=f"^{message}"):
        amci.error_curves(**arguments)
