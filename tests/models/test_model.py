"""Problems made of torch's distributions: what follows from these is what it is in closed form."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
import torch.distributions as td
from scipy import stats
from torch.distributions.constraints import greater_than
from torch.distributions.transforms import AffineTransform, ExpTransform

import amci_core as amci
from amci_core.flows import FAMILIES
from amci_core.flows.conditioner import Conditioner
from amci_core.flows.families import forms
from amci_core.flows.supports import coordinates_of

INF = math.inf


def exceeds(**changes):
    given = {
        "prior": td.Normal(0.0, 1.0),
        "likelihood": lambda x: td.Normal(x, 0.5),
        "f": lambda x, theta: x > theta,
        "theta": td.Uniform(0.0, 4.0),
    }
    return amci.model(**given | changes)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, theta: x > theta,
        "x > theta",
        lambda x, theta: np.greater(x.numpy(), theta.numpy()),
    ],
)
def test_a_model_in_five_lines_knows_what_follows(f):
    problem = exceeds(f=f)
    assert (problem.x.dim, problem.y.dim, problem.theta.dim) == (1, 1, 1)
    assert (problem.x.low, problem.x.high) == (-INF, INF)
    assert (problem.theta.low, problem.theta.high) == problem.theta.typical_range == (0.0, 4.0)
    # 0.1 to 99.9 % of y ~ N(0, 1.25): 3.45 on either side
    assert problem.y.typical_range == pytest.approx((-3.5, 3.5), abs=0.25)
    assert (problem.f_range, problem.nonnegative) == ((0.0, 1.0), True)
    # The posterior is N(0.8 y, 0.2).
    y, theta = np.array([[1.0], [-2.0], [0.0]]), np.array([[2.0], [0.5], [4.0]])
    expected = stats.norm.sf(theta, 0.8 * y, math.sqrt(0.2))[:, 0]
    np.testing.assert_allclose(problem.truth(y, theta), expected, rtol=1e-7)
    log_E2 = problem.log_terms(1.0, 2.0)["E2"]
    assert float(log_E2) == pytest.approx(stats.norm.logpdf(1.0, 0, math.sqrt(1.25)), abs=1e-8)


def test_copies_and_pickles_are_the_same_problem():
    problem = exceeds()
    assert amci.check(problem, seconds=0.3).findings == ()
    for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert other.truth(1.0, 2.0) == problem.truth(1.0, 2.0)
        assert np.array_equal(problem.cases(5, seed=1)[0], other.cases(5, seed=1)[0])


def transformed(base, *transforms):
    return td.TransformedDistribution(base, list(transforms))


SHIFTED = transformed(td.Exponential(2.0), AffineTransform(1.0, 3.0))
NEGATIVE = transformed(td.Exponential(2.0), AffineTransform(0.0, -3.0))
LOGARITHM = transformed(td.Gamma(2.0, 1.0), ExpTransform().inv)
# Pi in single precision.
CIRCLE = float(torch.tensor(math.pi))
PRIORS = {
    "normal": (td.Normal(1.0, 2.0), stats.norm(1, 2), (-INF, INF)),
    "gamma": (td.Gamma(0.5, 2.0), stats.gamma(0.5, scale=0.5), (0.0, INF)),
    "beta": (td.Beta(2.0, 3.0), stats.beta(2, 3), (0.0, 1.0)),
    "uniform": (td.Uniform(-1.0, 3.0), stats.uniform(-1, 4), (-1.0, 3.0)),
    "half-normal": (td.HalfNormal(2.0), stats.halfnorm(0, 2), (0.0, INF)),
    "Pareto": (td.Pareto(2.0, 3.0), stats.pareto(3, scale=2), (2.0, INF)),
    "Gumbel": (td.Gumbel(1.0, 2.0), stats.gumbel_r(1, 2), (-INF, INF)),
    "log-normal": (td.LogNormal(0.0, 0.5), stats.lognorm(0.5), (0.0, INF)),
    "shifted": (SHIFTED, stats.expon(1, 1.5), (1.0, INF)),
    "negative": (NEGATIVE, stats.weibull_max(1, scale=1.5), (-INF, 0.0)),
    "logarithm": (LOGARITHM, stats.loggamma(2), (-INF, INF)),
    "von Mises": (td.VonMises(0.0, 2.0), stats.vonmises(2.0), (-CIRCLE, CIRCLE)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_any_density_of_torch_is_a_prior(name):
    prior, known, ends = PRIORS[name]
    place = known.ppf(0.4)
    problem = amci.model(prior=prior, f=lambda x: x > place)
    assert (problem.x.low, problem.x.high) == ends
    assert problem.f_range == (0.0, 1.0)
    assert float(problem.truth()) == pytest.approx(0.6, abs=2e-6)
    x = problem.sample_prior(5000, torch.Generator().manual_seed(0))
    expected = known.logpdf(x[:, 0].numpy())
    np.testing.assert_allclose(problem.log_prior(x), expected, rtol=1e-5, atol=1e-5)
    assert stats.kstest(x[:, 0], known.cdf).statistic < 2 / math.sqrt(5000)
    outside = torch.tensor([[ends[0] - 1.0], [ends[1] + 1.0]]).double()
    assert (problem.log_prior(outside[outside.isfinite()][:, None]) == -INF).all()


APART = torch.tensor([0.0, 2.0])
LATE = transformed(td.Exponential(torch.ones(2)), AffineTransform(APART, 1.0))
VECTORS = td.Independent(td.Uniform(APART[:, None], APART[:, None] + 1), 1)


@pytest.mark.parametrize(
    ("components", "within", "between", "above"),
    [
        (td.Uniform(APART, APART + 1), 0.5, 1.5, 0.7),
        (VECTORS, 0.5, 1.5, None),
        (td.VonMises(APART, 1.0), 0.5, 4.0, None),
        # 0.3 P(t > 1.5) + 0.7 with t ~ Exp(1)
        (LATE, 0.5, -0.5, 0.3 * math.exp(-1.5) + 0.7),
    ],
    ids=["numbers", "vectors", "angles", "beyond a bound each"],
)
def test_a_mixture_is_where_any_of_its_components_is(components, within, between, above):
    mixture = td.MixtureSameFamily(td.Categorical(torch.tensor([0.3, 0.7])), components)
    problem = amci.model(prior=mixture, f="x1 > 1.5")
    log_p = problem.log_prior(torch.tensor([[within], [between]], dtype=torch.float64))
    assert log_p[0].isfinite()
    assert log_p[1] == -INF
    assert above is None or float(problem.truth()) == pytest.approx(above, rel=1e-6)


def test_independent_ones_side_by_side_have_their_own_supports():
    covariance = [[1.0, 0.5], [0.5, 1.0]]
    normal = td.MultivariateNormal(torch.zeros(2), torch.tensor(covariance))
    problem = amci.model(
        prior=[td.Normal(0.0, 1e6), td.Gamma(2.0, 2e3), td.Beta(2.0, 2.0), normal],
        f=lambda x: x[..., 0] * x[..., 3],
    )
    assert problem.x.low == (-INF, 0.0, 0.0, -INF, -INF)
    assert problem.x.high == (INF, INF, 1.0, INF, INF)
    assert not problem.nonnegative
    x = problem.sample_prior(5, torch.Generator().manual_seed(0))
    expected = (
        stats.norm.logpdf(x[:, 0], 0, 1e6)
        + stats.gamma.logpdf(x[:, 1], 2, scale=1 / 2e3)
        + stats.beta.logpdf(x[:, 2], 2, 2)
        + stats.multivariate_normal.logpdf(x[:, 3:], cov=covariance)
    )
    np.testing.assert_allclose(problem.log_prior(x), expected, rtol=1e-6)
    x[:, 1] = -1.0
    assert (problem.log_prior(x) == -INF).all()


BETA, GAMMA, PARETO = td.Beta(2.0, 2.0), td.Gamma(3.0, 1.0), td.Pareto(0.3, 3.0)
beta, gamma = stats.beta, stats.gamma
BOTH, LOG_GAMMA = gamma(6, scale=1 / 4.5), stats.loggamma(3, -math.log(3))


def join(*parts):
    return torch.stack(parts, -1)


# The prior, the likelihood, y, whole where it is a count, the posterior, and the largest y.
OBSERVED = {
    "binomial": (BETA, lambda x: td.Binomial(10, probs=x), 1, beta(3, 11), 10),
    "Bernoulli": (BETA, lambda x: td.Bernoulli(probs=x), 1, beta(3, 2), 1),
    "Poisson": (GAMMA, lambda x: td.Poisson(3 * x), 1, gamma(4, scale=1 / 4), INF),
    "categories": (BETA, lambda x: td.Categorical(join(x, 1 - x, 1 + 0 * x)), 1, beta(2, 3), 2),
    "sums": (BETA, lambda x: td.Multinomial(10, probs=join(x, 1 - x)), [3, 7], beta(5, 9), 10),
    "both": (GAMMA, lambda x: [td.Poisson(x), td.Exponential(x)], [2, 2.5], BOTH, INF),
    "an end at x": (PARETO, lambda x: td.Uniform(0 * x, x), 0.5, stats.pareto(4, scale=0.5), INF),
    # exp(x) is zero far out, where quadrature looks, and no rate.
    "underflow": (LOGARITHM, lambda x: td.Exponential(x.exp()), 2.0, LOG_GAMMA, INF),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_the_truth_is_that_of_the_conjugate_posterior_and_counts_are_asked_for_alone(name):
    prior, likelihood, y, posterior, high = OBSERVED[name]
    problem = amci.model(prior=prior, likelihood=likelihood, f=lambda x: x > 0.6)
    assert float(problem.truth(y)) == pytest.approx(posterior.sf(0.6), rel=1e-6)
    assert problem.y.high == high
    assert amci.check(problem, seconds=0.1).errors == ()
    numbers = y if isinstance(y, list) else [y]
    whole = [isinstance(number, int) for number in numbers]
    assert np.broadcast_to(problem.y.whole, len(whole)).tolist() == whole
    if whole[0]:
        assert np.all(problem.cases(20, seed=0)[0][:, 0] % 1 == 0)
        with pytest.raises(ValueError, match=r"^y: expected whole numbers, got \d\.5$"):
            problem.truth([numbers[0] - 0.5, *numbers[1:]])


def test_vectors_reach_functions_with_their_last_axis():
    matrix = torch.tensor([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    problem = amci.model(
        prior=td.Normal(torch.zeros(2), 1.0),
        likelihood=lambda x: td.Independent(td.Normal(x @ matrix.T, 1.0), 1),
        f=lambda x, theta: (x - theta).square().sum(-1),
        theta=td.Normal(torch.zeros(2), 2.0),
    )
    assert (problem.x.dim, problem.y.dim, problem.theta.dim) == (2, 3, 2)
    x, y = torch.tensor([0.3, -0.2]).double(), torch.tensor([1.0, -0.5, 0.3]).double()
    log_likelihood = stats.multivariate_normal.logpdf(y, matrix @ x)
    assert float(problem.log_likelihood(x, y)) == pytest.approx(log_likelihood, rel=1e-12)
    found = problem.f(x.expand(4, 5, 2), torch.tensor([0.5, 1.0]).expand(4, 1, 2).double())
    np.testing.assert_allclose(found, np.full((4, 5), 0.2**2 + 1.2**2))


BELOW, ABOVE, BOTH_SIDES = [True, False], [False, True], [True, True]


@pytest.mark.parametrize(
    ("f", "plus", "minus"),
    [
        (lambda x, theta: x > theta, ABOVE, BOTH_SIDES),
        (lambda x, theta: x <= theta, BELOW, BOTH_SIDES),
        ("max(x - theta, 0)", ABOVE, BOTH_SIDES),
        ("x - theta", ABOVE, BELOW),
        (lambda x, theta: (x - theta).abs() < 1, BOTH_SIDES, BOTH_SIDES),
        (lambda x, theta: x > theta + 1e-3, BOTH_SIDES, BOTH_SIDES),
        (lambda x, theta: (x > theta) | (x < -theta - 3), BOTH_SIDES, BOTH_SIDES),
    ],
)
def test_a_side_of_theta_on_which_f_is_zero_is_found(f, plus, minus):
    problem, theta = exceeds(f=f), torch.tensor([[1.0]])
    beside = torch.tensor([[0.9], [1.1]])
    assert problem.support_plus(theta).check(beside).flatten().tolist() == plus
    assert problem.support_minus(theta).check(beside).flatten().tolist() == minus


def test_a_bounded_x_keeps_its_range_and_where_f_lies_can_be_said():
    share = exceeds(prior=td.Beta(2.0, 2.0), likelihood=None, theta=td.Uniform(0.0, 1.0))
    assert share.support_plus(torch.tensor([[0.5]])).upper_bound == 1.0
    far = exceeds(theta=td.Uniform(0.0, 60.0), support_plus=greater_than)
    expected = stats.norm.logsf(50, 0, math.sqrt(0.2))
    assert float(far.log_truth(0.0, 50.0)[0]) == pytest.approx(expected, rel=1e-8)
    x, _ = far.sample_defensive(*far.check(0.0, 50.0), 10, torch.Generator().manual_seed(0))
    assert (x > 50).all()


class Unknown(td.Normal):
    @property
    def support(self):
        raise NotImplementedError


class Broken(td.Normal):
    def log_prob(self, value):
        return super().log_prob(value) * math.nan


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("prior", Broken(0.0, 1.0), r".* its own draws, got .* at 100\.0%"),
        ("prior", td.Poisson(3.0), r"expected a density over x, got Poisson\(.*discrete"),
        ("prior", td.Dirichlet(torch.ones(3)), ".* simplex use all coordinates but the"),
        ("prior", [], r"expected one of torch\.distributions.*, got \[\]$"),
        ("prior", [stats.dirichlet([1.0, 1.0])], r"expected .*, or of scipy\.stats, or a list"),
        ("prior", Unknown(0.0, 1.0), "raised NotImplementedError in .*: in support"),
        ("prior", td.Normal(torch.zeros(2, 2), 1.0), r".*batch shape \(2, 2\)"),
        ("theta", (0.0, 4.0), r".* such as Uniform\(0\.0, 4\.0\), .* got \(0\.0, 4\.0\)$"),
        ("likelihood", lambda x: Broken(x, 1.0), "expected a finite log density"),
        ("likelihood", lambda x: stats.norm(x, -1), r"expected a finite log .*|raised ValueError"),
        ("likelihood", td.Normal(0.0, 1.0), "expected a function of x .*, got Normal$"),
        ("likelihood", lambda x: x, r"expected one of torch\.distributions"),
        ("likelihood", lambda x: td.Normal(0.0, 1.0), r"expected batch shape \(10000,\)"),
        (
            "likelihood",
            lambda x: td.Normal(x, x, True),
            r"raised ValueError in test_model\.py, line \d+: Exp",
        ),
        ("likelihood", lambda x: td.Normal(np.sin(np.asarray(x)), 1.0), r".* torch\.sin"),
        (
            *("likelihood", lambda x: td.Normal(x[..., None] @ torch.ones(1, 1), 1.0)),
            "raised RuntimeError in .*dtype.*. x, y and theta are float64",
        ),
        ("f", lambda x: x, "raised TypeError: .*. It was called with x of .* and theta of shape"),
        ("f", lambda x, t: x.sum(), r".* shape \(7, 3\) at x of shape \(7, 3\),.*got \(\)"),
        ("f", lambda x, t: 1.0 if x > t else 0.0, r".* write torch\.where\(x > 0"),
        ("f", lambda x, t: math.exp(x), r".* write torch\.exp for math\.exp, no float\(\)"),
        ("f", "x > y", "f does not depend on y"),
        ("f", lambda x, t: 1 / (x * 0), "expected finite numbers at draws of the prior"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(argument, value, message):
    with pytest.raises(ValueError, match=f"^{argument}(, column 5)?: {message}"):
        exceeds(**{argument: value})


def test_an_f_of_theta_without_a_theta_is_refused():
    called = r"It was called with x of shape \(7, 3\) alone; pass theta="
    with pytest.raises(ValueError, match=f"^f: raised TypeError: .* argument: 'theta'. {called}"):
        exceeds(theta=None)


def test_scales_of_a_million_and_a_thousandth_are_standardized_side_by_side():
    one, scale = torch.ones(2).double(), torch.tensor([1e6, 1e-3]).double()
    alike, unlike = (
        exceeds(
            prior=td.Normal(0 * s, s),
            likelihood=lambda x, s=s: td.Normal(x, s / 2),
            f="all(x > theta)",
            theta=td.Uniform(0 * s, 2 * s),
        )
        for s in (one, scale)
    )
    y, theta = (torch.from_numpy(part) for part in alike.cases(500, seed=0))
    found, expected = (
        Conditioner(p, out=1, hidden=[4], activation="silu").inputs(y * s, theta * s)
        for p, s in ((alike, one), (unlike, scale))
    )
    # up to the rounding of the ranges
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.05)
    scales = [[c["scale"] for c in coordinates_of(p)] for p in (alike, unlike)]
    np.testing.assert_allclose(scales[1], np.array(scales[0]) * scale.numpy(), rtol=1e-2)


def test_a_bound_on_one_of_several_coordinates_is_found():
    """f_plus and M - f then have proposals on exactly their sides of theta."""
    made = amci.model(
        prior=[td.Gamma(2.0, 1.0), td.Normal(0.0, 1.0)],
        f=lambda x, theta: x[..., 1] > theta,
        theta=td.Uniform(0.0, 3.0),
    )
    x = made.sample_prior(1000, torch.Generator().manual_seed(0))[None].double()
    theta = torch.tensor([[0.5]], dtype=torch.float64)
    positive = made.f(x, theta[:, None]) > 0
    for problem, expected in ((made, positive), (made.complement(), ~positive)):
        assert (problem.support_plus(theta[:, None]).check(x).all(-1) == expected).all()
        form = forms(problem, reads_theta=True)["half-line"]
        q = FAMILIES[form["family"]](problem, **form["arguments"]).double()
        drawn, log_q = q(torch.zeros(1, 0), theta).draw(1000, torch.Generator().manual_seed(1))
        assert ((drawn[..., 1] > 0.5) == (problem is made)).all()
        # Its density is one: the mean of p / q is the mass of p there.
        weights = (made.log_prior(drawn) - log_q).exp()[0]
        mass = stats.norm.sf(0.5) if problem is made else stats.norm.cdf(0.5)
        assert abs(weights.mean().item() - mass) < 4 * weights.std().item() / math.sqrt(1000)
    total = amci.model(
        prior=[td.Normal(0.0, 1.0)] * 2, f="x1 + x2 > theta", theta=td.Uniform(0.0, 3.0)
    )
    assert total.support_plus(theta) is total.support


@pytest.mark.parametrize(
    "f",
    [
        lambda x, t: (x[..., 0] > t) | (x[..., 1] > 4.5),
        lambda x, t: (x[..., 0] > t) | (x[..., 1] > 6.0),
        lambda x, t: (x[..., 0] > t) | (x[..., 0] < -7.0),
        lambda x, t: (x[..., 0] > t) & (x[..., 1] > -5.0),
    ],
)
def test_an_f_with_a_second_region_far_out_has_no_bound(f):
    """The prior hardly ever draws there, but y may lead there."""
    made = amci.model(prior=[td.Normal(0.0, 1.0)] * 2, f=f, theta=td.Uniform(0.0, 4.0))
    assert made.support_plus(torch.tensor([[3.0]])) is made.support
    complement = made.complement()
    assert complement.support_plus(torch.tensor([[3.0]])) is complement.support


def test_functions_that_change_their_input_change_a_copy():
    problem = exceeds(f=lambda x, theta: x.sub_(theta) > 0)
    assert float(problem.truth(1.0, 2.0)) == pytest.approx(float(exceeds().truth(1.0, 2.0)))
    e = amci.estimate(problem, "defensive", y=1.0, theta=2.0, draws=20_000)
    assert abs(e.value - problem.truth(1.0, 2.0)) < 4 * e.standard_error
