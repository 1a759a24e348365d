"""A problem that the app has never met has its density picture: numbers against closed forms."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers import line
from amci_explorer.numbers.known import level, level_range, log_truth
from amci_explorer.numbers.pictures import densities
from amci_explorer.numbers.weighted import weighted
from amci_explorer.plots.densities import DensityPicture
from bokeh.models import ColumnDataSource
from conjugate import KINDS, Rate
from own_problems import EXPONENTIAL, FIRST, RARE, SQUARE
from scipy import stats
from torch.distributions import Normal

import amci_core as amci
from amci_core.models import Problem, Variable


def pictured(found):
    picture = DensityPicture(found)
    picture.show(found)
    return picture


def column(picture, source, name):
    return picture.layout.select_one({"type": ColumnDataSource, "name": source}).data[name]


def test_on_the_line_without_theta(new):
    problem, proposals = new(**SQUARE)
    found = densities(problem, proposals, 1.0)
    posterior = stats.norm(0.5, np.sqrt(0.5)).pdf(found.x)
    target = found.x**2 * posterior / (0.5**2 + 0.5)
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-3 * posterior.max())
    np.testing.assert_allclose(found.target, target, atol=1e-3 * target.max())
    # KL of g from a normal, by a finer quadrature.
    x = np.linspace(-8, 8, 100_001)
    g = x**2 * stats.norm(0.5, np.sqrt(0.5)).pdf(x) / 0.75
    ratio = np.log(np.maximum(g, 1e-300)) - stats.norm(0.7, 1).logpdf(x)
    assert found.divergence == pytest.approx(np.trapezoid(g * ratio, x), abs=1e-3)
    shown = pictured(found)
    np.testing.assert_array_equal(column(shown, "densities", "target"), found.target)
    low, high = found.extent
    assert low < -1.5
    assert high > 2.5
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
    assert set(found.estimated) == {"target", "posterior", "q1", "q2"}
    scale = np.sqrt(0.5)
    for name, mean, width in (
        ("posterior", -0.5, scale),
        ("target", -0.25, scale),
        ("q1", -0.3, 1.0),
    ):
        law = stats.norm(mean, width)
        gap = np.abs(getattr(found, name) - law.pdf(found.x)).max()
        assert gap < 0.06 * law.pdf(mean), name
    assert found.plane.labels == ("x₁", "x₃")
    mass = np.trapezoid(np.trapezoid(found.plane.target, found.plane.x, axis=1), found.plane.y)
    assert mass == pytest.approx(1, abs=0.05)
    # KL of two normals, that of the draws within its noise.
    exact = 3 * (np.log(1 / scale) + (0.5 + 0.05**2) / 2 - 0.5)
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


@pytest.mark.parametrize("noise", [1e-5, 1e-2])
def test_a_narrow_posterior_on_the_line_is_found(new, noise):
    problem, proposals = new(**SQUARE)
    problem.log_likelihood = lambda x, y: Normal(x, noise).log_prob(y).sum(-1)
    found = densities(problem, proposals, 1.0)
    law = stats.norm(1 / (1 + noise**2), noise / np.sqrt(1 + noise**2))
    expected = law.pdf(found.x)
    np.testing.assert_allclose(found.posterior, expected, atol=1e-3 * expected.max())
    assert found.extent[1] - found.extent[0] < 20 * noise


@pytest.mark.parametrize("name", KINDS)
def test_a_posterior_at_an_end_of_the_range_is_found(name):
    problem = KINDS[name]()
    proposals = amci.load_proposals(problem, variant="defensive")
    for y in (0.0, 6.0, 10.0):
        found = densities(problem, proposals, y, 0.3)
        law, prior = problem.posterior(y), problem.log_prior(torch.from_numpy(found.x)[:, None])
        expected = law.pdf(found.x)
        np.testing.assert_allclose(found.posterior, expected, atol=1e-3 * expected.max())
        g = np.where(found.x > 0.3, expected, 0) / law.sf(0.3)
        np.testing.assert_allclose(found.target, g, atol=1e-3 * g.max())
        np.testing.assert_allclose(found.q1, prior.exp())
        low, high = found.extent
        assert problem.x.low <= low < high <= problem.x.high


def test_a_density_that_is_infinite_at_an_end_leaves_the_picture_there():
    problem = KINDS["rate-0.5"]()
    proposals = amci.load_proposals(problem, variant="defensive")
    found = densities(problem, proposals, 0.0, 0.3)
    # g is highest at the threshold.
    highest = stats.gamma(0.5, scale=0.5).pdf(0.3) / stats.gamma(0.5, scale=0.5).sf(0.3)
    assert highest < pictured(found).figures["densities-q1"].y_range.end < 10 * highest


@pytest.mark.parametrize("a", [0.5, 2.0])
def test_densities_in_a_corner_of_the_plane_are_found(a):
    class Two(Problem):
        name, nonnegative = "two", True
        x = Variable("x", 2, 0.0, np.inf, "rates")
        y = Variable("y", 2, 0.0, np.inf, "counts", typical_range=(0.0, 12.0))
        log_prior, log_likelihood = Rate.log_prior, Rate.log_likelihood
        sample_likelihood = Rate.sample_likelihood

        def f(self, x, theta):
            return torch.ones_like(x[..., 0])

        def sample_prior(self, n, generator):
            return torch.distributions.Gamma(self.a, 1.0).sample((n, 2))

    problem = Two()
    problem.a = a
    found = densities(problem, amci.load_proposals(problem, variant="defensive"), (0, 0))
    law = stats.gamma(a, scale=0.5)
    expected = np.multiply.outer(law.pdf(found.y), law.pdf(found.x))
    # Where it is infinite at the ends, the grid leaves out some of its mass.
    np.testing.assert_allclose(found.target, expected, rtol=0.15 if a < 1 else 0.01)
    # KL of both coordinates, less the mass of q1 beyond the picture
    outside = 1 - stats.gamma(a).cdf(found.extent[0][1]) ** 2
    kl = 2 * a * (np.log(2) - 0.5)
    assert found.divergence == pytest.approx(kl - outside, abs=0.02)


@pytest.mark.parametrize("name", ["tail-1d", "gain-loss"])
def test_the_quadrature_agrees_with_closed_forms(name, monkeypatch):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    for y in (-3.0, 0.5, 5.0):
        for theta in (0.1, 2.9):
            exact = densities(problem, proposals, y, theta)
            with monkeypatch.context() as context:
                context.setattr(line, "_log_masses", lambda *_: {})
                found = densities(problem, proposals, y, theta)
            for shown in ("target", "posterior", "target_minus"):
                wanted = getattr(exact, shown)
                if wanted is not None:
                    np.testing.assert_allclose(
                        getattr(found, shown), wanted, atol=1e-3 * wanted.max()
                    )


@pytest.mark.parametrize("name", ["peak", "cancer"])
def test_planes_agree_with_closed_forms(name):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    cases = {"peak": [(None, (0.3, 0.7, 0.4)), (None, (0.5, 0.5, 1.0))]}
    for case in cases.get(name, [((600.0, 250.0), None), ((500.0, 900.0), None)]):
        y, theta = problem.check(*case)
        found = densities(problem, proposals, y, theta)
        points = np.stack(np.meshgrid(found.x, found.y), -1).reshape(-1, 2)
        x = torch.from_numpy(points)
        log_g = (problem.log_joint(x, y) + problem.f(x, theta).log()).numpy()
        expected = np.exp(log_g - problem.log_terms(y, theta)["E1_plus"])
        np.testing.assert_allclose(found.target.ravel(), expected, atol=0.03 * expected.max())
        assert found.doubt == ""


def test_an_unknown_mismatch_is_estimated_with_its_error(new):
    problem, proposals = new(**EXPONENTIAL)
    found = level(problem, proposals, (1.0, 0.0, -1.0))
    # KL(N(m + a, I / 2) || N(m, I / 2)) with a = 1/4 in each coordinate.
    assert found.value == pytest.approx(3 * 0.25**2, abs=4 * found.error)
    assert 0 < found.error < 0.05
    assert level_range(problem, (1.0, 0.0, -1.0)) is None
    assert np.isnan(log_truth(problem, (1.0, 0.0, -1.0)))


def test_the_error_of_an_estimated_mismatch_holds_where_proposals_are_alike(new):
    # q1 and q2 are the same density here: with the same noise their draws would be, too.
    problem, proposals = new(shift=0.0, **EXPONENTIAL)
    found = [level(problem, proposals, (y, 0.0, 0.0)) for y in np.linspace(-1, 1, 40)]
    off = np.array([(each.value - 3 / 16) / each.error for each in found])
    assert np.abs(off).max() < 4
    drawn = weighted(problem, proposals, *problem.check((0.0, 0.0, 0.0)), draws=64)
    assert not np.intersect1d(drawn.x[:64], drawn.x[64:128]).size


@pytest.mark.parametrize(("y", "theta"), [(-4.0, 5.0), (1.0, 3.0), (3.0, 0.1)])
def test_the_divergence_is_that_of_a_fine_grid(y, theta):
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    found = densities(problem, proposals, y, theta)
    q1 = proposals.at(*problem.check(y, theta))[0]
    # Closer where f begins: there q1 may change within a hundredth.
    x = theta + 1e-9 + 8 * torch.linspace(0, 1, 400_001, dtype=torch.float64)[:, None] ** 3
    log_g = problem.optimal_proposals()["q1_plus"](*problem.check(y, theta)).log_prob(x)
    log_q = q1.log_prob(x)
    inside = log_g.exp() * (log_g - log_q) - log_g.exp() + log_q.exp()
    below = 1 - torch.trapezoid(log_q.exp(), x[:, 0])
    expected = float(torch.trapezoid(inside, x[:, 0]) + below)
    assert found.divergence == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("name", amci.problems())
def test_a_known_mismatch_is_what_an_estimate_would_find(name, monkeypatch):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    y, theta = problem.typical_case()
    known = level(problem, proposals, y, theta)
    assert known.error == 0
    assert known.value == float(problem.mismatch(y, theta))

    # Another case, since what is known is kept.
    moved = (None, np.asarray(theta) * 0.999) if y is None else (np.asarray(y) + 0.01, theta)
    exact = float(problem.mismatch(*moved))

    def unknown(*_):
        raise ValueError("mismatch: it does not know it")

    monkeypatch.setattr(type(problem), "_mismatch", unknown)
    estimate = level(problem, proposals, *moved)
    assert estimate.value == pytest.approx(exact, abs=4 * estimate.error)
    assert 0 < estimate.error < 0.1


@pytest.mark.parametrize("name", amci.problems())
def test_every_picture_has_a_table_and_words(name):
    problem = amci.problem(name)
    found = densities(problem, amci.load_proposals(name), *problem.typical_case())
    lengths = {len(values) for values in found.columns.values()}
    assert len(lengths) == 1
    assert {"target", "posterior", "q1"} <= set(found.columns)
    assert found.divergence >= 0
    assert "divergence of q1 from g" in found.about()
