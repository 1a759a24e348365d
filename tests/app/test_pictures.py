"""Numbers of density pictures, against closed forms; also of problems the app has never met."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers.known import level, level_range, log_truth
from amci_explorer.numbers.pictures import densities
from amci_explorer.numbers.weighted import weighted
from amci_explorer.plots.densities import CoursePicture, DensityPicture
from bokeh.models import ColumnDataSource
from conjugate import KINDS
from own_problems import EXPONENTIAL, FIRST, RARE, SQUARE
from scipy import stats
from scipy.integrate import cumulative_trapezoid
from torch.distributions import Gamma, Independent, Normal, Poisson

import amci_core as amci
from amci_core.models.cancer import trajectory

TAIL, CANCER = amci.problem("tail-5d"), amci.problem("cancer")
MEASUREMENTS = [(900.0, 60.0), (600.0, 250.0), (50.0, 1500.0), (1500.0, 50.0)]
CASES = [
    ((0.5,) * 5, (1.0,) * 5),
    ((3.0,) * 5, (0.1,) * 5),
    ((2.0, -1.0, 0.0, 1.0, 4.0), (0.0, 1.0, 0.5, 2.0, 0.1)),
    ((-6.0,) * 5, (3.0,) * 5),
]


def shipped(name, y, theta=None, variant="spline", **look):
    proposals = amci.load_proposals(name, variant=variant)
    return densities(amci.problem(name), proposals, y, theta, **look)


def pictured(found):
    picture = DensityPicture(found)
    picture.show(found)
    return picture


def column(picture, source, name):
    return picture.layout.select_one({"type": ColumnDataSource, "name": source}).data[name]


def mass(found, density):
    return np.trapezoid(np.trapezoid(density, found.x, axis=1), found.y)


@pytest.mark.parametrize(
    ("options", "noise"),
    [
        (SQUARE, 1.0),
        (SQUARE, 1e-2),
        (SQUARE, 1e-5),
        (SQUARE | {"f": "(x > 1).double().squeeze(-1)"}, 1.0),
        (FIRST | {"dim": 1}, 1.0),
    ],
)
def test_on_the_line_densities_are_found_however_narrow(new, options, noise):
    problem, proposals = new(**options)
    problem.log_likelihood = lambda x, y: Normal(x, noise).log_prob(y).sum(-1)
    found = densities(problem, proposals, 1.0)
    law = stats.norm(1 / (1 + noise**2), noise / np.sqrt(1 + noise**2))
    fine = law.mean() + law.std() * np.linspace(-12, 12, 100_001)

    def scaled(part, x):
        """Proportional to a part of f and the posterior."""
        return part(problem.f(torch.from_numpy(x)[:, None], None)).numpy() * law.pdf(x)

    for shown, part in (
        (found.posterior, torch.ones_like),
        (found.target, torch.relu),
        (found.target_minus, lambda f: torch.relu(-f)),
    ):
        if shown is not None:
            g = scaled(part, fine) / np.trapezoid(scaled(part, fine), fine)
            expected = scaled(part, found.x) / np.trapezoid(scaled(part, fine), fine)
            np.testing.assert_allclose(shown, expected, atol=1e-3 * g.max())
        if part is torch.relu:
            q1 = stats.norm(0.7, 1)
            kl = np.trapezoid(g * (np.log(np.maximum(g, 1e-300)) - q1.logpdf(fine)), fine)
    low, high = found.extent
    assert 3 * law.std() < min(law.mean() - low, high - law.mean())
    assert high - low < 20 * noise
    # Less the mass of q1 beyond the picture.
    beyond = q1.cdf(low) + q1.sf(high)
    assert found.divergence == pytest.approx(kl - beyond, abs=1e-3)
    np.testing.assert_array_equal(column(pictured(found), "densities", "q1"), found.q1)
    assert "99 % of g" in found.about()


def test_in_the_plane_with_both_signs(new):
    problem, proposals = new(**FIRST)
    y = (0.4, -1.0)
    found = densities(problem, proposals, y)
    s, mean = np.sqrt(0.5), np.array(y) / 2
    posterior = np.multiply.outer(
        stats.norm(mean[1], s).pdf(found.y), stats.norm(mean[0], s).pdf(found.x)
    )
    gain = s * stats.norm.pdf(mean[0] / s) + mean[0] * stats.norm.cdf(mean[0] / s)
    for shown, expected in (
        (found.posterior, posterior),
        (found.target, np.maximum(found.x, 0) * posterior / gain),
        (found.target_minus, np.maximum(-found.x, 0) * posterior / (gain - mean[0])),
    ):
        np.testing.assert_allclose(shown, expected, atol=0.02 * expected.max())
    assert set(found.columns) >= {"target_minus", "q1_minus", "x₁", "x₂"}
    picture_of = pictured(found)
    for name in ("target", "target_minus", "posterior", "q1", "q1_minus", "q2"):
        assert len(column(picture_of, f"plane-{name}-data", "xs")) > 0, name


def test_marginals_without_closed_forms_are_estimates(new):
    problem, proposals = new(**EXPONENTIAL)
    found = densities(problem, proposals, (1.0, 0.0, -1.0), coordinate=2, pair=(0, 2))
    s = np.sqrt(0.5)
    for name, mean, width in (("posterior", -0.5, s), ("target", -0.25, s), ("q1", -0.3, 1.0)):
        law = stats.norm(mean, width)
        gap = np.abs(getattr(found, name) - law.pdf(found.x)).max()
        assert gap < 0.06 * law.pdf(mean), name
    assert found.plane.labels == ("x₁", "x₃")
    assert mass(found.plane, found.plane.target) == pytest.approx(1, abs=0.05)
    # KL of two normals, that of the draws within its noise.
    exact = 3 * (np.log(1 / s) + (0.5 + 0.05**2) / 2 - 0.5)
    assert found.divergence == pytest.approx(exact, abs=0.1)
    assert len(column(pictured(found), "marginal", "target"))


def test_what_the_draws_cannot_judge_is_not_shown(new):
    problem, proposals = new(**RARE)
    found = densities(problem, proposals, (0.0, 0.0, 0.0))
    assert np.isnan(found.target).all()
    assert np.isfinite(found.posterior).all()
    assert np.isnan(found.divergence)
    assert found.doubt == "Not judged: g, effective sample size 0."
    assert "Not judged" in found.about()
    pictured(found)


@pytest.mark.parametrize("name", ["share-0.5", "share-1", "flat", "rate-0.5"])
def test_a_posterior_at_an_end_of_the_range_is_found(name):
    problem = KINDS[name]()
    proposals = amci.load_proposals(problem, variant="defensive")
    for y in (10.0, 0.0):
        found = densities(problem, proposals, y, 0.3)
        law, prior = problem.posterior(y), problem.log_prior(torch.from_numpy(found.x)[:, None])
        expected = law.pdf(found.x)
        np.testing.assert_allclose(found.posterior, expected, atol=1e-3 * expected.max())
        g = np.where(found.x > 0.3, expected, 0) / law.sf(0.3)
        np.testing.assert_allclose(found.target, g, atol=1e-3 * g.max())
        np.testing.assert_allclose(found.q1, prior.exp())
        low, high = found.extent
        assert problem.x.low <= low < high <= problem.x.high
    if name == "rate-0.5":
        # g is highest at the threshold, and the prior, which is infinite at 0, leaves the picture.
        highest = law.pdf(0.3) / law.sf(0.3)
        assert highest < pictured(found).figures["densities-q1"].y_range.end < 10 * highest


@pytest.mark.parametrize("a", [0.5, 2.0])
def test_densities_in_a_corner_of_the_plane_are_found(a):
    prior = Independent(Gamma(torch.tensor([a, a], dtype=torch.float64), 1.0), 1)
    problem = amci.model(prior=prior, likelihood=lambda x: Independent(Poisson(x), 1), f="x1 > 0")
    found = densities(problem, amci.load_proposals(problem, variant="defensive"), (0, 0))
    law = stats.gamma(a, scale=0.5)
    expected = np.multiply.outer(law.pdf(found.y), law.pdf(found.x))
    # Where it is infinite at the ends, the grid leaves out some of its mass.
    np.testing.assert_allclose(found.target, expected, rtol=0.15 if a < 1 else 0.01)
    # KL of both coordinates, less the mass of q1 beyond the picture
    outside = 1 - stats.gamma(a).cdf(found.extent[0][1]) ** 2
    kl = 2 * a * (np.log(2) - 0.5)
    assert found.divergence == pytest.approx(kl - outside, abs=0.02)


@pytest.mark.parametrize(
    ("name", "y", "theta", "tolerance"),
    [
        *((name, y, 2.9, 1e-9) for name in ("tail-1d", "gain-loss") for y in (-3.0, 0.5, 5.0)),
        *(("peak", None, theta, 0.03) for theta in ((0.3, 0.7, 0.4), (0.5, 0.5, 1.0))),
        *(("cancer", y, None, 0.03) for y in MEASUREMENTS),
    ],
)
def test_densities_of_shipped_problems_are_f_times_the_joint_over_the_term(
    name, y, theta, tolerance
):
    problem = amci.problem(name)
    y, theta = problem.check(y, theta)
    found = shipped(name, y, theta)
    axes = [found.x] if problem.x.dim == 1 else [found.x, found.y]
    x = torch.from_numpy(np.stack(np.meshgrid(*axes), -1).reshape(-1, len(axes)))
    f, log_p, log_terms = problem.f(x, theta), problem.log_joint(x, y), problem.log_terms(y, theta)
    for density, term, part in (
        (found.posterior, "E2", torch.ones_like(f)),
        (found.target, "E1_plus", f.relu()),
        (found.target_minus, "E1_minus", (-f).relu()),
    ):
        if density is not None:
            expected = (part.log() + log_p - float(log_terms.get(term, 0))).exp().numpy()
            np.testing.assert_allclose(
                density.ravel(), expected, atol=tolerance * expected.max(), err_msg=term
            )
    assert found.doubt == ""


def test_the_error_of_an_estimated_mismatch_holds_where_proposals_are_alike(new):
    # q1 and q2 are the same density here: with the same noise their draws would be, too.
    problem, proposals = new(shift=0.0, **EXPONENTIAL)
    found = [level(problem, proposals, (y, 0.0, 0.0)) for y in np.linspace(-1, 1, 20)]
    # KL(N(m + a, I / 2) || N(m, I / 2)) with a = 1/4 in each coordinate.
    off = np.array([(each.value - 3 * 0.25**2) / each.error for each in found])
    assert np.abs(off).max() < 4
    # Its terms are correlated: without those of the normalizers it would be 0.025.
    assert max(each.error for each in found) < 0.01
    drawn = weighted(problem, proposals, *problem.check((0.0, 0.0, 0.0)), draws=64)
    assert not np.intersect1d(drawn.x[:64], drawn.x[64:128]).size
    assert level_range(problem, (1.0, 0.0, -1.0)) is None
    assert np.isnan(log_truth(problem, (1.0, 0.0, -1.0)))


@pytest.mark.parametrize("name", amci.problems())
def test_every_picture_has_a_table_words_and_the_mismatch_that_the_problem_knows(name):
    problem = amci.problem(name)
    y, theta = problem.typical_case()
    found = shipped(name, y, theta)
    lengths = {len(values) for values in found.columns.values()}
    assert len(lengths) == 1
    assert {"target", "posterior", "q1"} <= set(found.columns)
    assert found.divergence >= 0
    assert "divergence of q1 from g" in found.about()
    known = level(problem, None, y, theta)
    assert (known.value, known.error) == (float(problem.mismatch(y, theta)), 0)


@pytest.mark.parametrize("theta", [(0.5, 0.5, 0.1), (0.3, 0.7, 1.0), (0.0, 1.0, 1.0)])
def test_an_exact_proposal_of_the_peak_differs_from_its_target_by_what_lies_outside(theta):
    found = shipped("peak", None, theta, variant="oracle")
    for density in (found.posterior, found.target):
        assert mass(found, density) == pytest.approx(1, abs=1e-12)
    on_grid = mass(found, found.q1)
    assert on_grid == pytest.approx(1, abs=0.03)
    # It has the target's shape, and so all of the divergence is that of the masses.
    np.testing.assert_allclose(found.q1, on_grid * found.target, rtol=1e-9)
    assert found.divergence == pytest.approx(on_grid - 1 - np.log(on_grid), abs=1e-12)
    assert found.q2 is None


@pytest.mark.parametrize(("y", "theta"), CASES)
def test_marginals_have_mass_one_and_end_at_theta(y, theta):
    found = shipped("tail-5d", y, theta, coordinate=3, pair=(1, 4))
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
    again = shipped("tail-5d", y, theta, coordinate=3, pair=(1, 4))
    np.testing.assert_array_equal(found.q1, again.q1)


@pytest.mark.parametrize(("y", "theta"), CASES[:3])
def test_marginals_of_g_are_those_of_exact_draws(y, theta):
    # Rejection would take too long: points of the reference, weighted.
    pair = TAIL.check(y, theta)
    x, log_q = TAIL.sample_defensive(*pair, 2**16, torch.Generator().manual_seed(0))
    weight = (TAIL.log_joint(x, pair[0]) - log_q).softmax(0).numpy()
    found = shipped("tail-5d", y, theta, coordinate=2, pair=(0, 2))
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


def test_the_posterior_is_exact_and_proposals_are_those_of_many_draws():
    found = shipped("tail-5d", *CASES[2], coordinate=3, pair=(1, 3))
    y, theta = TAIL.check(*CASES[2])
    mean, covariance = TAIL.posterior_mean(y).numpy(), TAIL.posterior_covariance
    law = stats.norm(mean[3], np.sqrt(covariance[3, 3]))
    np.testing.assert_allclose(found.posterior, law.pdf(found.x), rtol=1e-9, atol=1e-15)
    points = np.stack(np.meshgrid(found.plane.x, found.plane.y), -1)
    law = stats.multivariate_normal(mean[[1, 3]], covariance[np.ix_([1, 3], [1, 3])])
    np.testing.assert_allclose(found.plane.posterior, law.pdf(points), rtol=1e-9, atol=1e-15)
    proposals = amci.load_proposals("tail-5d")
    for shown, proposal in ((found.q1, proposals.q1_plus), (found.q2, proposals.q2)):
        with torch.inference_mode():
            x = proposal(y, theta).draw(2**15, torch.Generator().manual_seed(0))[0][:, 3].numpy()
        below = np.array([(x <= at).mean() for at in found.x])
        np.testing.assert_allclose(
            cumulative_trapezoid(shown, found.x, initial=0), below, atol=0.003 + 2 / 2**7.5
        )


@pytest.mark.parametrize("y", [(600.0, 250.0), (900.0, 60.0), (50.0, 1500.0)])
def test_courses_are_draws_from_the_posterior_and_solve_the_equations(y):
    found = shipped("cancer", y)
    picture = CoursePicture()
    picture.show(found)
    shown = picture.figures["course"]
    start, end = shown.y_range.start, shown.y_range.end
    ticks = [tick for tick in shown.yaxis.ticker.ticks if start <= tick <= end]
    assert len(ticks) >= 2
    # Pixels, of the 200 that the frame has at least: sizes beside it do not overlap.
    assert (200 * np.diff(np.log(ticks)) / np.log(end / start)).min() > 12
    found = found.course
    assert found.measured == ((0.0, y[0]), (5.0, y[1]))
    assert found.sizes.shape == (24, len(found.days))
    assert (found.days[0], found.days[-1]) == (0, 100)
    # Of 24 even draws 1 or 2 lie above a quantile of 95 %, and about 12 above the median.
    assert np.all((found.sizes > found.high).sum(0) <= 4)
    assert np.all((found.sizes < found.low).sum(0) <= 4)
    above = (found.sizes > found.median).sum(0)
    assert above.min() >= 8
    assert above.max() <= 16
    # Pictures do not flicker.
    near = shipped("cancer", (y[0] + 1, y[1])).course
    np.testing.assert_allclose(found.sizes, near.sizes, rtol=0.02)
    checked = CANCER.check(y)[0]
    x, log_q = CANCER.sample_defensive(checked, None, 20_000, torch.Generator().manual_seed(0))
    weight = (CANCER.log_joint(x, checked) - log_q).softmax(-1).numpy()
    x, weight = x[weight > 1e-9].numpy(), weight[weight > 1e-9]
    # By DOP853.
    sizes = trajectory(x[:, 0], x[:, 1], found.days)
    for rank, quantile in ((0.05, found.low), (0.5, found.median), (0.95, found.high)):
        share = weight @ (sizes < quantile)
        error = np.sqrt(rank * (1 - rank) * np.square(weight).sum())
        assert np.abs(share - rank).max() < 0.003 + 3 * error
