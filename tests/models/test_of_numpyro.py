"""A NumPyro model as a problem: its log densities and draws are NumPyro's."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import amci_core as amci

numpyro = pytest.importorskip("numpyro")
jax = pytest.importorskip("jax")
dist = pytest.importorskip("numpyro.distributions")
pytestmark = pytest.mark.slow
COUNTS = np.array([3, 5, 9])


def shares(counts):
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    share = numpyro.sample("share", dist.Dirichlet(np.array([1.0, 2.0, 3.0])))
    numpyro.deterministic("mean", 10 * scale * share)
    numpyro.sample("counts", dist.Poisson(10 * scale * share).to_event(1), obs=counts)


def test_log_densities_are_numpyros_and_draws_follow_them():
    problem = amci.from_numpyro(shares, f=lambda v: v["share"][:, 0] > 0.2, model_args=(COUNTS,))
    x = problem.sample_prior(20_000, torch.Generator().manual_seed(0))
    assert torch.equal(x, problem.sample_prior(20_000, torch.Generator().manual_seed(0)))
    y = torch.tensor(COUNTS).double()
    observed = problem.log_prior(x[:20]) + problem.log_likelihood(x[:20], y.expand(20, -1))
    with jax.enable_x64(True):
        expected = [
            -numpyro.infer.util.potential_energy(
                shares, (COUNTS,), {}, {"scale": row[0], "share": row[1:]}
            )
            for row in x[:20].numpy()
        ]
    np.testing.assert_allclose(observed, expected, rtol=1e-10)
    # The user's configuration of JAX is as it was.
    assert jax.numpy.ones(1).dtype == np.float32
    values = problem.named_draws(x.numpy())
    z = (values["share"].mean(0) - [1 / 6, 1 / 3, 1 / 2]) / values["share"].std(0) * math.sqrt(2e4)
    assert np.abs(z).max() < 4
    drawn = problem.sample_likelihood(x[:1].expand(20_000, -1), torch.Generator().manual_seed(1))
    mean = values["mean"][0]
    assert (np.abs(drawn.numpy().mean(0) - mean) < 4 * np.sqrt(mean / 2e4)).all()


def test_a_conjugate_posterior_follows():
    def model(y):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.sample("y", dist.Poisson(rate).expand([3]).to_event(1), obs=y)

    problem = amci.from_numpyro(model, f=lambda v: v["rate"] > 4.0, model_args=(COUNTS,))
    assert not amci.check(problem).findings
    # The posterior is Gamma(19, 4).
    assert problem.truth(y=COUNTS) == pytest.approx(stats.gamma.sf(4.0, 19, scale=0.25), rel=1e-6)


@pytest.mark.parametrize(
    ("law", "said"),
    [
        (dist.Poisson(2.0), "got k, which is discrete"),
        (dist.ImproperUniform(dist.constraints.real, (), ()), "improper prior"),
    ],
)
def test_a_latent_site_without_a_density_is_refused(law, said):
    with pytest.raises(ValueError, match=said):
        amci.from_numpyro(lambda: numpyro.sample("k", law), f=lambda v: 1.0)
