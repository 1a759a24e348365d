"""What is filled in for a problem on the line agrees with the closed forms of the same problem."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch.distributions import Beta, Categorical, Cauchy, MixtureSameFamily, Normal, Uniform
from torch.distributions.constraints import greater_than, interval

import amci_core as amci
from amci_core.models import LineProblem, Variable

UNIT = Variable("x", 1, 0.0, 1.0, "a share")
ANYWHERE = Variable("theta", 1, -math.inf, math.inf, "a place")


class Line(LineProblem):
    """A problem from f and a prior of torch, N(0, 1) by default; attributes override the others.

    Without y and theta: they are not even declared.
    """

    name, nonnegative = "line", True
    x = Variable("x", 1, -math.inf, math.inf, "a number")

    def __init__(self, function, prior=Normal(0.0, 1.0), **attributes):  # noqa: B008
        self.function, self.prior = function, prior
        vars(self).update(attributes)

    def log_prior(self, x):
        return self.prior.log_prob(x).squeeze(-1)

    def sample_prior(self, n, generator):
        return self.prior.sample((n, 1))

    def sample_theta(self, n, generator):
        return torch.rand(n, self.theta.dim, generator=generator) if self.theta else None

    def f(self, x, theta):
        return self.function(x, theta).to(x.dtype).squeeze(-1)


def exact(kind, *parameters):
    """A distribution whose parameters are float64."""
    return kind(*(torch.tensor(p, dtype=torch.float64) for p in parameters), validate_args=False)


def mixture(shares, places, widths):
    return MixtureSameFamily(exact(Categorical, shares), exact(Normal, places, widths))


@pytest.mark.parametrize("name", ["tail-1d", "gain-loss"])
def test_the_quadrature_gives_the_closed_forms(name):
    known = amci.problem(name)
    defined = ("nonnegative", "y", "theta", "log_likelihood", "sample_likelihood")
    own = Line(
        None, f=known.f, support_plus=greater_than, **{a: getattr(known, a) for a in defined}
    )
    rng = np.random.default_rng(3)
    case = rng.normal(0, 1.4, (5, 1)), rng.uniform(0.1, 2.9, (5, 1))
    # f has a jump or a kink at the end of support_plus, |f - mu| another one where f is mu.
    assert own.truth(*case) == pytest.approx(known.truth(*case), rel=1e-9, abs=1e-15)
    assert own.mismatch(*case) == pytest.approx(known.mismatch(*case), rel=1e-5)
    assert own.mean_absolute_deviation(*case) == pytest.approx(
        known.mean_absolute_deviation(*case), rel=1e-8
    )


def call(k):
    """E max(x - k, 0) for a standard normal x."""
    return stats.norm.pdf(k) - k * stats.norm.sf(k)


KINKED = {
    "absolute deviation": (lambda x, k: (x - k).abs(), lambda k: 2 * call(k) + k),
    "call less its price": (lambda x, k: (x - k).clamp(min=0) - 0.2, lambda k: call(k) - 0.2),
    "cubic": (lambda x, k: x**3 - k, lambda k: -k),
    "step": (lambda x, k: 1 + (x > k).double(), lambda k: 1 + stats.norm.sf(k)),
}


@pytest.mark.parametrize("name", KINKED)
def test_truths_of_f_with_kinks_and_jumps_are_the_closed_forms(name):
    f, expected = KINKED[name]
    signed = name in ("cubic", "call less its price")
    own = Line(f, nonnegative=not signed, theta=Variable("theta", 1, -3.0, 3.0, "the kink"))
    k = np.linspace(-2.9, 2.9, 33 if name == "step" else 5)
    np.testing.assert_allclose(own.truth(theta=k[:, None]), expected(k), rtol=0, atol=1e-11)
    if signed:
        terms = own.log_terms(theta=k[:, None])
        parts = np.exp(terms["E1_plus"]) - np.exp(terms["E1_minus"])
        np.testing.assert_allclose(parts, expected(k), rtol=0, atol=1e-11)


def test_a_threshold_without_bounds_may_lie_where_no_float_holds_mu():
    own = Line(lambda x, theta: x > theta, theta=ANYWHERE, support_plus=greater_than)
    theta = np.array([[-30.0], [0.5], [9.0], [37.0], [45.0]])
    log_mu = special.log_ndtr(-theta[:, 0])
    assert log_mu[-1] < -1000
    np.testing.assert_allclose(own.log_truth(theta=theta)[0], log_mu, rtol=1e-9, atol=1e-9)
    found = own.log_mean_absolute_deviation(theta=theta[2:])
    # 2 mu (1 - mu), and mu is nothing beside 1.
    np.testing.assert_allclose(found, np.log(2) + log_mu[2:], atol=1e-8)
    assert own.mismatch(theta=9.0) == pytest.approx(-log_mu[2], rel=1e-9)
    own.theta = Variable("theta", 1, -np.inf, np.inf, "a bound", typical_range=(-3.0, 3.0))
    _, there = own.at_mismatch(1.0, theta=0.5)
    assert own.mismatch(theta=there) == pytest.approx(1.0, abs=1e-6)


def test_mu_is_zero_where_quadrature_cannot_tell_its_parts_apart():
    own = Line(lambda x, _: x.sin(), nonnegative=False)
    assert own.truth() == 0
    assert own.log_truth()[1] == 0


def apart(spread, place):
    prior = mixture([0.5, 0.5], [-place, place], [spread, spread])
    return Line(lambda x, _: x.sigmoid(), prior), 0.5


def narrow(share, place, width):
    """A mode that few draws of the prior meet."""
    prior = mixture([1 - share, share], [0.0, place], [1.0, width])
    expected = 1 + (1 - share) * stats.norm.sf(place) + share / 2
    return Line(lambda x, _: 1 + (x > place).double(), prior), expected


def within(*intervals, **attributes):
    expected = sum(stats.norm.cdf(high) - stats.norm.cdf(low) for low, high in intervals)
    own = Line(lambda x, _: sum((x > low) & (x < high) for low, high in intervals), **attributes)
    return own, expected


def of_a_share(f, kind, *parameters):
    """With a prior on the unit interval."""
    return Line(lambda x, _: f(x), exact(kind, *parameters), x=UNIT)


NEEDLE = (0.2, 0.2001)
TRUTHS = {
    "modes apart": apart(1.0, 50.0),
    "narrow modes far apart": apart(0.01, 1000.0),
    "a mode with a hundredth": narrow(0.01, 1e3, 0.01),
    "a mode with a thousandth": narrow(0.001, 50.0, 0.001),
    "a needle of the prior": narrow(0.001, 1.0, 1e-6),
    "an interval": within((1.0, 1.001)),
    "two intervals": within((-math.inf, -1.0), (1.0, 1.01)),
    # No point meets it.
    "an interval that is declared": within(NEEDLE, support_plus=lambda theta: interval(*NEEDLE)),
    "a prior that is infinite at both ends": (
        of_a_share(lambda x: x > 0.9, Beta, 0.5, 0.5),
        stats.beta.sf(0.9, 0.5, 0.5),
    ),
    "a prior that is infinite at one end": (
        of_a_share(lambda x: x < 0.1, Beta, 0.2, 2.0),
        stats.beta.cdf(0.1, 0.2, 2),
    ),
    "f infinite at 0": (of_a_share(lambda x: x**-0.9, Uniform, 0.0, 1.0), 10.0),
    "f infinite at 1": (of_a_share(lambda x: (1 - x) ** -0.4, Uniform, 0.0, 1.0), 1 / 0.6),
    "a heavy tail": (
        Line(lambda x, _: x.abs() ** 0.9, Cauchy(0.0, 1.0)),
        1 / math.cos(0.45 * math.pi),
    ),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_truths_of_narrow_steep_and_slow_integrands_are_the_closed_forms(name):
    own, expected = TRUTHS[name]
    assert own.truth() == pytest.approx(expected, rel=1e-7)


def modes(width, noise, offsets, shares, *, square):
    """y is x less one of some offsets and noise; f is 1 beyond theta, or (x - theta)^2; and mu."""
    offsets, shares = torch.tensor(offsets).double(), torch.tensor(shares).double()
    own = Line(
        lambda x, theta: (x - theta).square() if square else x > theta,
        exact(Uniform, -width, width),
        x=Variable("x", 1, -width, width, "a place"),
        y=Variable("y", 1, -math.inf, math.inf, "a place"),
        theta=ANYWHERE,
        log_likelihood=lambda x, y: (
            shares.log() + Normal(x - offsets, noise).log_prob(y)
        ).logsumexp(-1),
        sample_likelihood=lambda x, generator: torch.normal(x, noise, generator=generator),
    )

    def mu(y, theta):
        away = (y + offsets - theta).numpy()
        return shares.numpy() @ (away**2 + noise**2 if square else stats.norm.cdf(away / noise))

    return own, mu


def test_modes_of_one_width_are_found_at_any_distance():
    rng = np.random.default_rng(1)
    for _ in range(12):
        width, noise, many = 10 ** rng.uniform(3, 6), 10 ** rng.uniform(-4, 0), rng.integers(1, 5)
        offsets = rng.uniform(-1, 1, many) * 10 ** rng.uniform(-2, 2)
        shares = rng.dirichlet(np.ones(many))
        own, mu = modes(width, noise, offsets, shares, square=rng.random() < 0.5)
        y = rng.uniform(-0.8, 0.8) * width
        theta = y + rng.choice(offsets) + noise * rng.uniform(-4, 4)
        # Places of a million are known to 1e-10.
        rounded = 10 * np.spacing(width) / noise
        expected = pytest.approx(mu(y, theta), rel=1e-6 + rounded)
        assert own.truth(y, theta) == expected, (width, noise, offsets, y, theta)


def begin_and_width(x, theta):
    return (x > theta[..., :1]) & (x < theta.sum(-1, keepdim=True))


GAIN = Line(lambda x, _: x - 0.4, nonnegative=False)
UNBOUNDED = Line(lambda x, theta: x > theta, theta=ANYWHERE)
WINDOW = Line(
    begin_and_width,
    theta=Variable("theta", 2, 0.0, 1.0, "begin and width"),
    support_plus=lambda theta: interval(theta[..., :1], theta.sum(-1, keepdim=True)),
)
DIVERGE = [lambda x: (1 - x) ** -0.9, lambda x: 1 / x, lambda x: (x - 0.3) ** -2]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        # Half of the mass of Beta(0.02, 0.02) beside 1 lies beyond the last float.
        *[(of_a_share(lambda x: x > 0.9, Beta, a, a).truth, "truth: ") for a in (0.2, 0.02)],
        *[(of_a_share(f, Uniform, 0.0, 1.0).truth, "truth: ") for f in DIVERGE],
        (
            Line(lambda x, _: x.abs(), Cauchy(0.0, 1.0)).truth,
            "truth: the quadrature of E1_plus has a relative error of .*declare in support_plus",
        ),
        (Line(lambda x, _: x.abs() % 1e-3 > 5e-4).truth, "truth: the quadrature of E1_plus has"),
        (within(NEEDLE)[0].truth, "f: zero at all .* support_plus"),
        (
            Line(lambda x, _: x.log(), nonnegative=False).truth,
            "truth: .* is NaN or infinite at x = -",
        ),
        (
            Line(None, x=Variable("x", 2, -np.inf, np.inf, "two numbers")).truth,
            "x: expected one dimension for a LineProblem, got 2",
        ),
        (GAIN.mismatch_range, "mismatch: line has neither y nor theta to vary"),
        (lambda: UNBOUNDED.at_mismatch(1.0, theta=0.5), "mismatch: theta has an infinite range"),
        (
            lambda: WINDOW.at_mismatch(1.0, theta=[0.5, 0.5]),
            r"mismatch: undefined at theta = \[0.0, 0.0\], where",
        ),
    ],
)
def test_what_is_not_known_is_refused(request_, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        request_()


def test_there_need_be_neither_y_nor_theta():
    assert float(GAIN.truth()) == pytest.approx(-0.4, abs=1e-9)
    deviation = float(GAIN.mean_absolute_deviation())
    assert deviation == pytest.approx(math.sqrt(2 / math.pi), rel=1e-8)
    assert float(GAIN.mismatch()) > 0


def test_with_negated_f_reaches_the_other_side_of_the_support():
    own = Line(
        lambda x, theta: x - theta,
        nonnegative=False,
        theta=Variable("theta", 1, -1.0, 1.0, "a price"),
        support_plus=greater_than,
    )
    assert own.truth(theta=0.5) == pytest.approx(-0.5)
    below = torch.linspace(-3, 0, 7, dtype=torch.float64)[:, None]
    for problem, reached in ((own, False), (own.with_negated_f(), True)):
        y, theta = problem.check(theta=0.5)
        assert (problem.support_plus(theta).check(below) == reached).all()
        assert (problem.log_defensive(below, y, theta).isfinite() == reached).all()
        assert amci.check(problem, seconds=0.3).findings == ()
