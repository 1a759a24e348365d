import numpy as np
import pytest
import torch
from hidden import hidden
from imperfect import imperfect

import amci_core as amci
from amci_core.estimators import Moments, relative_variance, tables
from amci_core.evaluation import reuse_errors

ALPHAS, BETAS = [0.0, 0.5, 1.0, 1.3], [-0.2, 0.0, 1.0]
POINT = {"y": 1.0, "theta": 1.5}


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


def errors(problem, proposals, **options):
    settings = {"alphas": ALPHAS, "betas": BETAS, "draws": 16, "runs": 300, "seed": 3}
    return reuse_errors(problem, proposals, **(POINT | settings | options))


def test_corners_are_amci_and_self_normalized_importance_sampling(problem):
    # Different draws of the same estimators: means over runs agree within their Monte Carlo error.
    found = errors(problem, imperfect(), runs=4000, draws=32)
    curves = amci.error_curves(
        problem,
        imperfect(),
        **POINT,
        draws=[32, 64],
        runs=4000,
        estimators=["amci", "snis-q1", "snis-q2"],
        seed=4,
    )
    for name, alpha, beta, budget in [
        ("amci", 1, 0, 1),
        ("snis-q2", 0, 0, 0),
        ("snis-q1", 1, 1, 0),
    ]:
        own = found.errors([alpha], beta=beta)[0]
        spread = np.hypot(own.std() / np.sqrt(len(own)), curves[name].remse_error[budget])
        assert abs(own.mean() - curves[name].remse[budget]) < 4 * spread, name


PAGE = np.linspace(-0.5, 1.5, 41).round(10)
FIXTURES = [
    ("imperfect", 1.0, 1.5), ("oracle", 1.0, 3.0), ("paper", -4.0, 5.0),
]  # fmt: skip


@pytest.mark.parametrize(("variant", "y", "theta"), FIXTURES)
def test_map_is_the_mean_of_the_runs_own_errors(problem, variant, y, theta):
    known = variant != "imperfect"
    proposals = amci.load_proposals("tail-1d", variant=variant) if known else imperfect()
    found = reuse_errors(problem, proposals, y, theta, alphas=PAGE, betas=PAGE, runs=300)
    own = np.stack([found.errors(PAGE, beta=b).mean(axis=-1) for b in PAGE], -1)
    np.testing.assert_allclose(found.remse, own, rtol=1e-10, atol=0)


@pytest.mark.parametrize("variant", ["spline", "oracle", "imperfect"])
def test_where_runs_settle_the_error_the_map_is_whole(problem, variant):
    proposals = (
        imperfect() if variant == "imperfect" else amci.load_proposals("tail-1d", variant=variant)
    )
    found = reuse_errors(problem, proposals, 1.0, 1.5, alphas=PAGE, betas=PAGE)
    near = np.ix_(abs(PAGE - 1) < 0.26, abs(PAGE) < 0.26)
    assert found.determined[near].mean() > 0.95
    assert found.best is not None
    assert found.remse[near].min() == found.remse[found.determined].min()


def test_where_mu_is_zero_there_is_no_relative_error(problem):
    zero = errors(problem, imperfect(), truth=0.0)
    assert np.isnan(zero.remse).all()
    assert np.isnan(zero.errors(ALPHAS, beta=0.0)).all()


def test_exact_proposals_have_no_error_at_amci_and_keep_its_digits(problem):
    found = errors(problem, amci.load_proposals("tail-1d", variant="oracle"))
    assert found.remse[ALPHAS.index(1.0), BETAS.index(0.0)] < 1e-28
    assert found.best == (1.0, 0.0)


def test_errors_grow_part_by_part_to_those_without_on_progress(problem):
    steps = []
    final = errors(problem, imperfect(), on_progress=steps.append)
    runs = [found.runs for found in steps]
    assert runs == sorted(set(runs))
    assert runs[0] < 10
    assert runs[-1] == final.runs_wanted == 300
    alone = errors(problem, imperfect())
    np.testing.assert_array_equal(final.remse, alone.remse)
    assert final.paper == alone.paper


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": []}, "alphas: expected a sequence of finite numbers"),
        ({"draws": 10**6, "runs": 10**6}, "draws times runs"),
        ({"y": [[1.0], [2.0]]}, "y: expected a single case"),
        ({"share": 0}, "share: expected a number between 0 and 1, got"),
        (
            {"share": 0.3, "common": True},
            "share: expected 0.5 with common random numbers, got 0.3",
        ),
    ],
)
def test_bad_arguments_are_named(problem, options, message):
    with pytest.raises(ValueError, match=message):
        errors(problem, imperfect(), **options)


def test_the_optimum_and_its_prediction_are_those_of_many_runs(problem):
    found = errors(problem, imperfect(), draws=200, runs=8000)
    for at in (found.optimum, found.paper, (1.0, 0.0)):
        relative = found.errors([at[0]], beta=at[1])[0]
        error = relative.std() / np.sqrt(len(relative))
        # The delta method leaves out terms of relative order 1 / N.
        assert abs(relative.mean() - found.predicted(*at)) < 4 * error + 0.1 * relative.mean()
    assert found.predicted(*found.optimum) <= min(
        found.predicted(*found.paper), found.predicted(1.0, 0.0), found.predicted(0.0, 0.0)
    )


@pytest.mark.parametrize(("y", "theta"), [(2.0, 0.5), (1.0, 1.5), (3.0, 0.1)])
def test_the_optimum_of_thin_tailed_proposals_is_not_above_amci(problem, y, theta):
    # Points of the reference that no run draws led to 68 times the error of AMCI at (2, 0.5).
    proposals = amci.load_proposals("tail-1d", variant="paper")
    settings = {"alphas": [1.0], "betas": [0.0]}
    other = reuse_errors(problem, proposals, y, theta, **settings, runs=3000, seed=99)
    for seed in range(3):
        found = reuse_errors(problem, proposals, y, theta, **settings, runs=500, seed=seed)
        (alpha, beta) = found.optimum
        assert other.errors([alpha], beta=beta).mean() < 1.2 * other.remse[0, 0]


