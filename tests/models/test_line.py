"""What is filled in for a problem on the line agrees with the closed forms of the same problem."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch.distributions.constraints import greater_than, interval

import amci_core as amci
from amci_core.models import LineProblem, Variable

RNG = np.random.default_rng(3)
Y, THETA = RNG.normal(0, 1.4, (50, 1)), RNG.uniform(0.1, 2.9, (50, 1))


def same_as(name):
    """The problem of that name, as one would write it without its closed forms."""
    known = amci.problem(name)

    class Same(LineProblem):
        nonnegative = known.nonnegative
        x, y, theta = known.x, known.y, known.theta

        def support_plus(self, theta):
            return greater_than(theta)

    Same.name = name
    for method in ("log_prior", "log_likelihood", "f"):
        setattr(Same, method, lambda self, *a, method=method: getattr(known, method)(*a))
    for method in ("sample_prior", "sample_likelihood", "sample_theta", "with_negated_f"):
        setattr(Same, method, lambda self, *a, method=method: getattr(known, method)(*a))
    Same.__abstractmethods__ = frozenset()
    return Same()


@pytest.mark.parametrize("name", ["tail-1d", "gain-loss"])
def test_the_quadrature_gives_the_closed_forms(name):
    known, own = amci.problem(name), same_as(name)
    # f has a jump or a kink where reach is split, E|f - mu| another one at mu.
    assert own.truth(Y, THETA) == pytest.approx(known.truth(Y, THETA), rel=1e-9, abs=1e-15)
    assert own.mismatch(Y, THETA) == pytest.approx(known.mismatch(Y, THETA), rel=1e-5)
    assert own.mean_absolute_deviation(Y, THETA) == pytest.approx(
        known.mean_absolute_deviation(Y, THETA), rel=1e-8
    )


def call(k):
    """E max(x - k, 0) for a standard normal x."""
    return stats.norm.pdf(k) - k * stats.norm.sf(k)


KINKED = {
    "absolute deviation": (lambda x, k: (x - k).abs(), lambda k: 2 * call(k) + k),
    "call less its price": (lambda x, k: (x - k).clamp(min=0) - 0.2, lambda k: call(k) - 0.2),
    "exponential": (
        lambda x, k: (-(x - k).abs()).exp(),
        lambda k: (
            np.exp(0.5) * (np.exp(k) * stats.norm.sf(k + 1) + np.exp(-k) * stats.norm.cdf(k - 1))
        ),
    ),
    "hat": (
        lambda x, k: 1 + (0.5 - (x - k).abs()).clamp(min=0),
        lambda k: 1 + call(k - 0.5) - 2 * call(k) + call(k + 0.5),
    ),
    "step": (lambda x, k: 1 + (x > k).double(), lambda k: 1 + stats.norm.sf(k)),
}


@pytest.mark.parametrize("name", KINKED)
def test_truths_of_f_with_kinks_and_jumps_are_the_closed_forms(name):
    f, expected = KINKED[name]

    class Kinked(Plain):
        nonnegative = name != "call less its price"
        theta = Variable("theta", 1, -3.0, 3.0, "the place of the kink")

        def f(self, x, theta):
            return f(x, theta).squeeze(-1)

    k = np.linspace(-2.9, 2.9, 15)
    np.testing.assert_allclose(Kinked().truth(theta=k[:, None]), expected(k), rtol=0, atol=1e-11)


def test_the_reference_is_a_density_on_the_support():
    own = same_as("tail-1d")
    y, theta = own.check(Y, THETA)
    x, log_q = own.sample_defensive(y, theta, 2000, torch.Generator().manual_seed(0))
    assert (x[..., 0] > theta).all()
    # The mean of f p / q estimates E1 = mu E2, and that of tail-1d is known.
    log_p = own.log_joint(x, y)
    estimated = (log_p - log_q).exp().mean(-1).numpy()
    spread = (log_p - log_q).exp().std(-1).numpy() / np.sqrt(2000)
    e2 = np.exp(-(Y[:, 0] ** 2) / 4) / np.sqrt(4 * np.pi)
    z = (estimated - own.truth(Y, THETA) * e2) / spread
    assert np.abs(z).max() < 4.5


def test_the_mismatch_control_has_a_path():
    own = same_as("tail-1d")
    y, theta = own.at_mismatch(3.0, 1.0, 0.5)
    assert own.mismatch(y, theta) == pytest.approx(3.0, abs=1e-6)


class Plain(LineProblem):
    """N(0, 1); neither y nor theta is even declared. Each test adds what it is about."""

    name = "plain"
    nonnegative = True
    x = Variable("x", 1, -np.inf, np.inf, "a number")

    def log_prior(self, x):
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).squeeze(-1)

    def sample_prior(self, n, generator):
        return torch.randn(n, 1, generator=generator)

    def f(self, x, theta):
        return x.square().squeeze(-1)


class Above(Plain):
    theta = Variable("theta", 1, -np.inf, np.inf, "a bound")

    def f(self, x, theta):
        return (x > theta).to(x.dtype).squeeze(-1)

    def support_plus(self, theta):
        return greater_than(theta)

    def sample_theta(self, n, generator):
        return torch.randn(n, 1, generator=generator)


def test_a_mu_that_no_float_holds_has_its_bound():
    theta = np.array([[3.0], [37.0], [45.0]])
    log_mu = special.log_ndtr(-theta[:, 0])
    assert log_mu[2] < -1000
    found = Above().log_mean_absolute_deviation(theta=theta)
    np.testing.assert_allclose(found, np.log(2) + log_mu + np.log1p(-np.exp(log_mu)), atol=1e-8)


def test_without_y_and_a_theta_without_bounds():
    own = Above()
    theta = np.array([[-30.0], [0.5], [9.0]])
    assert own.truth(theta=theta) == pytest.approx(stats.norm.sf(theta[:, 0]), rel=1e-9)
    assert own.mismatch(theta=9.0) == pytest.approx(-stats.norm.logsf(9.0), rel=1e-9)
    with pytest.raises(ValueError, match=r"^mismatch: theta has an infinite range"):
        own.at_mismatch(1.0, theta=0.5)
    own.theta = Variable("theta", 1, -np.inf, np.inf, "a bound", typical_range=(-3.0, 3.0))
    _, there = own.at_mismatch(1.0, theta=0.5)
    assert own.mismatch(theta=there) == pytest.approx(1.0, abs=1e-6)


class Odd(LineProblem):
    """x from the mixture of two normals, far apart; mu of an odd function is zero."""

    name, nonnegative, apart, spread = "odd", False, 0.0, 1.0
    x, y, theta = Variable("x", 1, -math.inf, math.inf, "a number"), None, None
    f = staticmethod(lambda x, theta: x.sin().squeeze(-1))

    def log_prior(self, x):
        centres = torch.tensor([-self.apart, self.apart], dtype=x.dtype)
        each = torch.distributions.Normal(centres, self.spread).log_prob(x)
        return each.logsumexp(-1) - math.log(2)

    def sample_prior(self, n, generator):
        side = torch.randint(2, (n, 1), generator=generator) * 2.0 - 1
        return side * self.apart + self.spread * torch.randn(n, 1, generator=generator)


def test_mu_is_zero_where_quadrature_cannot_tell_its_parts_apart():
    own = Odd()
    assert own.truth() == 0
    assert own.log_truth()[1] == 0


@pytest.mark.parametrize("spread", [1.0, 0.01])
@pytest.mark.parametrize("apart", [5.0, 50.0, 1000.0])
def test_modes_of_the_prior_that_lie_apart_are_all_integrated(spread, apart):
    class Sigmoid(Odd):
        nonnegative = True
        f = staticmethod(lambda x, theta: x.sigmoid().squeeze(-1))

    own = Sigmoid()
    own.apart, own.spread = apart, spread
    assert own.truth() == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("share", "place", "width"),
    [(0.01, 1e3, 0.01), (0.003, 1e4, 0.01), (0.001, 50.0, 0.001), (0.001, 1.0, 1e-6)],
)
def test_a_narrow_mode_of_the_prior_that_few_draws_meet_is_not_lost(share, place, width):
    shares = torch.tensor([1 - share, share], dtype=torch.float64)
    places, widths = torch.tensor([[0.0, place], [1.0, width]], dtype=torch.float64)

    class Narrow(Plain):
        f = staticmethod(lambda x, theta: 1 + (x > place).double().squeeze(-1))

        def log_prior(self, x):
            each = torch.distributions.Normal(places, widths).log_prob(x)
            return (shares.log() + each).logsumexp(-1)

        def sample_prior(self, n, generator):
            mode = torch.multinomial(shares, n, replacement=True, generator=generator)
            z = torch.randn(n, generator=generator, dtype=torch.float64)
            return (places[mode] + widths[mode] * z)[:, None]

    expected = 1 + (1 - share) * stats.norm.sf(place) + share / 2
    assert Narrow().truth() == pytest.approx(expected, rel=1e-9)


def test_a_heavy_tail_is_integrated_or_refused():
    class Cauchy(Odd):
        nonnegative = True
        power = 0.9
        log_prior = staticmethod(lambda x: -(math.pi * (1 + x.square())).log().sum(-1))

        def f(self, x, theta):
            return x.abs().pow(self.power).squeeze(-1)

        def sample_prior(self, n, generator):
            return torch.empty(n, 1).cauchy_(generator=generator)

    assert Cauchy().truth() == pytest.approx(1 / math.cos(0.45 * math.pi), rel=1e-9)
    Cauchy.power = 1.0
    with pytest.raises(ValueError, match=r"^truth: the quadrature of E1_plus"):
        Cauchy().truth()


@pytest.mark.parametrize(
    "intervals",
    [[(0.5, 0.51)], [(2.0, 2.01)], [(1.0, 1.001)], [(-math.inf, -1.0), (1.0, 1.01)]],
)
def test_f_on_intervals_far_narrower_than_the_pieces(intervals):
    # It was 0, in silence.
    class Narrow(Plain):
        def f(self, x, theta):
            return sum((x > low) & (x < high) for low, high in intervals).squeeze(-1).double()

    expected = sum(stats.norm.cdf(high) - stats.norm.cdf(low) for low, high in intervals)
    assert Narrow().truth() == pytest.approx(expected, rel=1e-9)


def test_f_that_no_point_meets_is_refused_and_found_where_it_is_declared():
    class Hidden(Plain):
        f = staticmethod(lambda x, theta: ((x > 0.2) & (x < 0.2001)).squeeze(-1).double())

    class Declared(Hidden):
        support_plus = staticmethod(lambda theta: interval(0.2, 0.2001))

    with pytest.raises(ValueError, match=r"^f: zero at all .* support_plus"):
        Hidden().truth()
    truth = stats.norm.cdf(0.2001) - stats.norm.cdf(0.2)
    assert Declared().truth() == pytest.approx(truth, rel=1e-9)


class Modes(LineProblem):
    """y is x less one of some offsets and noise; f is 1 beyond theta, or (x - theta)^2."""

    name, nonnegative = "modes", True
    y, theta = (Variable(name, 1, -math.inf, math.inf, "a place") for name in ("y", "theta"))

    def __init__(self, width, noise, offsets, shares, *, uniform, square):
        end = width if uniform else math.inf
        self.x = Variable("x", 1, -end, end, "a place")
        self.width, self.noise, self.uniform, self.square = width, noise, uniform, square
        self.offsets, self.shares = torch.tensor(offsets).double(), torch.tensor(shares).double()

    def log_prior(self, x):
        z = x.squeeze(-1) / self.width
        return torch.zeros_like(z) if self.uniform else -z.square() / 2

    def sample_prior(self, n, generator):
        u = torch.rand(n, 1, dtype=torch.float64, generator=generator)
        return self.width * (2 * u - 1 if self.uniform else torch.special.ndtri(u))

    def log_likelihood(self, x, y):
        z = (y + self.offsets - x) / self.noise
        return (self.shares.log() - z.square() / 2).logsumexp(-1)

    def sample_likelihood(self, x, generator):
        return x + self.noise * torch.randn(x.shape, generator=generator)

    def sample_theta(self, n, generator):
        return torch.rand(n, 1, generator=generator)

    def f(self, x, theta):
        return ((x - theta).square() if self.square else (x > theta).double()).squeeze(-1)

    def expected(self, y, theta):
        mean, v, log_share = (y + self.offsets).numpy(), self.noise**2, self.shares.log().numpy()
        if not self.uniform:
            log_share = log_share - mean**2 / 2 / (v + self.width**2)
            mean, v = mean / (1 + v / self.width**2), v / (1 + v / self.width**2)
        away, share = mean - theta, special.softmax(log_share)
        each = away**2 + v if self.square else stats.norm.cdf(away / math.sqrt(v))
        return float((share * each).sum())


@pytest.mark.parametrize(("apart", "width"), [(30.0, 0.01), (1000.0, 1e-4)])
def test_both_modes_of_a_narrow_likelihood_are_found_anywhere_under_a_wide_prior(apart, width):
    own = Modes(1e4, width, [-apart, apart], [0.5, 0.5], uniform=True, square=True)
    y = np.random.default_rng(0).uniform(-8900, 8900, (20, 1))
    assert own.truth(y, 0.0) == pytest.approx(y[:, 0] ** 2 + apart**2 + width**2, rel=1e-8)


@pytest.mark.parametrize("cases", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_modes_of_one_width_are_found_at_any_distance_under_any_prior(cases):
    rng = np.random.default_rng(1)
    for _ in range(cases):
        width, noise, many = 10 ** rng.uniform(3, 6), 10 ** rng.uniform(-4, 0), rng.integers(1, 5)
        offsets = rng.uniform(-1, 1, many) * 10 ** rng.uniform(-2, 2)
        uniform, square = rng.random(2) < 0.5
        own = Modes(
            width, noise, offsets, rng.dirichlet(np.ones(many)), uniform=uniform, square=square
        )
        y = rng.uniform(-0.8, 0.8) * width
        theta = y + rng.choice(offsets) + noise * rng.uniform(-4, 4)
        # Places of a million are known to 1e-10.
        rounded = 10 * np.spacing(width) / noise
        expected = pytest.approx(own.expected(y, theta), rel=1e-6 + rounded)
        assert own.truth(y, theta) == expected, (width, noise, offsets, y, theta)


def test_a_prior_with_heavy_tails_and_f_on_an_interval():
    class Window(Plain):
        theta = Variable("theta", 1, 0.0, 1e6, "where the window begins")

        def log_prior(self, x):
            return torch.distributions.Cauchy(0.0, 1.0).log_prob(x).squeeze(-1)

        def sample_prior(self, n, generator):
            return torch.tan(math.pi * (torch.rand(n, 1, generator=generator) - 0.5))

        def f(self, x, theta):
            return ((x > theta) & (x < theta + 1e-3)).to(x.dtype).squeeze(-1)

        def support_plus(self, theta):
            return interval(theta, theta + 1e-3)

        def sample_theta(self, n, generator):
            return torch.rand(n, 1, generator=generator)

    theta = np.array([[0.0], [1.0], [1e5]])
    exact = np.arctan(1e-3 / (1 + theta * (theta + 1e-3)))[:, 0] / math.pi
    assert Window().truth(theta=theta) == pytest.approx(exact, rel=1e-6)


def prior_of(kind, *parameters):
    return kind(*(torch.tensor(p, dtype=torch.float64) for p in parameters))


Beta, Uniform = torch.distributions.Beta, torch.distributions.Uniform


@pytest.mark.parametrize(
    ("prior", "f", "expected"),
    [
        (prior_of(Beta, 0.5, 0.5), "x > 0.9", stats.beta.sf(0.9, 0.5, 0.5)),
        (prior_of(Beta, 0.2, 2.0), "x < 0.1", stats.beta.cdf(0.1, 0.2, 2.0)),
        (prior_of(Uniform, 0.0, 1.0), "x**-0.9", 10.0),
        (prior_of(Uniform, 0.0, 1.0), "(1 - x)**-0.4", 1 / 0.6),
    ],
)
def test_integrands_that_are_infinite_at_an_end_are_right(prior, f, expected):
    assert amci.model(prior=prior, f=f).truth() == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("prior", "f"),
    [
        # Half of the mass of Beta(0.02, 0.02) beside 1 lies beyond the last float.
        *[(prior_of(Beta, a, a), "x > 0.9") for a in (0.2, 0.1, 0.02)],
        (prior_of(Uniform, 0.0, 1.0), "(1 - x)**-0.9"),
        *[(prior_of(Uniform, 0.0, 1.0), f) for f in ("1 / x", "1 / (1 - x)", "(x - 0.3)**-2")],
    ],
)
def test_what_floats_do_not_resolve_is_refused(prior, f):
    with pytest.raises(ValueError, match=r"^truth: "):
        amci.model(prior=prior, f=f).truth()


def test_an_integral_that_does_not_converge_is_refused():
    class Wild(Plain):
        def f(self, x, theta):
            return (x.abs() % 1e-3 > 5e-4).to(x.dtype).squeeze(-1)

    with pytest.raises(ValueError, match=r"^truth: the quadrature of E1_plus has"):
        Wild().truth()


def test_what_is_not_a_number_within_the_line_is_refused():
    class Logarithm(Plain):
        def f(self, x, theta):
            return x.log().squeeze(-1)

        nonnegative = False

    with pytest.raises(ValueError, match=r"^truth: .* is NaN or infinite at x = -"):
        Logarithm().truth()


def test_a_signed_problem_has_both_parts_and_their_sign():
    class Cubic(Plain):
        nonnegative = False
        theta = Variable("theta", 1, -2.0, 2.0, "a shift")

        def f(self, x, theta):
            return (x**3 - theta).squeeze(-1)

        def sample_theta(self, n, generator):
            return torch.rand(n, 1, generator=generator)

    own = Cubic()
    theta = np.array([[-1.0], [0.25], [1.5]])
    assert own.truth(theta=theta) == pytest.approx(-theta[:, 0], rel=1e-9)
    plus, minus = (np.exp(own.log_terms(theta=theta)[t]) for t in ("E1_plus", "E1_minus"))
    assert plus - minus == pytest.approx(-theta[:, 0], rel=1e-9)


def test_x_in_two_dimensions_is_refused():
    own = Plain()
    own.x = Variable("x", 2, -np.inf, np.inf, "two numbers")
    with pytest.raises(ValueError, match=r"^x: expected one dimension for a LineProblem, got 2"):
        own.truth()


class Unseen(Plain):
    """f = x - theta or its positive part."""

    name, nonnegative = "unseen", False

    def f(self, x, theta):
        return (x - (0.4 if theta is None else theta)).squeeze(-1)


def test_there_need_be_neither_y_nor_theta():
    problem = Unseen()
    assert float(problem.truth()) == pytest.approx(-0.4, abs=1e-9)
    assert float(problem.mean_absolute_deviation()) == pytest.approx(
        math.sqrt(2 / math.pi), rel=1e-8
    )
    assert float(problem.mismatch()) > 0
    with pytest.raises(ValueError, match=r"^mismatch: unseen has neither y nor theta to vary"):
        problem.mismatch_range()
    assert amci.check(problem).findings == amci.check(problem.with_negated_f()).findings == ()


def test_a_path_through_cases_without_f_is_refused_in_words():
    class Window(Unseen):
        nonnegative = True
        theta = Variable("theta", 2, 0.0, 1.0, "begin and width")

        def f(self, x, theta):
            inside = (x > theta[..., :1]) & (x < theta.sum(-1, keepdim=True))
            return inside.to(x.dtype).squeeze(-1)

        def support_plus(self, theta):
            return interval(theta[..., :1], theta.sum(-1, keepdim=True))

    with pytest.raises(ValueError, match=r"^mismatch: undefined at theta = \[0.0, 0.0\], where"):
        Window().at_mismatch(1.0, theta=[0.5, 0.5])
