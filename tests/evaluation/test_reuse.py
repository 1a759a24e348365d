import numpy as np
import pytest
from imperfect import imperfect

import amci_core as amci
from amci_core.evaluation import reuse_errors

ALPHAS, BETAS = [0.0, 0.5, 1.0, 1.3], [-0.2, 0.0, 1.0]
POINT, PROBLEM, IMPERFECT = {"y": 1.0, "theta": 1.5}, "tail-1d", imperfect()


def errors(proposals=IMPERFECT, **options):
    settings = {"alphas": ALPHAS, "betas": BETAS, "draws": 16, "runs": 300, "seed": 3}
    return reuse_errors(PROBLEM, proposals, **(POINT | settings | options))


def test_corners_are_amci_and_self_normalized_importance_sampling():
    # Different draws of the same estimators: means over runs agree within their Monte Carlo error.
    found = errors(runs=2000, draws=32)
    # AMCI's 32 draws of each are 64 in all.
    corners = {"amci": (1, 0, 64), "snis-q2": (0, 0, 32), "snis-q1": (1, 1, 32)}
    for name, (alpha, beta, draws) in corners.items():
        how = {"draws": [draws], "runs": 2000, "estimators": [name], "seed": 4}
        curve = amci.error_curves(PROBLEM, IMPERFECT, **POINT, **how)[name]
        squares = found.errors([alpha], beta=beta)[0] ** 2
        spread = np.hypot(squares.std() / np.sqrt(len(squares)), curve.remse_error[0])
        assert abs(squares.mean() - curve.remse[0]) < 4 * spread, name
        on_grid = found.remse[ALPHAS.index(alpha), BETAS.index(beta)]
        assert on_grid == pytest.approx(squares.mean(), rel=1e-10), name


PAGE = np.linspace(-0.5, 1.5, 41).round(10)


@pytest.mark.parametrize("proposals", ["spline", "oracle", IMPERFECT])
def test_where_runs_settle_the_error_the_map_is_whole(proposals):
    found = reuse_errors(PROBLEM, proposals, 1.0, 1.5, alphas=PAGE, betas=PAGE)
    near = np.ix_(abs(PAGE - 1) < 0.26, abs(PAGE) < 0.26)
    assert found.determined[near].mean() > 0.95
    assert found.best is not None
    assert found.remse[near].min() == found.remse[found.determined].min()


def test_exact_proposals_have_no_error_at_amci_and_a_mu_of_zero_has_no_relative_error():
    exact, zero = errors("oracle"), errors(truth=0.0)
    assert exact.remse[ALPHAS.index(1.0), BETAS.index(0.0)] < 1e-28
    assert exact.best == (1.0, 0.0)
    assert np.isnan(zero.remse).all()
    assert zero.best is None


def test_errors_grow_part_by_part_to_those_without_on_progress():
    steps = []
    final, alone = errors(on_progress=steps.append), errors()
    runs = [found.runs for found in steps]
    assert runs == sorted(set(runs))
    assert runs[0] < 10 < runs[-1] == final.runs_wanted == 300
    np.testing.assert_array_equal(final.remse, alone.remse)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": []}, "alphas: expected a sequence of finite numbers"),
        ({"draws": 10**6, "runs": 10**6}, "draws times runs"),
        ({"y": [[1.0], [2.0]]}, "y: expected a single case"),
        ({"share": 0}, "share: expected a number between 0 and 1, got"),
        ({"share": 0.3, "common": True}, "share: expected 0.5 with common random numbers, got"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        errors(**options)
    with pytest.raises(ValueError, match=r"needs f >= 0 .*takes both signs\. Use error_curves"):
        reuse_errors("gain-loss", y=1.0, theta=1.0, alphas=[1.0], betas=[0.0])


def test_the_optimum_and_its_prediction_are_those_of_many_runs():
    found = errors(draws=200, runs=4000)
    for at in (found.optimum, found.paper, (1.0, 0.0)):
        squares = found.errors([at[0]], beta=at[1])[0] ** 2
        error = squares.std() / np.sqrt(len(squares))
        # The delta method leaves out terms of relative order 1 / N.
        assert abs(squares.mean() - found.predicted(*at)) < 4 * error + 0.1 * squares.mean()
    assert found.predicted(*found.optimum) <= min(
        found.predicted(*found.paper), found.predicted(1.0, 0.0), found.predicted(0.0, 0.0)
    )


def test_draws_go_where_they_are_sent():
    even = errors(draws=100)
    assert even.counts == (100, 100)
    alone, _ = even.best_splits
    assert 0 < alone < 200
    split = errors(draws=100, share=alone / 200)
    assert split.counts == (alone, 200 - alone)
    assert split.predicted(1.0, 0.0) <= even.predicted(1.0, 0.0) * 1.05


def test_common_random_numbers_help_where_errors_go_together():
    # Both proposals are off in the same direction, so that f w and w rise together.
    at = {"y": 2.0, "theta": 0.0, "alphas": [1.0], "betas": [0.0], "draws": 64, "runs": 3000}
    plain, common = (errors(**at, common=common).remse.item() for common in (False, True))
    assert common < 0.8 * plain


def test_no_share_of_E2_comes_from_a_q1_whose_weights_have_a_heavy_tail():
    # 0.152 and 0 by quadrature of the second moments; E[w^2] is above 1e5 under q1, which has 2e-9
    # of its mass where w is above 1,000: neither proposal's draws show it.
    found = reuse_errors("cancer", None, [900.0, 60.0], alphas=[1.0], betas=[0.0], runs=300)
    np.testing.assert_allclose(found.optimum, [0.152, 0.0], atol=0.03)


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_what_runs_of_q1_never_meet_is_not_called_determined(y):
    # 30,000 runs at (0, 3): 2,075 at (0.5, 0.5), where 100 runs show 4e-4 and agree on it.
    shares = np.linspace(0, 1, 11)
    found = reuse_errors(PROBLEM, "paper", y, 3.0, alphas=shares, betas=shares, runs=100)
    assert not found.determined[:, 1:].any()
    assert found.best == (1.0, 0.0)


def test_an_error_that_all_runs_share_is_not_determined():
    # The paper's q1 misses three quarters of E1, in every run.
    shares = [0.0, 0.5, 1.0]
    found = reuse_errors(PROBLEM, "paper", -4.0, 5.0, alphas=shares, betas=shares, runs=300)
    assert not found.determined.any()
    assert found.best is None
    assert not found.prediction_holds
