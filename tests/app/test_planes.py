"""Densities over planes and marginals, and the tumour's course: numbers for pictures."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers.pictures import densities
from amci_explorer.plots.densities import CoursePicture
from scipy import stats
from scipy.integrate import cumulative_trapezoid

import amci_core as amci
from amci_core.models.tumour import trajectory

TAIL, PEAK, CANCER = (amci.problem(name) for name in ("tail-5d", "peak", "cancer"))
MEASUREMENTS = [(900.0, 60.0), (600.0, 250.0), (50.0, 1500.0), (1500.0, 50.0)]
CASES = [
    ((0.5,) * 5, (1.0,) * 5),
    ((3.0,) * 5, (0.1,) * 5),
    ((2.0, -1.0, 0.0, 1.0, 4.0), (0.0, 1.0, 0.5, 2.0, 0.1)),
    ((-6.0,) * 5, (3.0,) * 5),
]


def mass(found, density):
    return np.trapezoid(np.trapezoid(density, found.x, axis=1), found.y)


def course(y):
    return densities(CANCER, amci.load_proposals("cancer"), y).course


def marginal(y, theta, **look):
    return densities(TAIL, amci.load_proposals("tail-5d"), y, theta, **look)


@pytest.mark.parametrize("theta", [(0.5, 0.5, 0.1), (0.3, 0.7, 1.0), (0.0, 1.0, 1.0)])
def test_densities_of_the_peak_have_mass_one(theta):
    found = densities(PEAK, amci.load_proposals("peak", variant="oracle"), None, theta)
    for density in (found.posterior, found.target):
        assert mass(found, density) == pytest.approx(1, abs=1e-12)
    # Of the exact proposal what lies within the grid, as far as the trapezoid rule tells: with
    # every second point it errs by more.
    a, shares = 100 ** theta[2], []
    for u in theta[:2]:
        low, first, last, high = np.arctan(a * (np.array([0, found.x[0], found.x[-1], 1]) - u))
        shares.append((last - first) / (high - low))
    on_grid = mass(found, found.q1)
    every_second = np.trapezoid(
        np.trapezoid(found.q1[::2, ::2], found.x[::2], axis=1), found.y[::2]
    )
    assert on_grid == pytest.approx(np.prod(shares), abs=abs(every_second - on_grid))
    # It has the target's shape, and so all of the divergence is that of the masses.
    np.testing.assert_allclose(found.q1, on_grid * found.target, rtol=1e-9)
    assert found.divergence == pytest.approx(on_grid - 1 - np.log(on_grid), abs=1e-12)
    assert found.q2 is None


@pytest.mark.parametrize("y", MEASUREMENTS)
def test_the_plane_of_the_tumour_is_its_posterior(y):
    found = densities(CANCER, amci.load_proposals("cancer"), y)
    points = torch.from_numpy(np.stack(np.meshgrid(found.x, found.y), -1).reshape(-1, 2))
    log_joint = CANCER.log_joint(points, CANCER.check(y)[0]).numpy()
    expected = np.exp(log_joint - log_joint.max()).reshape(found.posterior.shape)
    np.testing.assert_allclose(
        found.posterior / found.posterior.max(), expected, rtol=1e-6, atol=1e-9
    )
    f = CANCER.f(points, None).numpy().reshape(expected.shape)
    wanted = f * found.posterior / CANCER.truth(y)
    # Each end of the two axes leaves out 5e-4 of a density.
    np.testing.assert_allclose(found.target, wanted, rtol=4 * 5e-4, atol=1e-12 * wanted.max())


@pytest.mark.parametrize(("y", "theta"), CASES)
def test_marginals_have_mass_one_and_end_at_theta(y, theta):
    found = marginal(y, theta, coordinate=3, pair=(1, 4))
    # No chance: the draws are the same ones at every call. What is left are the ends of the axes,
    # 0.2 % at each, and the trapezoid rule on bins of which there are 64, and 32 by 32.
    for name in ("target", "posterior", "q1", "q2"):
        assert np.trapezoid(getattr(found, name), found.x) == pytest.approx(1, abs=0.01), name
        assert mass(found.plane, getattr(found.plane, name)) == pytest.approx(1, abs=0.06), name
    assert np.all(np.diff(found.x) > 0)
    assert np.all(found.target[found.x <= theta[3]] == 0)
    assert np.all(found.q1[found.x <= theta[3]] == 0)
    # It does not sink towards theta.
    if y != CASES[1][0]:
        assert found.target[found.x > theta[3]][0] > 0.3 * found.target.max()
    assert found.regions["g"][0] >= theta[3] - 0.1 == found.threshold - 0.1
    assert found.plane.labels == ("x₂", "x₅")


@pytest.mark.parametrize(("y", "theta"), CASES[:3])
def test_marginals_of_g_are_those_of_exact_draws(y, theta):
    # Rejection would take too long: points of the reference, weighted.
    pair = TAIL.check(y, theta)
    x, log_q = TAIL.sample_defensive(*pair, 2**16, torch.Generator().manual_seed(0))
    weight = (TAIL.log_joint(x, pair[0]) - log_q).softmax(0).numpy()
    found = marginal(y, theta, coordinate=2, pair=(0, 2))
    one = x[:, 2].numpy()
    below = np.array([weight @ (one <= at) for at in found.x])
    shown = cumulative_trapezoid(found.target, found.x, initial=0)
    # The axis leaves out a thousandth or two at its upper end.
    np.testing.assert_allclose(shown, below, atol=0.003 + 4 * np.sqrt(np.square(weight).sum()) / 2)
    # And of the pair, by the means of both and of their product.
    plane = found.plane
    for i, j in ((1, 0), (0, 1), (1, 1)):
        moment = np.multiply.outer(plane.y**j, plane.x**i) * plane.target
        expected = weight @ (x[:, 0].numpy() ** i * one**j)
        shown = mass(plane, moment) / mass(plane, plane.target)
        assert shown == pytest.approx(expected, rel=0.01), (i, j)


def test_the_posterior_and_a_normal_proposal_are_exact():
    found = marginal(*CASES[2], coordinate=3, pair=(1, 3))
    y, theta = TAIL.check(*CASES[2])
    mean, covariance = TAIL.posterior_mean(y).numpy(), TAIL.posterior_covariance
    law = stats.norm(mean[3], np.sqrt(covariance[3, 3]))
    np.testing.assert_allclose(found.posterior, law.pdf(found.x), rtol=1e-9, atol=1e-15)
    points = np.stack(np.meshgrid(found.plane.x, found.plane.y), -1)
    law = stats.multivariate_normal(mean[[1, 3]], covariance[np.ix_([1, 3], [1, 3])])
    np.testing.assert_allclose(found.plane.posterior, law.pdf(points), rtol=1e-9, atol=1e-15)
    assert found.estimated == ("q1",)
    x = amci.load_proposals("tail-5d").q2(y, theta).draw(2**16, torch.Generator().manual_seed(0))
    shown = np.trapezoid(found.q2 * found.x, found.x)
    assert shown == pytest.approx(float(x[0][:, 3].mean()), abs=0.02)


@pytest.mark.parametrize("name", ["tail-5d", "tail-20d"])
def test_an_estimated_marginal_of_q1_is_that_of_many_draws(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    y, theta = problem.check((0.5,) * problem.dim, (0.5,) * problem.dim)
    found = densities(problem, proposals, y, theta, coordinate=1)
    with torch.inference_mode():
        x = proposals.q1_plus(y, theta).draw(2**15, torch.Generator().manual_seed(0))[0][:, 1]
    below = np.array([(x.numpy() <= at).mean() for at in found.x])
    shown = cumulative_trapezoid(found.q1, found.x, initial=0)
    np.testing.assert_allclose(shown, below, atol=0.003 + 2 / np.sqrt(len(x)))


def test_pictures_do_not_flicker():
    first, again = (marginal(*CASES[0]) for _ in range(2))
    np.testing.assert_array_equal(first.q1, again.q1)
    near, far = (course((600.0 + shift, 250.0)) for shift in (0, 1))
    np.testing.assert_allclose(near.sizes, far.sizes, rtol=0.02)


@pytest.mark.parametrize("y", MEASUREMENTS)
def test_sizes_beside_the_course_do_not_overlap(y):
    found = densities(CANCER, amci.load_proposals("cancer"), y)
    picture = CoursePicture()
    picture.show(found)
    shown = picture.figures["course"]
    start, end = shown.y_range.start, shown.y_range.end
    ticks = [tick for tick in shown.yaxis.ticker.ticks if start <= tick <= end]
    assert len(ticks) >= 2
    # Pixels, of the 200 that the frame has at least.
    assert (200 * np.diff(np.log(ticks)) / np.log(end / start)).min() > 12


@pytest.mark.parametrize("y", MEASUREMENTS)
def test_courses_are_draws_from_the_posterior(y):
    found = course(y)
    assert found.probability == pytest.approx(float(CANCER.truth(y)), rel=1e-12)
    assert found.measured == ((0.0, y[0]), (5.0, y[1]))
    assert found.sizes.shape == (24, len(found.days))
    assert (found.days[0], found.days[-1]) == (0, 100)
    assert found.last == found.median[-1]
    # Of 24 even draws 1 or 2 lie above a quantile of 95 %, and about 12 above the median.
    assert np.all((found.sizes > found.high).sum(0) <= 4)
    assert np.all((found.sizes < found.low).sum(0) <= 4)
    above = (found.sizes > found.median).sum(0)
    assert above.min() >= 8
    assert above.max() <= 16


@pytest.mark.parametrize("y", [(775.0, 775.0), (600.0, 250.0), (500.0, 900.0)])
def test_sizes_are_those_of_weighted_draws_and_the_equations(y):
    found = course(y)
    checked = CANCER.check(y)[0]
    x, _ = CANCER.sample_defensive(checked, None, 100_000, torch.Generator().manual_seed(0))
    log_w = CANCER.log_joint(x, checked) - CANCER.log_defensive(x, checked, None)
    weight = log_w.softmax(-1).numpy()
    x, weight = x[weight > 1e-12].numpy(), weight[weight > 1e-12]
    # By DOP853.
    sizes = trajectory(x[:, 0], x[:, 1], found.days)
    for rank, quantile in ((0.05, found.low), (0.5, found.median), (0.95, found.high)):
        share = weight @ (sizes < quantile)
        error = np.sqrt(rank * (1 - rank) * np.square(weight).sum())
        assert np.abs(share - rank).max() < 0.003 + 3 * error
