"""Models made of torch's distributions, with their validation on, work as they are written."""

import math

import pytest
import torch
from conjugate import KINDS, LARGE, Rate, Share
from torch.distributions import Poisson

import amci_core as amci
from amci_core.models import Problem, Variable
from amci_core.training.targets import TARGETS

NO_COUNT = pytest.raises(ValueError, match=r"^y: expected whole numbers, got 3\.7$")


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_right_and_its_truth_is_that_of_the_conjugate_posterior(name):
    problem = KINDS[name]()
    if name in ("share-0.5", "rate-0.5"):
        assert amci.check(problem).errors == ()
    for y, theta in ((3.0, 0.6), (0.0, 0.1), (10.0, 0.9)):
        assert problem.truth(y, theta) == pytest.approx(problem.exact(y, theta), rel=1e-6)
    proposals = amci.load_proposals(problem, variant="defensive")
    e = amci.estimate(problem, proposals, y=3.0, theta=0.3, draws=4000, seed=1)
    assert abs(e.value - problem.exact(3.0, 0.3)) < 4 * e.standard_error


def test_training_asks_for_counts_alone():
    target = TARGETS["q2"](KINDS["share-0.5"]())
    y, theta = target.cases(32, uniform=96, generator=torch.Generator().manual_seed(0))
    assert set(y.flatten().tolist()) <= set(range(11))
    x, _ = target.reference(y, theta).draw(64, torch.Generator().manual_seed(1))
    assert (target.log_density(x, y, theta) < math.inf).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_at_the_ends_of_the_range_are_finite(dtype):
    ends = torch.tensor([[0.0], [1.0]], dtype=dtype)
    for name in ("share-0.5", "share-1"):
        assert KINDS[name]().log_prior(ends).isfinite().all()
    # log p = -log(x) / 2 - log(pi) / 2 at the smallest number of float32, which is 2^-149
    expected = 149 * math.log(2) / 2 - math.log(math.pi) / 2
    assert KINDS["rate-0.5"]().log_prior(ends[:1]).item() == pytest.approx(expected, rel=1e-5)


def test_counts_are_found_and_asked_for_alone():
    problem = Share()
    assert problem.y.whole is None
    y, theta = problem.typical_case()
    assert problem.y.whole == (True,)
    assert (y, theta) == (5.0, 0.5)
    with NO_COUNT:
        problem.check(3.7, 0.5)
    for axis in problem.y, Variable("n", 1, -0.5, 10.5, "a count", whole=True):
        assert axis.typical_range == (0.0, 10.0)
        values = axis.nearest(torch.linspace(-0.5, 10.5, 400)[:, None])
        assert values.unique().tolist() == list(range(11))
    methods = "_log_truth", "_log_mean_absolute_deviation"
    forgotten = {method: getattr(Problem, method) for method in methods}
    unknown = type("Unknown", (Share,), forgotten)()
    proposals = amci.load_proposals(unknown, variant="defensive")
    found = amci.amortization_map(unknown, proposals, size=(12, 2), draws=32)
    assert found.x.values.tolist() == list(range(11))


def beside_a_number(x):
    z = torch.randn(x.shape).abs() / 2**0.5
    return torch.cat([Poisson(x).sample(), x + z], -1)


def beside_a_density(self, x, y):
    return Rate.log_likelihood(self, x, y[..., :1]) - (y - x)[..., 1].square()


# Numbers of a billion have no fractions in single precision.
@pytest.mark.parametrize(
    ("draw", "whole"),
    [
        (lambda x: Poisson(0.005 * x).sample(), (True,)),
        (lambda x: Poisson(0.0 * x).sample(), (True,)),
        (beside_a_number, (True, False)),
        (lambda x: 1e9 * x + 1e9 * torch.rand(x.shape), (False,)),
    ],
    ids=["rare", "zero", "beside a number", "billions"],
)
def test_coordinates_whose_draws_have_no_fractions_take_none(draw, whole):
    members = {"sample_likelihood": lambda self, x, generator: draw(x)}
    if len(whole) > 1:
        members["log_likelihood"] = beside_a_density
    y = Variable("y", len(whole), *LARGE, "a count", typical_range=(0.0, 50.0))
    problem = type("Other", (Rate,), {"y": y, **members})()
    problem.cases(1, seed=0)
    assert problem.y.whole == whole
    if whole[0]:
        problem.check([3.0, 3.7][: len(whole)], 0.5)
        with NO_COUNT:
            problem.check([3.7, 3.7][: len(whole)], 0.5)


def test_samplers_without_a_generator_repeat_themselves():
    problem = Share()
    state = torch.random.get_rng_state()
    one, other = problem.cases(5, seed=3), problem.cases(5, seed=3)
    assert one[0].tolist() == other[0].tolist()
    assert one[0].tolist() != problem.cases(5, seed=4)[0].tolist()
    assert torch.equal(torch.random.get_rng_state(), state)
    generator = torch.Generator().manual_seed(0)
    first, second = (problem.sample_prior(5, generator) for _ in range(2))
    assert not torch.equal(first, second)


def test_draws_of_both_generators_are_independent():
    def draw(self, n, generator):
        return torch.cat([torch.randn(n, 1), torch.randn(n, 1, generator=generator)], -1)

    mixed = type("Mixed", (Share,), {"sample_prior": draw})()
    x = mixed.sample_prior(10_000, torch.Generator().manual_seed(0))
    # 1 / sqrt(n) is the standard error of a correlation of zero
    assert abs(float(torch.corrcoef(x.T)[0, 1])) < 4 / 100
