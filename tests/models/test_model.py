"""Problems made of torch's distributions: what follows from these is what it is in closed form."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from torch.distributions import (
    Bernoulli,
    Beta,
    Binomial,
    Categorical,
    Dirichlet,
    Exponential,
    Gamma,
    Gumbel,
    HalfNormal,
    Independent,
    LogNormal,
    MixtureSameFamily,
    Multinomial,
    MultivariateNormal,
    Normal,
    Pareto,
    Poisson,
    TransformedDistribution,
    Uniform,
    VonMises,
)
from torch.distributions.constraints import greater_than, less_than
from torch.distributions.transforms import AffineTransform, ExpTransform

import amci_core as amci
from amci_core.flows.conditioner import Conditioner
from amci_core.flows.supports import coordinates_of

INF = math.inf


def exceeds(**changes):
    arguments = {
        "prior": Normal(0.0, 1.0),
        "likelihood": lambda x: Normal(x, 0.5),
        "f": lambda x, theta: x > theta,
        "theta": Uniform(0.0, 4.0),
    }
    return amci.model(**arguments | changes)


def tail(y, theta):
    """P(x > theta | y) where x ~ N(0, 1) and y ~ N(x, 1/2): the posterior is N(0.8 y, 0.2)."""
    return stats.norm.sf(theta, 0.8 * y, math.sqrt(0.2))


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
    low, high = problem.y.typical_range
    assert -low == pytest.approx(3.5, abs=0.25)
    assert high == pytest.approx(3.5, abs=0.25)
    assert (problem.f_range, problem.nonnegative) == ((0.0, 1.0), True)
    assert amci.check(problem, seconds=0.3).findings == ()
    y, theta = np.array([[1.0], [-2.0], [0.0]]), np.array([[2.0], [0.5], [4.0]])
    np.testing.assert_allclose(problem.truth(y, theta), tail(y, theta)[:, 0], rtol=1e-7)
    # log E2 = log N(1; 0, 1.25)
    log_E2 = problem.log_terms(1.0, 2.0)["E2"]
    assert float(log_E2) == pytest.approx(stats.norm.logpdf(1.0, 0, math.sqrt(1.25)), abs=1e-8)


def test_copies_and_pickles_are_the_same_problem():
    problem = exceeds()
    for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert other.truth(1.0, 2.0) == problem.truth(1.0, 2.0)
        one, two = problem.cases(5, seed=1), other.cases(5, seed=1)
        assert np.array_equal(one[0], two[0])


MIXTURE = MixtureSameFamily(
    Categorical(torch.tensor([0.3, 0.7])),
    Normal(torch.tensor([-2.0, 1.0]), torch.tensor([1.0, 0.5])),
)
# Pi in single precision.
CIRCLE = float(torch.tensor(math.pi))
SHIFTED = TransformedDistribution(Exponential(2.0), AffineTransform(1.0, 3.0))
NEGATIVE = TransformedDistribution(LogNormal(0.0, 1.0), AffineTransform(0.0, -2.0))
LOGARITHM = TransformedDistribution(Gamma(2.0, 1.0), ExpTransform().inv)
PRIORS = {
    "normal": (Normal(1.0, 2.0), stats.norm(1, 2), (-INF, INF)),
    "gamma": (Gamma(0.5, 2.0), stats.gamma(0.5, scale=0.5), (0.0, INF)),
    "beta": (Beta(2.0, 3.0), stats.beta(2, 3), (0.0, 1.0)),
    "uniform": (Uniform(-1.0, 3.0), stats.uniform(-1, 4), (-1.0, 3.0)),
    "half-normal": (HalfNormal(2.0), stats.halfnorm(0, 2), (0.0, INF)),
    "Pareto": (Pareto(2.0, 3.0), stats.pareto(3, scale=2), (2.0, INF)),
    "Gumbel": (Gumbel(1.0, 2.0), stats.gumbel_r(1, 2), (-INF, INF)),
    "log-normal": (LogNormal(0.0, 0.5), stats.lognorm(0.5), (0.0, INF)),
    "mixture": (MIXTURE, None, (-INF, INF)),
    "shifted": (SHIFTED, stats.expon(1, 1.5), (1.0, INF)),
    "negative": (NEGATIVE, None, (-INF, 0.0)),
    "logarithm": (LOGARITHM, stats.loggamma(2), (-INF, INF)),
    "von Mises": (VonMises(0.0, 2.0), stats.vonmises(2.0), (-CIRCLE, CIRCLE)),
}


# Places within each.
MIDDLE = dict.fromkeys(PRIORS, 0.6) | {"Pareto": 2.5, "shifted": 2.0, "negative": -2.0}


@pytest.mark.parametrize("name", PRIORS)
def test_any_density_of_torch_is_a_prior(name):
    prior, known, ends = PRIORS[name]
    problem = amci.model(prior=prior, f=lambda x: x > MIDDLE[name])
    assert (problem.x.low, problem.x.high) == ends
    assert amci.check(problem, seconds=0.3).errors == ()
    assert problem.f_range == (0.0, 1.0)
    inside = problem.sample_prior(50, torch.Generator().manual_seed(0))
    outside = torch.tensor([[ends[0] - 1.0], [ends[1] + 1.0]])
    for x in outside[outside[:, 0].isfinite()].double():
        assert problem.log_prior(x) == -INF
    if known is not None:
        expected = known.logpdf(inside[:, 0].numpy())
        np.testing.assert_allclose(problem.log_prior(inside), expected, rtol=1e-6, atol=1e-6)
        assert float(problem.truth()) == pytest.approx(known.sf(MIDDLE[name]), abs=2e-6)


@pytest.mark.parametrize(
    ("components", "within", "between"),
    [
        (Uniform(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0])), 0.5, 1.5),
        (
            Independent(
                Uniform(torch.tensor([[0.0], [2.0]]), 1.0 + torch.tensor([[0.0], [2.0]])), 1
            ),
            0.5,
            1.5,
        ),
        (VonMises(torch.tensor([0.0, 2.0]), 1.0), 0.5, 4.0),
    ],
    ids=["numbers", "vectors", "angles"],
)
def test_a_mixture_is_where_any_of_its_components_is(components, within, between):
    mixture = MixtureSameFamily(Categorical(torch.tensor([0.3, 0.7])), components)
    problem = amci.model(prior=mixture, f="x1 > 0.6")
    log_p = problem.log_prior(torch.tensor([[within], [between]], dtype=torch.float64))
    assert log_p[0].isfinite()
    assert log_p[1] == -INF


def test_each_component_of_a_mixture_ends_at_its_own_bound():
    exponentials = TransformedDistribution(
        Exponential(torch.ones(2)), AffineTransform(torch.tensor([0.0, 2.0]), torch.ones(2))
    )
    mixture = MixtureSameFamily(Categorical(torch.tensor([0.3, 0.7])), exponentials)
    problem = amci.model(prior=mixture, f=lambda x: x > 1.5)
    # 0.3 P(t > 1.5) + 0.7 with t ~ Exp(1)
    assert float(problem.truth()) == pytest.approx(0.3 * math.exp(-1.5) + 0.7, rel=1e-6)


def test_independent_ones_side_by_side_have_their_own_supports():
    problem = amci.model(
        prior=[
            Normal(0.0, 1e6),
            Gamma(2.0, 2e3),
            Beta(2.0, 2.0),
            MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 1.0]])),
        ],
        f=lambda x: x[..., 0] * x[..., 3],
    )
    assert problem.x.low == (-INF, 0.0, 0.0, -INF, -INF)
    assert problem.x.high == (INF, INF, 1.0, INF, INF)
    assert not problem.nonnegative
    assert amci.check(problem, seconds=0.3).findings == ()
    x = problem.sample_prior(5, torch.Generator().manual_seed(0))
    expected = (
        stats.norm.logpdf(x[:, 0], 0, 1e6)
        + stats.gamma.logpdf(x[:, 1], 2, scale=1 / 2e3)
        + stats.beta.logpdf(x[:, 2], 2, 2)
        + stats.multivariate_normal.logpdf(x[:, 3:], cov=[[1, 0.5], [0.5, 1]])
    )
    np.testing.assert_allclose(problem.log_prior(x), expected, rtol=1e-6)
    beyond = x[:1].clone()
    beyond[0, 1] = -1.0
    assert problem.log_prior(beyond) == -INF


COUNTS = {
    "binomial": (lambda x: Binomial(10, probs=x), 10.0),
    "Bernoulli": (lambda x: Bernoulli(probs=x), 1.0),
    "Poisson": (lambda x: Poisson(3 * x), INF),
    "categories": (lambda x: Categorical(torch.stack([x, 1 - x, x * 0 + 1], -1)), 2.0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_asked_for_alone_with_torch_s_validation_on(name):
    likelihood, most = COUNTS[name]
    problem = amci.model(
        prior=Beta(2.0, 2.0),
        likelihood=likelihood,
        f=lambda x, theta: x > theta,
        theta=Uniform(0.0, 1.0),
    )
    assert (problem.y.low, problem.y.high) == (0.0, most)
    assert np.all(problem.y.whole)
    assert amci.check(problem, seconds=0.3).findings == ()
    assert np.all(problem.cases(20, seed=0)[0] % 1 == 0)
    with pytest.raises(ValueError, match=r"^y: expected whole numbers, got 0\.5$"):
        problem.truth(0.5, 0.5)

    def joint(x):
        p = likelihood(torch.tensor(x)).log_prob(torch.tensor(1.0)).exp()
        return stats.beta.pdf(x, 2, 2) * float(p)

    expected = quad(joint, 0.4, 1)[0] / quad(joint, 0, 1)[0]
    assert float(problem.truth(1.0, 0.4)) == pytest.approx(expected, rel=1e-6)


def test_counts_with_a_given_sum_are_those_of_a_binomial():
    problem = amci.model(
        prior=Beta(0.5, 0.5),
        likelihood=lambda x: Multinomial(10, probs=torch.stack([x, 1 - x], -1)),
        f=lambda x: x > 0.6,
    )
    assert problem.y.whole == (True, True)
    assert amci.check(problem, seconds=0.3).findings == ()
    expected = stats.beta.sf(0.6, 3.5, 7.5)
    assert float(problem.truth([3, 7])) == pytest.approx(expected, rel=1e-6)


def test_counts_and_numbers_may_be_observed_together():
    problem = amci.model(
        prior=Gamma(3.0, 1.0),
        likelihood=lambda x: [Poisson(x), Normal(x, 1.0)],
        f=lambda x: x,
    )
    assert problem.y.whole == (True, False)
    assert problem.nonnegative
    assert amci.check(problem, seconds=0.3).findings == ()

    def joint(x):
        return stats.gamma.pdf(x, 3) * stats.poisson.pmf(2, x) * stats.norm.pdf(2.5, x)

    expected = quad(lambda x: x * joint(x), 0, 40)[0] / quad(joint, 0, 40)[0]
    assert float(problem.truth([2.0, 2.5])) == pytest.approx(expected, rel=1e-6)


def test_a_likelihood_whose_support_depends_on_x_is_zero_outside():
    # x ~ Gamma(3, 1), y ~ U(0, x): x | y is proportional to x exp(-x) beyond y.
    problem = amci.model(
        prior=Gamma(3.0, 1.0), likelihood=lambda x: Uniform(torch.zeros_like(x), x), f=lambda x: x
    )
    assert (problem.y.low, problem.y.high) == (0.0, INF)
    assert amci.check(problem, seconds=0.3).errors == ()
    y = 1.5
    assert float(problem.truth(y)) == pytest.approx((y * y + 2 * y + 2) / (y + 1), rel=1e-6)


def test_parameters_that_underflow_far_out_are_no_mistake():
    # Quadrature looks at x down to -1e5, where exp(x) is zero and no parameter of a gamma.
    problem = amci.model(
        prior=Normal(0.0, 1.0), likelihood=lambda x: Gamma(x.exp(), 1.0), f=lambda x: x > 1
    )

    def joint(x):
        return stats.norm.pdf(x) * stats.gamma.pdf(2.0, math.exp(x))

    expected = quad(joint, 1, 6)[0] / quad(joint, -9, 6, points=[1])[0]
    assert float(problem.truth(2.0)) == pytest.approx(expected, rel=1e-6)


def test_vectors_reach_functions_with_their_last_axis():
    matrix = torch.tensor([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    problem = amci.model(
        prior=Normal(torch.zeros(2), 1.0),
        likelihood=lambda x: Independent(Normal(x @ matrix.T, 1.0), 1),
        f=lambda x, theta: (x - theta).square().sum(-1),
        theta=Normal(torch.zeros(2), 2.0),
    )
    assert (problem.x.dim, problem.y.dim, problem.theta.dim) == (2, 3, 2)
    assert amci.check(problem, seconds=0.3).findings == ()
    y, theta = np.array([1.0, -0.5, 0.3]), np.array([0.5, 1.0])
    A = matrix.numpy()
    covariance = np.linalg.inv(np.eye(2) + A.T @ A)
    mean = covariance @ A.T @ y
    expected = np.trace(covariance) + np.square(mean - theta).sum()
    found = amci.reference_value(problem, y, theta)
    assert float(found.value) == pytest.approx(expected, abs=5 * float(found.standard_error))


@pytest.mark.parametrize(
    ("f", "plus", "minus"),
    [
        (lambda x, theta: x > theta, greater_than, None),
        (lambda x, theta: x <= theta, less_than, None),
        ("max(x - theta, 0)", greater_than, None),
        ("x - theta", greater_than, less_than),
        (lambda x, theta: (x - theta).abs() < 1, None, None),
        (lambda x, theta: x > theta + 1e-3, None, None),
        (lambda x, theta: (x > theta) | (x < -theta - 3), None, None),
    ],
)
def test_a_side_of_theta_on_which_f_is_zero_is_found(f, plus, minus):
    problem = exceeds(f=f)
    theta = torch.tensor([[1.0]])
    ends = {greater_than: "lower_bound", less_than: "upper_bound"}
    sides = [(problem.support_plus, plus)]
    if not problem.nonnegative:
        sides += [(problem.with_negated_f().support_plus, minus)]
    for support, kind in sides:
        if kind is None:
            assert support(theta) is problem.support
        else:
            assert getattr(support(theta), ends[kind]) == theta


def test_a_bounded_x_keeps_its_range():
    share = amci.model(prior=Beta(2.0, 2.0), f=lambda x, t: x > t, theta=Uniform(0.0, 1.0))
    assert share.support_plus(torch.tensor([[0.5]])).upper_bound == 1.0


def test_where_f_lies_can_be_said():
    far = exceeds(theta=Uniform(0.0, 60.0), support_plus=greater_than)
    assert float(far.log_truth(0.0, 50.0)[0]) == pytest.approx(
        stats.norm.logsf(50, 0, math.sqrt(0.2)), rel=1e-8
    )
    x, _ = far.sample_defensive(*far.check(0.0, 50.0), 10, torch.Generator().manual_seed(0))
    assert (x > 50).all()


class Unknown(Normal):
    @property
    def support(self):
        raise NotImplementedError


class Broken(Normal):
    def log_prob(self, value):
        return super().log_prob(value) * math.nan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prior": Broken(0.0, 1.0)}, r"prior: .* its own draws, got .* at 100\.0%"),
        ({"likelihood": lambda x: Broken(x, 1.0)}, "likelihood: expected a finite log density"),
        ({"prior": Poisson(3.0)}, r"prior: expected a density over x, got Poisson\(.*discrete"),
        ({"prior": Dirichlet(torch.ones(3))}, "prior: .* simplex use all coordinates but the"),
        ({"prior": []}, r"prior: expected one of torch\.distributions.*, got \[\]$"),
        (
            {"prior": stats.norm()},
            r"prior: expected .*, got scipy's norm. Write Normal\(loc, scale\)$",
        ),
        ({"prior": stats.norm}, r"prior: .*, got scipy's norm. Write Normal"),
        ({"prior": [stats.multivariate_normal([0.0])]}, "prior: .* MultivariateNormal"),
        ({"theta": stats.gumbel_r()}, "theta: .*, got scipy's gumbel_r. Write one of torch"),
        ({"likelihood": lambda x: stats.norm(x, 1)}, "likelihood: .*. Write Normal"),
        ({"prior": Unknown(0.0, 1.0)}, "prior: raised NotImplementedError: in support"),
        (
            {"theta": (0.0, 4.0)},
            r"theta: .* such as Uniform\(0\.0, 4\.0\), .* got \(0\.0, 4\.0\)$",
        ),
        ({"prior": Normal(torch.zeros(2, 2), 1.0)}, r"prior: .*batch shape \(2, 2\)"),
        ({"likelihood": Normal(0.0, 1.0)}, "likelihood: expected a function of x .*, got Normal$"),
        ({"likelihood": lambda x: x}, r"likelihood: expected one of torch\.distributions"),
        (
            {"likelihood": lambda x: Normal(0.0, 1.0)},
            r"likelihood: expected batch shape \(10000,\)",
        ),
        ({"likelihood": lambda x: Normal(x, x)}, "likelihood: raised ValueError: Expected param"),
        (
            {"f": lambda x: x},
            r"f: raised TypeError: .*. It was called with x of shape \(7, 3\) and theta of shape",
        ),
        (
            {"theta": None},
            r"f: raised TypeError: .* argument: 'theta'. It was called with x of shape \(7, 3\) "
            "alone; pass theta=",
        ),
        (
            {"f": lambda x, theta: x.sum()},
            r"f: .* shape \(7, 3\) at x of shape \(7, 3\),.*got \(\)",
        ),
        ({"f": lambda x, theta: 1.0 if x > theta else 0.0}, r"f: .* write torch\.where\(x > 0"),
        (
            {"f": lambda x, theta: math.exp(x)},
            r"f: .* write torch\.exp for math\.exp, no float\(\)",
        ),
        ({"likelihood": lambda x: Normal(np.sin(x.numpy()), 1.0)}, r"likelihood: .* torch\.sin"),
        ({"f": "x > y"}, "f, column 5: f does not depend on y"),
        ({"f": lambda x, theta: 1 / (x * 0)}, "f: expected finite numbers at draws of the prior"),
        (
            {
                "prior": Normal(torch.zeros(2), 1.0),
                "likelihood": lambda x: Normal(x @ torch.ones(2, 2), 1.0),
            },
            "likelihood: raised RuntimeError: .*dtype.*. x, y and theta are float64",
        ),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        exceeds(**changes)


UNLIKE = torch.tensor([1e6, 1e-3], dtype=torch.float64)


def two(scale):
    """x ~ N(0, s^2), y ~ N(x, s^2 / 4), f = 1 where x > theta: a product of two tails."""
    return amci.model(
        name="two",
        prior=Normal(torch.zeros_like(scale), scale),
        likelihood=lambda x: Normal(x, scale / 2),
        f="all(x > theta)",
        theta=Uniform(torch.zeros_like(scale), 2 * scale),
    )


def test_scales_of_a_million_and_a_thousandth_are_standardized_side_by_side():
    alike, unlike = two(torch.ones_like(UNLIKE)), two(UNLIKE)
    for problem in (alike, unlike):
        assert amci.check(problem, seconds=0.3).findings == ()
    y, theta = (torch.from_numpy(part) for part in alike.cases(500, seed=0))
    one, other = (
        Conditioner(p, out=1, hidden=[4], activation="silu").inputs(y * s, theta * s)
        for p, s in ((alike, 1.0), (unlike, UNLIKE))
    )
    # up to the rounding of the ranges
    torch.testing.assert_close(one, other, rtol=0.0, atol=0.05)
    scales = [[c["scale"] for c in coordinates_of(p)] for p in (alike, unlike)]
    np.testing.assert_allclose(scales[1], np.array(scales[0]) * UNLIKE.numpy(), rtol=1e-2)
