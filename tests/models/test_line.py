"""What is filled in for a problem on the line agrees with the closed forms of the same problem."""

import numpy as np
import pytest
import torch
from torch.distributions.constraints import greater_than

import amci_core as amci
from amci_core.models import LineProblem

RNG = np.random.default_rng(3)
Y, THETA = RNG.normal(0, 1.4, (50, 1)), RNG.uniform(0.1, 2.9, (50, 1))


def same_as(name):
    """The problem of that name, as one would write it without its closed forms."""
    known = amci.problem(name)

    class Same(LineProblem):
        reach = (-12.0, 12.0)
        nonnegative = known.nonnegative
        x, y, theta = known.x, known.y, known.theta

        def support_plus(self, theta):
            return greater_than(theta)

    Same.name = name
    for method in ("log_prior", "log_likelihood", "f"):
        setattr(Same, method, lambda self, *a, method=method: getattr(known, method)(*a))
    for method in ("sample_prior", "sample_likelihood", "sample_theta", "negated"):
        setattr(Same, method, lambda self, *a, method=method: getattr(known, method)(*a))
    Same.__abstractmethods__ = frozenset()
    return Same()


@pytest.mark.parametrize("name", ["tail-1d", "gain-loss"])
def test_the_quadrature_gives_the_closed_forms(name):
    known, own = amci.problem(name), same_as(name)
    # f has a jump or a kink where reach is split, E|f - mu| another one at mu.
    assert own.truth(Y, THETA) == pytest.approx(known.truth(Y, THETA), rel=1e-9, abs=1e-15)
    assert own.mismatch(Y, THETA) == pytest.approx(known.mismatch(Y, THETA), rel=1e-5)
    assert own.expected_deviation(Y, THETA) == pytest.approx(
        known.expected_deviation(Y, THETA), rel=2e-3
    )


def test_the_reference_is_a_density_on_the_support():
    own = same_as("tail-1d")
    y, theta = own.check(Y, THETA)
    x, log_q = own.sample_reference(y, theta, 2000, torch.Generator().manual_seed(0))
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