def test_draws_go_where_they_are_sent(problem):
    even = errors(problem, imperfect(), draws=100)
    assert even.counts == (100, 100)
    alone = even.best_split_alone
    assert 0 < alone < 200
    split = errors(problem, imperfect(), draws=100, share=alone / 200)
    assert split.counts == (alone, 200 - alone)
    assert split.predicted(1.0, 0.0) <= even.predicted(1.0, 0.0) * 1.05


def test_common_random_numbers_help_where_errors_go_together(problem):
    # Both proposals are off in the same direction, so that f w and w rise together.
    plain, common = (
        reuse_errors(
            problem,
            imperfect(),
            y=2.0,
            theta=0.0,
            alphas=[1.0],
            betas=[0.0],
            draws=64,
            runs=4000,
            common=common,
        ).remse.item()
        for common in (False, True)
    )
    assert common < 0.8 * plain


def test_a_given_truth_stands_in_for_one_that_is_not_known(problem):
    known = errors(problem, imperfect(), runs=20)
    found = errors(hidden("tail-1d"), imperfect(), runs=20, truth=problem.truth(**POINT))
    np.testing.assert_allclose(found.remse, known.remse, rtol=1e-9)
    with pytest.raises(ValueError, match=r"^truth: tail-1d has no known mu"):
        errors(hidden("tail-1d"), imperfect())
    with pytest.raises(ValueError, match=r"^truth: expected finite numbers >= 0"):
        errors(problem, imperfect(), truth=-1.0)


def test_no_share_of_E2_comes_from_a_q1_whose_weights_have_a_heavy_tail():
    # 0.152 and 0 by quadrature, see below; q1 has 2e-9 of its mass where w is above 1,000.
    problem, proposals = amci.problem("cancer"), amci.load_proposals("cancer")
    found = reuse_errors(problem, proposals, [900.0, 60.0], alphas=[1.0], betas=[0.0], runs=300)
    np.testing.assert_allclose(found.optimum, [0.152, 0.0], atol=0.03)


@pytest.mark.slow
def test_the_optimum_is_that_of_second_moments_by_quadrature_where_no_run_meets_the_largest():
    # Neither proposal's draws show that E[w^2] is above 1e5 under q1.
    problem, proposals = amci.problem("cancer"), amci.load_proposals("cancer")
    y = [900.0, 60.0]
    nodes, weights = np.polynomial.legendre.leggauss(300)
    c0, epsilon = 730 + 670 * nodes, 0.5 + 0.48 * nodes
    x = torch.tensor(np.stack(np.meshgrid(c0, epsilon, indexing="ij"), -1).reshape(-1, 2))
    area = 670 * 0.48 * np.outer(weights, weights).ravel()
    at = problem.check(y)
    with torch.inference_mode():
        log_p, f = problem.log_joint(x, at[0]).numpy(), problem.f(x, None).numpy()
        log_q = {j: q.log_prob(x).numpy() for j, q in proposals.at(*at).items()}
    terms = np.stack([f, np.zeros_like(f), np.ones_like(f)])
    E = terms @ (area * np.exp(log_p))
    assert E[0] / E[2] == pytest.approx(float(problem.truth(y)), rel=1e-6)
    unit = np.where(E > 0, E, 1.0)
    covariance = np.full((3, 3, 3), np.nan)
    for j in (0, 2):
        second = (terms * (area * np.exp(2 * log_p - log_q[j]))) @ terms.T
        covariance[j] = second / np.outer(unit, unit) - np.outer(E > 0, E > 0)
    with np.errstate(divide="ignore"):
        exact = Moments(np.log(E), covariance, np.array([64.0, 0.0, 64.0]))
    best = tables.optimum(exact)[0, [0, 2]]
    assert covariance[0, 2, 2] > 1e5

    def variance(alpha, beta):
        return relative_variance(tables.reuse(alpha, beta), exact).item()

    assert best == pytest.approx([0.152, 0.0], abs=0.01)
    found = reuse_errors(problem, proposals, y, alphas=[1.0], betas=[0.0], runs=1000)
    np.testing.assert_allclose(found.optimum, best, atol=0.03)
    assert variance(*found.optimum) < 1.1 * variance(*best)
    assert found.predicted(*found.optimum) == pytest.approx(variance(*best), rel=0.2)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_what_runs_of_q1_never_meet_is_not_called_determined(y):
    # 30,000 runs at (0, 3): 2,075 at (0.5, 0.5), where 100 runs show 4e-4 and agree on it.
    shares = np.linspace(0, 1, 11)
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d", variant="paper")
    found = reuse_errors(problem, proposals, y, 3.0, alphas=shares, betas=shares, runs=100)
    assert not found.determined[:, 1:].any()
    assert found.best == (1.0, 0.0)


def test_an_error_that_all_runs_share_is_not_determined():
    # The paper's q1 misses three quarters of E1, in every run.
    found = reuse_errors(
        "tail-1d", "paper", -4.0, 5.0, alphas=[0.0, 0.5, 1.0], betas=[0.0, 0.5, 1.0], runs=300
    )
    assert not found.determined.any()
    assert found.best is None
    assert not found.prediction_holds


def test_a_signed_f_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"takes both signs; .*f >= 0\. Use error_curves"):
        amci.reuse_errors("gain-loss", y=1.0, theta=1.0, alphas=[1.0], betas=[0.0])
