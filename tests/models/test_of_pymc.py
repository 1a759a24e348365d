"""A PyMC model as a problem: log densities and draws are PyMC's, answers the closed form's."""

import math
import pickle

import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci

pm = pytest.importorskip("pymc")
pytestmark = pytest.mark.slow
RESULTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools():
    mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
    theta = pm.Deterministic("theta", mu + tau * pm.Normal("z", 0.0, 1.0, shape=8))
    pm.Normal("results", theta, ERRORS, observed=RESULTS)


def shares():
    scale, share = pm.HalfNormal("scale", 2.0), pm.Dirichlet("share", np.array([1.0, 2.0, 3.0]))
    pm.Poisson("counts", 10 * scale * share, observed=[3, 5, 9])
    pm.Normal("noise", 0.0, scale, shape=(2, 2), observed=np.ones((2, 2)))


def build(write):
    with pm.Model() as model:
        write()
    return model


def points_of(model, x):
    """Points of PyMC, at rows of x."""
    shapes = {name: value.shape for name, value in model.initial_point().items()}
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    for row in x:
        parts = zip(shapes.items(), np.split(row, ends), strict=True)
        yield {name: part.reshape(shape) for (name, shape), part in parts}


@pytest.mark.parametrize("write", [schools, shares])
def test_log_densities_are_those_that_pymc_compiles(write):
    model = build(write)
    problem = amci.from_pymc(model, f=lambda v: np.ones(len(v[model.free_RVs[0].name])))
    fixed = amci.from_pymc(model, f=lambda v: 1.0 + 0 * v[model.free_RVs[0].name], observed=[])
    x = torch.tensor(np.random.default_rng(0).normal(size=(20, problem.x.dim)))
    y = torch.tensor(
        np.concatenate([np.ravel(model.rvs_to_values[v].eval()) for v in model.observed_RVs])
    )
    compiled = model.compile_logp(mode="FAST_COMPILE")
    expected = np.array([compiled(point) for point in points_of(model, x.numpy())])
    observed = problem.log_prior(x) + problem.log_likelihood(x, y.double().expand(20, -1))
    np.testing.assert_allclose(observed, expected, rtol=1e-10)
    at_data = fixed.log_prior(x) + fixed.log_likelihood(x, x[:, :0])
    np.testing.assert_allclose(at_data, expected, rtol=1e-10)


def test_draws_follow_the_densities_and_the_seed_and_come_by_name():
    model = build(shares)
    problem = amci.from_pymc(model, f=lambda v: v["share"][:, 0] > 0.2)
    assert (problem.x.dim, problem.y.dim) == (3, 7)
    x = problem.sample_prior(20_000, torch.Generator().manual_seed(0))
    assert torch.equal(x, problem.sample_prior(20_000, torch.Generator().manual_seed(0)))
    values = problem.named_draws(x.numpy())
    assert values["share"].shape == (20_000, 3)
    np.testing.assert_allclose(values["share"].sum(-1), 1.0)
    np.testing.assert_array_less(np.abs(z_scores(values["share"], [1 / 6, 1 / 3, 1 / 2])), 4)
    np.testing.assert_array_less(np.abs(z_scores(values["scale"] ** 2, 4.0)), 4)
    # At one x the counts have its means and variances.
    here = x[:1].expand(20_000, -1)
    y = problem.sample_likelihood(here, torch.Generator().manual_seed(1)).numpy()
    mean = 10 * values["scale"][0] * values["share"][0]
    np.testing.assert_array_less(np.abs(z_scores(y[:, :3], mean)), 4)
    np.testing.assert_array_less(np.abs(z_scores((y[:, :3] - mean) ** 2, mean)), 4)
    np.testing.assert_array_less(np.abs(z_scores(y[:, 3:] ** 2, values["scale"][0] ** 2)), 4)
    assert len(np.unique(y[:, 3])) == 20_000
    again = pickle.loads(pickle.dumps(problem))
    assert torch.equal(x, again.sample_prior(20_000, torch.Generator().manual_seed(0)))


def z_scores(draws, mean):
    return (draws.mean(0) - mean) / (draws.std(0) / math.sqrt(len(draws)))


def test_estimates_of_a_conjugate_model_agree_with_the_closed_form():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=2)
        pm.Normal("y", x, 0.5, observed=[1.0, -1.0])
    problem = amci.from_pymc(
        model, f=lambda v, t: v["x"][:, 0] > t, sample_theta=lambda n, rng: rng.uniform(0, 2, n)
    )
    assert not amci.check(problem).findings
    proposals = amci.learn(problem, steps=100)
    y, theta = [1.2, 0.3], 1.5
    e = amci.estimate(problem, proposals, y=y, theta=theta, draws=4000)
    # The posterior of the first coordinate is N(0.8 y, 0.2).
    expected = stats.norm.sf(theta, 0.8 * y[0], math.sqrt(0.2))
    assert abs(e.value - expected) < 4 * e.standard_error < 0.2 * expected


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (
            lambda: pm.Flat("wide"),
            "got wide, which is discrete, on a circle or ordered, or has an improper prior",
        ),
        (lambda: pm.Poisson("k", 2.0), "got k, which is discrete"),
        (lambda: [schools(), pm.Potential("more", pm.math.constant(0.0))], "do not follow more"),
        (lambda: pm.AR("walk", [0.5], steps=4), "draws in batches, unlike AR"),
    ],
)
def test_a_model_that_is_not_taken_is_refused_in_a_line(write, said):
    with pytest.raises(ValueError, match=said) as error:
        amci.from_pymc(build(write), f=lambda v: 1.0)
    assert "\n" not in str(error.value)


def test_a_row_far_out_leaves_the_others_of_its_batch_as_they_are():
    """There sigma underflows to zero, which PyMC's check of parameters refuses."""
    data = np.array([1.0, 2.0, 3.0])
    with pm.Model() as model:
        a, s = pm.Normal("a", 0.0, 1.0), pm.HalfNormal("s", 1.0)
        pm.Normal("y", a, s, observed=data)
    problem = amci.from_pymc(model, f=lambda v: v["s"] / (1 + v["a"] ** 2))
    x = torch.tensor([[1.3, 0.29], [1.0, 0.1], [0.0, -800.0]], dtype=torch.float64)
    expected = [stats.norm(a, math.exp(log_s)).logpdf(data).sum() for a, log_s in x[:2].tolist()]
    found = problem.log_likelihood(x, torch.tensor(data).expand(3, -1)).tolist()
    np.testing.assert_allclose(found, [*expected, -math.inf])
    # By quadrature over a and s.
    u, w = np.polynomial.legendre.leggauss(200)
    a, s = 6 * u[:, None], 4 + 4 * u
    p = stats.norm.pdf(a) * stats.halfnorm.pdf(s)
    p = p * np.prod([stats.norm.pdf(y, a, s) for y in data], 0) * w * w[:, None]
    mu = (p * s / (1 + a**2)).sum() / p.sum()
    found = amci.reference_value(problem, y=data)
    assert abs(found.value / mu - 1) < 1e-5


@pytest.mark.parametrize(
    "write",
    [
        lambda: pm.VonMises("angle", 0.0, 2.0),
        lambda: pm.Normal(
            "angle",
            0.0,
            1.0,
            shape=2,
            transform=pm.distributions.transforms.ordered,
            initval=[0.0, 1.0],
        ),
    ],
)
def test_latents_without_a_density_on_the_line_are_refused(write):
    with pytest.raises(ValueError, match=r"^model: expected latent .*got angle"):
        amci.from_pymc(build(write), f=lambda v: v["angle"])
