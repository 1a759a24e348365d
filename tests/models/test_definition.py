"""What a problem defines is checked at its first use; -f in the place of f is made of any f."""

import copy
import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal
from torch.distributions.constraints import greater_than

import amci_core as amci
from amci_core.models import LineProblem, Problem, Variable

GAIN = amci.problem("gain-loss")


def changed(name, **methods):
    """A copy of a problem, with other methods."""
    other = copy.copy(amci.problem(name))
    other._valid = False
    for method, function in methods.items():
        setattr(other, method, function)
    return other


def plain_gain_loss():
    """The signed problem without a with_negated_f() of its own."""
    other = copy.copy(GAIN)
    other.__class__ = type(
        "PlainGainLoss", (type(GAIN),), {"with_negated_f": Problem.with_negated_f}
    )
    return other


@pytest.mark.parametrize(
    ("method", "function", "message"),
    [
        ("f", lambda x, t: (x > t).all(-1), r"f: expected .*float64.*\(4, 16\), got bool"),
        ("f", lambda x, t: (x > t).double(), r"f: expected .* got float64 of shape \(4, 16, 1\)"),
        ("f", lambda x, t: -(x - t).abs()[..., 0], "f: expected values >= 0, since nonnegative"),
        ("log_prior", lambda x: x.float()[..., 0], "log_prior: expected .* got float32"),
        ("log_prior", lambda x: x.square(), r"log_prior: expected .* of shape \(4, 16\)"),
        ("log_likelihood", lambda x, y: y - x, "log_likelihood: expected"),
        ("sample_prior", lambda n, g: torch.rand(n), r"sample_prior: .* \(64, 1\), got float32"),
        ("sample_prior", lambda n, g: np.zeros((n, 1)), "sample_prior: .* got ndarray"),
        ("sample_likelihood", lambda x, g: x[0], "sample_likelihood: expected"),
        ("sample_theta", lambda n, g: None, "sample_theta: expected .* got NoneType"),
        ("log_defensive", lambda x, y, t: x, "log_defensive: expected"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_first_use(method, function, message):
    problem = changed("tail-1d", **{method: function})
    for use in (lambda: problem.check(1.0, 3.0), lambda: problem.cases(3, seed=0)):
        with pytest.raises(ValueError, match=f"^{message}"):
            use()


def test_a_signed_problem_has_a_negated_one_by_default():
    plain, known = plain_gain_loss().with_negated_f(), GAIN.with_negated_f()
    _, theta = GAIN.check([[1.0], [-3.0]], [[0.4], [2.0]])
    assert not plain.knows_truth
    x = torch.linspace(-3, 3, 9, dtype=torch.float64)[:, None]
    for one, other in zip(plain.f_parts(x, theta), known.f_parts(x, theta), strict=True):
        assert torch.equal(one, other)


def test_what_a_signed_problem_lacks_is_named():
    problem = plain_gain_loss()
    problem.__class__._log_parts = Problem._log_parts
    with pytest.raises(ValueError, match=r"^log_terms: gain-loss .* Define _log_parts"):
        problem.log_terms(1.0, 0.4)
    with pytest.raises(ValueError, match=r"^with_negated_f: tail-1d declares .* declare False"):
        amci.problem("tail-1d").with_negated_f()


class OneSided(LineProblem):
    """x ~ N(0, 1), f = x - theta, with the default negative and a one-sided defensive density."""

    name = "one-sided"
    nonnegative = False
    x = Variable("x", 1, -math.inf, math.inf, "a number")
    theta = Variable("theta", 1, -1.0, 1.0, "a price")

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).squeeze(-1)

    def f(self, x, theta):
        return (x - theta).squeeze(-1)

    def sample_prior(self, n, generator):
        return torch.randn(n, 1, generator=generator)

    def support_plus(self, theta):
        return greater_than(theta)


def test_negated_of_a_line_problem_reaches_the_other_side_of_its_support():
    problem = OneSided()
    negated = problem.with_negated_f()
    y, theta = problem.check(theta=0.5)
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)[:, None]
    assert not problem.support_plus(theta).check(x[:7]).any()
    assert negated.support_plus(theta).check(x).all()
    assert (problem.log_defensive(x, y, theta)[:7] == -torch.inf).all()
    assert negated.log_defensive(x, y, theta).isfinite().all()
    assert float(problem.truth(theta=0.5)) == pytest.approx(-0.5)
    found = amci.reference_value(problem, theta=0.5)
    assert found.value == pytest.approx(-0.5, abs=1e-5)
    assert amci.reference_value(negated, theta=0.5).value == pytest.approx(0.5, abs=1e-5)
    for each in (problem, negated):
        assert amci.check(each).findings == ()
