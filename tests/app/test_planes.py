"""Densities over planes and marginals, and the tumour's course: numbers for pictures."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers.marginal import DRAWS
from amci_explorer.numbers.pictures import densities
from scipy import stats

import amci_core as amci
from amci_core.flows import FAMILIES, Proposals
from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.models.tumour import trajectory

TAIL, PEAK, CANCER = (amci.problem(name) for name in ("tail-5d", "peak", "cancer"))
MEASUREMENTS = [(900.0, 60.0), (600.0, 250.0), (500.0, 900.0), (50.0, 1500.0), (1500.0, 50.0)]
CENTRES = [(0.5, 0.5, 0.1), (0.3, 0.7, 1.0), (0.0, 1.0, 1.0)]
CASES = [
    ((0.5,) * 5, (1.0,) * 5),
    ((3.0,) * 5, (0.1,) * 5),
    ((2.0, -1.0, 0.0, 1.0, 4.0), (0.0, 1.0, 0.5, 2.0, 0.1)),
    ((-6.0,) * 5, (3.0,) * 5),
]


@pytest.fixture(scope="module")
def untrained():
    """Proposals for the tumour with their first weights."""
    flows = []
    for seed in (0, 1):
        flow = FAMILIES["gamma-beta"](
            CANCER, size=500.0, spread=100.0, hidden=[8], activation="relu"
        )
        flow.initialize(torch.Generator().manual_seed(seed))
        flows.append(flow.double().eval().requires_grad_(False))
    return Proposals(
        problem="cancer", variant="untrained", q1_plus=flows[0], q1_minus=None, q2=flows[1]
    )


def mass(found, density):
    return np.trapezoid(np.trapezoid(density, found.x, axis=1), found.y)


def plane(problem, proposals, *, y=None, theta=None):
    return densities(problem, proposals, y, theta)


def course(y):
    return densities(CANCER, amci.load_proposals("cancer"), y).course


def marginal(y, theta, *, coordinate=0, pair=(0, 1), proposals=None):
    proposals = proposals or amci.load_proposals("tail-5d")
    return densities(TAIL, proposals, y, theta, coordinate=coordinate, pair=pair)


@pytest.mark.parametrize("theta", CENTRES)
def test_an_exact_q1_of_the_peak_equals_its_target(theta):
    found = plane(PEAK, amci.load_proposals("peak", variant="oracle"), theta=theta)
    np.testing.assert_allclose(found.q1, found.target, rtol=1e-9)
    assert found.q2 is None
    assert found.divergence == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("theta", CENTRES)
def test_densities_of_the_peak_have_mass_one(theta):
    found = plane(PEAK, amci.load_proposals("peak"), theta=theta)
    assert mass(found, found.posterior) == pytest.approx(1, abs=1e-12)
    assert mass(found, found.target) == pytest.approx(1, abs=0.01)
    # Its knots lie between the points of the grid.
    assert mass(found, found.q1) == pytest.approx(1, abs=0.03)


def test_the_divergence_of_the_peak_is_that_of_exact_draws():
    theta = (0.0, 1.0, 1.0)
    pair = PEAK.check(None, theta)
    exact = amci.load_proposals("peak", variant="oracle").q1_plus(*pair)
    learnt = amci.load_proposals("peak")
    x, log_g = exact.draw(50_000, torch.Generator().manual_seed(0))
    log_ratio = (log_g - learnt.q1_plus(*pair).log_prob(x)).numpy()
    error = log_ratio.std() / np.sqrt(len(log_ratio))
    found = plane(PEAK, learnt, theta=theta).divergence
    # A quadrature of a hundredth or two on a density with kinks.
    assert found == pytest.approx(log_ratio.mean(), abs=4 * error + 0.01)


@pytest.mark.parametrize("y", MEASUREMENTS)
def test_the_plane_of_the_tumour_is_its_posterior(y, untrained):
    found = plane(CANCER, untrained, y=y)
    assert mass(found, found.posterior) == pytest.approx(1, abs=1e-9)
    # Normalized with the truth, which comes from another quadrature.
    assert mass(found, found.target) == pytest.approx(1, abs=1e-6)
    points = torch.from_numpy(np.stack(np.meshgrid(found.x, found.y), -1).reshape(-1, 2))
    log_joint = CANCER.log_joint(points, CANCER.check(y)[0]).numpy()
    expected = np.exp(log_joint - log_joint.max()).reshape(found.posterior.shape)
    relative = found.posterior / found.posterior.max()
    np.testing.assert_allclose(relative, expected, rtol=1e-6, atol=1e-9)
    f = CANCER.f(points, None).numpy().reshape(expected.shape)
    np.testing.assert_allclose(
        found.target * CANCER.truth(y), f * found.posterior, rtol=1e-9, atol=1e-200
    )


def test_the_proposals_of_the_tumour_are_shown_as_they_are(untrained):
    y = (600.0, 250.0)
    found = plane(CANCER, untrained, y=y)
    i, j = 30, 20
    x = torch.tensor([[found.x[j], found.y[i]]], dtype=torch.float64)
    for name, proposal in (("q1", untrained.q1_plus), ("q2", untrained.q2)):
        expected = proposal(*CANCER.check(y)).log_prob(x).exp().item()
        assert getattr(found, name)[i, j] == pytest.approx(expected, rel=1e-12)
    assert found.divergence > 0


@pytest.mark.parametrize(("y", "theta"), CASES)
def test_marginals_have_mass_one(y, theta):
    found = marginal(y, theta, coordinate=3, pair=(1, 4))
    for name in ("target", "posterior", "q1", "q2"):
        assert np.trapezoid(getattr(found, name), found.x) == pytest.approx(1, abs=0.003), name
        assert mass(found.plane, getattr(found.plane, name)) == pytest.approx(1, abs=0.01), name
    assert np.all(np.diff(found.x) > 0)
    assert np.all(found.target[found.x <= theta[3]] == 0)
    assert np.all(found.q1[found.x <= theta[3]] == 0)


@pytest.mark.parametrize(("y", "theta"), CASES[:3])
def test_marginals_of_g_are_those_of_exact_draws(y, theta):
    # Rejection would take too long: points of the reference, weighted.
    pair = TAIL.check(y, theta)
    x, log_q = TAIL.sample_defensive(*pair, 2**18, torch.Generator().manual_seed(0))
    weight = (TAIL.log_joint(x, pair[0]) - log_q).exp().numpy()
    weight /= weight.sum()
    found = marginal(y, theta, coordinate=2, pair=(0, 3))
    for coordinate, density, points in (
        (2, found.target, found.x),
        (0, np.trapezoid(found.plane.target, found.plane.y, axis=0), found.plane.x),
        (3, np.trapezoid(found.plane.target, found.plane.x, axis=1), found.plane.y),
    ):
        draws = x[:, coordinate].numpy()
        mean = np.trapezoid(density * points, points)
        error = np.sqrt((weight**2 * (draws - weight @ draws) ** 2).sum())
        # Beside the draws' error, that of the quadrature on a coarse grid.
        assert mean == pytest.approx(weight @ draws, abs=4 * error + 2e-3)


def test_a_pair_of_g_is_what_a_quadrature_of_the_normal_gives():
    y, theta = (0.5,) * 5, (1.0, -0.0, 1.0, 0.5, 0.0)
    found = marginal(y, theta, pair=(0, 1)).plane
    mean = TAIL.posterior_mean(TAIL.check(y, theta)[0]).numpy()
    covariance = TAIL.posterior_covariance
    others = [2, 3, 4]
    gain = covariance[np.ix_(others, [0, 1])] @ np.linalg.inv(covariance[:2, :2])
    rest = covariance[np.ix_(others, others)] - gain @ covariance[:2, 2:]

    def unnormalized(i, j):
        x = np.array([found.x[j], found.y[i]])
        above = stats.multivariate_normal(
            -(mean[others] + gain @ (x - mean[:2])), rest, abseps=1e-8, releps=1e-8, seed=0
        ).cdf(-np.array(theta)[others])
        return above * stats.multivariate_normal(mean[:2], covariance[:2, :2]).pdf(x)

    places = [(-32, -32), (-24, -31), (-31, -24), (-20, -20)]
    expected = np.array([unnormalized(i, j) for i, j in places])
    shown = np.array([found.target[i, j] for i, j in places])
    assert (shown > 0).all()
    np.testing.assert_allclose(shown / shown[0], expected / expected[0], rtol=1e-4)


@pytest.mark.parametrize("coordinate", [0, 4])
def test_the_posterior_is_normal(coordinate):
    y, theta = CASES[2]
    found = marginal(y, theta, coordinate=coordinate)
    mean = TAIL.posterior_mean(TAIL.check(y, theta)[0]).numpy()[coordinate]
    scale = np.sqrt(TAIL.posterior_covariance[coordinate, coordinate])
    np.testing.assert_allclose(found.posterior, stats.norm(mean, scale).pdf(found.x), rtol=1e-9)


class Apart(Proposal):
    """Independent coordinates: exponential above theta, or logistic about zero."""

    def __init__(self, *, above: bool) -> None:
        self.above = above

    def __call__(self, y, theta):
        return ApartDensity(theta, above=self.above)


class ApartDensity(ConditionalDensity):
    def __init__(self, theta, *, above):
        super().__init__(torch.Size())
        self.theta = theta
        self.law = stats.expon(scale=0.7) if above else stats.logistic(scale=0.5)
        self.start = theta.numpy() if above else np.zeros(5)

    def draw(self, n, generator=None):
        uniform = torch.rand(n, 5, dtype=torch.float64, generator=generator)
        x = torch.from_numpy(self.start + self.law.ppf(uniform.numpy()))
        return x, self.log_prob(x)

    def log_prob(self, x):
        return torch.from_numpy(self.law.logpdf(x.numpy() - self.start).sum(-1))


@pytest.mark.parametrize(("y", "theta"), CASES[:3])
def test_marginals_of_proposals_are_theirs_even_where_they_are_bad(y, theta):
    bad = Proposals(
        problem="tail-5d",
        variant="bad",
        q1_plus=Apart(above=True),
        q1_minus=None,
        q2=Apart(above=False),
    )
    found = marginal(y, theta, coordinate=1, proposals=bad)
    for values, law, start in (
        (found.q1, stats.expon(scale=0.7), theta[1]),
        (found.q2, stats.logistic(scale=0.5), 0.0),
    ):
        expected = law.pdf(found.x - start)
        # The total variation left by the noise of the draws in about thirty smoothed bins.
        assert np.trapezoid(np.abs(values - expected), found.x) / 2 < np.sqrt(30 / DRAWS) / 2
    assert found.divergence > 0.1


def test_trained_marginals_lie_on_what_they_should_be():
    for y, theta in CASES[:2]:
        found = marginal(y, theta)
        assert np.abs(found.q1 - found.target).max() < 0.1 * found.target.max()
        assert np.abs(found.q2 - found.posterior).max() < 0.05 * found.posterior.max()
        assert 0 <= found.divergence < 0.02


def test_the_shaded_region_carries_nearly_all_of_g():
    found = marginal(*CASES[0], coordinate=1)
    low, high = found.region
    x = np.linspace(low, high, 20_001)
    share = np.trapezoid(np.interp(x, found.x, found.target), x)
    assert share == pytest.approx(0.99, abs=1e-3)
    assert low >= found.threshold == 1.0


def test_pictures_do_not_flicker():
    first, again = (marginal(*CASES[0]) for _ in range(2))
    np.testing.assert_array_equal(first.q1, again.q1)
    np.testing.assert_array_equal(first.plane.q2, again.plane.q2)
    near, far = (course((600.0 + shift, 250.0)) for shift in (0, 1))
    np.testing.assert_allclose(near.sizes, far.sizes, rtol=0.02)


def test_pairs_are_labelled_by_their_coordinates():
    assert marginal(*CASES[0], pair=(1, 4)).plane.labels == ("x₂", "x₅")


@pytest.mark.parametrize("y", MEASUREMENTS)
def test_courses_are_draws_from_the_posterior(y):
    found = course(y)
    assert found.probability == pytest.approx(float(CANCER.truth(y)), rel=1e-12)
    assert found.measured == ((0.0, y[0]), (5.0, y[1]))
    assert found.sizes.shape == (24, len(found.days))
    assert (found.days[0], found.days[-1]) == (0, 100)
    assert np.all(found.low <= found.median)
    assert np.all(found.median <= found.high)
    assert found.last == found.median[-1]
    # Of 24 even draws 1 or 2 lie above a quantile of 95 %, and about 12 above the median.
    assert np.all((found.sizes > found.high).sum(0) <= 4)
    assert np.all((found.sizes < found.low).sum(0) <= 4)
    above = (found.sizes > found.median).sum(0)
    assert above.min() >= 8
    assert above.max() <= 16


@pytest.mark.parametrize("y", MEASUREMENTS)
def test_courses_solve_the_equations(y):
    found = course(y)
    c0, fifth = found.sizes[:, 0], found.sizes[:, list(found.days).index(5)]
    low, high = np.zeros_like(c0), np.ones_like(c0)
    for _ in range(40):
        middle = (low + high) / 2
        larger = trajectory(c0, middle, [5.0])[:, 0] > fifth
        low, high = np.where(larger, middle, low), np.where(larger, high, middle)
    np.testing.assert_allclose(found.sizes, trajectory(c0, low, found.days), rtol=5e-3)


def test_quantiles_of_sizes_are_those_of_independent_draws():
    y = CANCER.check((600.0, 250.0))[0]
    found = course((600.0, 250.0))
    x, _ = CANCER.sample_defensive(y, None, 20_000, torch.Generator().manual_seed(0))
    weight = CANCER.log_likelihood(x, y).exp().numpy()
    chosen = np.random.default_rng(0).choice(len(x), 4000, p=weight / weight.sum())
    sizes = trajectory(x[chosen, 0].numpy(), x[chosen, 1].numpy(), found.days)
    for rank, quantile in ((0.05, found.low), (0.5, found.median), (0.95, found.high)):
        # The share of draws below, within four standard errors of some 2000 effective ones.
        share = (sizes < quantile).mean(0)
        assert np.abs(share - rank).max() < 4 * np.sqrt(rank * (1 - rank) / 2000)
