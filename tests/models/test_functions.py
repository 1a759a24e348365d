"""Problems made of NumPy functions and scipy's distributions are those made of torch's."""

import copy
import math
import os
import pickle

import numpy as np
import pytest
import torch
import torch.distributions as td
from scipy import stats
from scipy.stats import norm

import amci_core as amci

LOG_TAU = math.log(2 * math.pi) / 2
IN_TORCH = {
    "prior": td.Normal(torch.zeros(2).double(), 1.0),
    "likelihood": lambda x: td.Normal(x.sum(-1), 0.5),
    "f": lambda x, theta: x[..., 0] > theta,
    "theta": td.Uniform(0.0, 2.0),
}
SAMPLERS = {
    "sample_prior": lambda n, rng: rng.normal(size=(n, 2)),
    "sample_theta": lambda n, rng: rng.uniform(0.0, 2.0, n),
}
ALL_POINTS = {
    "log_prior": lambda x: norm.logpdf(x).sum(-1),
    "log_likelihood": lambda x, y: norm.logpdf(y, x[:, 0] + x[:, 1], 0.5),
    "sample_likelihood": lambda x, rng: rng.normal(x[:, 0] + x[:, 1], 0.5),
    "f": lambda x, theta: np.greater(x[:, 0], theta),
}
ONE_POINT = {
    "log_prior": lambda x: -(x[0] ** 2 + x[1] ** 2) / 2 - 2 * LOG_TAU,
    "log_likelihood": lambda x, y: -2 * (y - sum(x)) ** 2 + math.log(2) - LOG_TAU,
    "sample_likelihood": lambda x, rng: rng.normal(sum(x), 0.5),
    "f": lambda x, theta: True if x[0] > theta else False,
    "vectorized": False,
}
IN_NUMPY = {
    "all points": SAMPLERS | ALL_POINTS,
    "torch": SAMPLERS
    | ALL_POINTS
    | {
        "f": lambda x, theta: torch.gt(x[:, 0], theta),
        "log_prior": lambda x: IN_TORCH["prior"].log_prob(x).sum(-1),
    },
    "one point": SAMPLERS | ONE_POINT,
    "processes": SAMPLERS | ONE_POINT | {"processes": 2},
}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow if k == "processes" else ()) for k in IN_NUMPY]
)
def test_a_model_in_numpy_is_the_one_in_torch(kind):
    expected, problem = amci.model(**IN_TORCH), amci.problem_from(**IN_NUMPY[kind])
    assert repr(problem) == repr(expected)
    assert (problem.f_range, problem.nonnegative) == ((0.0, 1.0), True)
    x, y, theta = torch.randn(4, 7, 2).double(), torch.randn(4, 1, 1), torch.rand(4, 1, 1)
    y, theta = y.double(), theta.double()
    for method, arguments in (("log_prior", (x,)), ("log_likelihood", (x, y)), ("f", (x, theta))):
        values, other = (getattr(made, method)(*arguments) for made in (problem, expected))
        torch.testing.assert_close(values, other, rtol=1e-6, atol=1e-6)
    assert amci.check(problem, seconds=0.2).findings == ()
    # x1 given y has mean 4 y / 9 and variance 5 / 9.
    truth = norm.sf(1.5, 4 / 9, math.sqrt(5 / 9))
    proposals = amci.load_proposals(problem, variant="defensive")
    for made in (problem, copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        e = amci.estimate(made, proposals, y=1.0, theta=1.5, draws=2000, seed=1)
        assert abs(e.value - truth) < 4 * e.standard_error


@pytest.mark.slow
def test_proposals_are_trained_for_a_model_in_numpy():
    problem = amci.problem_from(**IN_NUMPY["all points"])
    proposals = amci.learn(problem, steps=20, seed=0)
    e = amci.estimate(problem, proposals, y=1.0, theta=1.5, draws=2000, seed=1)
    assert abs(e.value - norm.sf(1.5, 4 / 9, math.sqrt(5 / 9))) < 4 * e.standard_error


COVARIANCE = [[1.0, 0.5], [0.5, 2.0]]
LAWS = {
    "normal": (stats.norm(1.0, 2.0), td.Normal(1.0, 2.0)),
    "normal of scipy 1.15": (stats.Normal(mu=1.0, sigma=2.0), td.Normal(1.0, 2.0)),
    "gamma": (stats.gamma(3.0, scale=0.5), td.Gamma(3.0, 2.0)),
    "uniform": (stats.uniform([0, 1], [2, 1]), td.Uniform(torch.tensor([0.0, 1.0]), 2.0)),
    "vector": (
        stats.multivariate_normal([0.0, 1.0], COVARIANCE),
        td.MultivariateNormal(torch.tensor([0.0, 1.0]), torch.tensor(COVARIANCE)),
    ),
    "side by side": ([stats.beta(2, 3), td.Exponential(1.0)], [td.Beta(2, 3), td.Exponential(1)]),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_distribution_of_scipy_is_a_prior_like_that_of_torch(name):
    made, expected = (amci.model(prior=law, f="x[0]") for law in LAWS[name])
    assert (made.x.low, made.x.high) == (expected.x.low, expected.x.high)
    x = expected.sample_prior(500, torch.Generator().manual_seed(0))
    x[0] = -9.0
    torch.testing.assert_close(made.log_prior(x), expected.log_prior(x), rtol=1e-5, atol=1e-5)
    assert amci.check(made, seconds=0.2).errors == ()


def test_a_likelihood_of_numpy_has_counts_and_the_conjugate_posterior():
    problem = amci.model(
        prior=stats.gamma(3.0),
        likelihood=lambda x: [stats.poisson(x), stats.norm(np.log(x), 1e6)],
        f=lambda x, theta: np.where(x > theta, 1.0, 0.0),
        theta=stats.uniform(0.0, 4.0),
    )
    assert problem.y.whole == (True, False)
    assert problem.y.low == (0.0, -math.inf)
    truth = stats.gamma(5.0, scale=0.5).sf(3.0)
    assert float(problem.truth([2.0, 0.0], 3.0)) == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("trained", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_fixed_data_have_an_evidence_that_is_estimated(trained):
    data = np.array([0.5, 1.5, 1.0])
    problem = amci.problem_from(
        log_prior=norm.logpdf,
        sample_prior=lambda n, rng: rng.normal(size=n),
        log_likelihood=lambda x: norm.logpdf(data, x[:, None]).sum(-1),
        f=lambda x, theta: x > theta,
        sample_theta=lambda n, rng: rng.uniform(0.0, 2.0, n),
    )
    assert problem.y is None
    # The posterior is N(3 / 4, 1 / 4).
    truth = norm.sf(1.5, 0.75, 0.5)
    assert float(problem.truth(theta=1.5)) == pytest.approx(truth, rel=1e-6)
    assert amci.check(problem, seconds=0.2).findings == ()
    known = amci.reference_value(problem, theta=1.5)
    assert abs(known.value - truth) < 4 * known.standard_error
    proposals = amci.load_proposals(problem, variant="defensive")
    if trained:
        proposals = amci.learn(problem, steps=20, seed=0)
        assert proposals.q2 is not None
    e = amci.estimate(problem, proposals, theta=1.5, draws=2000, seed=1)
    assert abs(e.value - truth) < 4 * e.standard_error
    E2 = stats.multivariate_normal(np.zeros(3), np.eye(3) + 1.0).pdf(data)
    assert e.terms["E2"].value == pytest.approx(E2, rel=0.1)


@pytest.mark.parametrize("vectorized", [True, False])
def test_f_gets_named_arrays(vectorized):
    def named(x):
        return {"mean": x[:, 0], "effects": x[:, 1:].reshape(-1, 2, 1)}

    problem = amci.problem_from(
        log_prior=lambda x: norm.logpdf(x).sum(-1),
        sample_prior=lambda n, rng: rng.normal(size=(n, 3)),
        f=lambda v: v["mean"] * v["effects"].sum((-2, -1)),
        named=named,
        vectorized=vectorized,
    )
    x = torch.tensor([[1.0, 2.0, 3.0], [2.0, -1.0, 0.0]], dtype=torch.float64)
    assert problem.f(x, None).tolist() == [5.0, -2.0]
    assert problem.named_draws(x)["effects"].shape == (2, 2, 1)
    assert list(amci.problem("tail-1d").named_draws(x)) == ["x"]


def breaks(x, theta):
    return np.greater(x[:, 0], theta) + {}["a"]


HERE = r"in test_functions\.py, line \d+"


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("f", breaks, f"raised KeyError {HERE}: 'a'"),
        (
            "f",
            lambda x, theta: 1.0 if x[:, 0] > theta else 0.0,
            r".* torch\.where.*vectorized=False",
        ),
        (
            "f",
            lambda x, theta: np.exp(x),
            r"expected .* \(21,\), one number per point, got .*21, 2",
        ),
        (
            "f",
            lambda x, theta: x[:, 0] * 1j,
            r"expected real .* got torch.complex128 of shape \(21",
        ),
        ("f", 1.0, "raised TypeError: .*Pass a function"),
        ("log_prior", lambda x: np.log(x).sum(-1), "expected a finite log density at its own dr"),
        ("log_likelihood", lambda x: x, "raised TypeError.*It takes all points at once, a row"),
        ("log_likelihood", None, "raised TypeError: .*Pass a function"),
        ("sample_likelihood", lambda x, rng: rng.normal(size=3), r".*\(21, D\).* of shape \(3,\)"),
        ("bounds", (0.0, [1.0] * 3), "raised RuntimeError: The expanded size"),
        ("bounds", (5.0, -5.0), "expected the least values, then the largest"),
        ("processes", 2, "expected a whole number from 1 to 1, got 2"),
    ],
)
def test_what_is_wrong_is_refused_with_the_line(argument, value, message):
    given = IN_NUMPY["all points"] | {argument: value}
    with pytest.raises(ValueError, match=f"^{argument}( of functions of all points)?: {message}"):
        amci.problem_from(**given)


@pytest.mark.parametrize(
    ("sampler", "draw"),
    [
        ("sample_prior", lambda n, rng: np.random.default_rng().normal(size=(n, 2))),
        ("sample_prior", lambda n, rng: np.random.default_rng(3).normal(size=(n, 2))),
        ("sample_prior", lambda n, rng: np.full((n, 2), np.nan)),
        ("sample_theta", lambda n, rng: np.linspace(0.0, 2.0, n)),
        ("sample_likelihood", lambda x, rng: np.random.default_rng(0).normal(x[:, 0])),
    ],
)
def test_a_sampler_that_does_not_follow_rng_is_refused(sampler, draw):
    with pytest.raises(ValueError, match=f"^{sampler}: expected finite draws, the same by the"):
        amci.problem_from(**IN_NUMPY["all points"] | {sampler: draw})


def test_names_have_a_row_for_each_point():
    given = IN_NUMPY["all points"] | {"f": lambda v, theta: v["first"] > theta}
    with pytest.raises(ValueError, match=r"^named: expected arrays with 21 rows"):
        amci.problem_from(**given, named=lambda x: {"first": x[:1, 0]})


@pytest.mark.slow
def test_a_process_that_dies_does_not_take_others_with_it():
    given = IN_NUMPY["processes"]
    with pytest.raises(ValueError, match=r"^f: raised BrokenProcessPool"):
        amci.problem_from(**given | {"f": lambda x, theta: os._exit(1)})
    problem = amci.problem_from(**given)
    assert problem.f(torch.ones(3, 2).double(), torch.zeros(1, 1).double()).tolist() == [1.0] * 3
    with pytest.raises(ValueError, match=f"^f: raised ZeroDivisionError {HERE}"):
        amci.problem_from(**given | {"f": lambda x, theta: 1 / 0})
