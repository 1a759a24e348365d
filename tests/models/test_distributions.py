"""Models made of torch's distributions, with their validation on, work as they are written."""

import math

import pytest
import torch
from conjugate import KINDS, LARGE, Rate, Share, with_a
from torch.distributions import Poisson

import amci_core as amci
from amci_core.models import Problem, Variable
from amci_core.training.targets import TARGETS


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_checked_and_its_truth_is_that_of_the_conjugate_posterior(name):
    problem = KINDS[name]()
    assert amci.check(problem, seconds=60).errors == ()
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


def test_values_at_the_ends_of_the_range_are_finite():
    ends = torch.tensor([[0.0], [1.0]])
    for kind in (with_a(Share, 0.5), with_a(Share, 1.0)):
        for x in (ends, ends.double()):
            assert kind().log_prior(x).isfinite().all()
    half = with_a(Rate, 0.5)()
    for x in (ends[:1], ends[:1].double()):
        # log p = -log(x) / 2 - log(pi) / 2 at the smallest number of float32, which is 2^-149
        expected = 149 * math.log(2) / 2 - math.log(math.pi) / 2
        assert half.log_prior(x).item() == pytest.approx(expected, rel=1e-5)


def test_counts_are_found_and_asked_for_alone():
    problem = Share()
    assert problem.y.whole is None
    y, theta = problem.typical_case()
    assert problem.y.whole == (True,)
    assert (y, theta) == (5.0, 0.5)
    with pytest.raises(ValueError, match=r"^y: expected whole numbers, got 3\.7$"):
        problem.check(3.7, 0.5)
    for axis in problem.y, Variable("n", 1, -0.5, 10.5, "a count", whole=True):
        assert axis.typical_range == (0.0, 10.0)
        values = axis.nearest(torch.linspace(-0.5, 10.5, 400)[:, None])
        assert values.unique().tolist() == list(range(11))


def test_only_coordinates_with_fractions_take_them():
    class Both(Rate):
        y = Variable("y", 2, 0.0, 50.0, "a count, and the rate with noise")

        def log_likelihood(self, x, y):
            return super().log_likelihood(x, y[..., :1]) - (y - x)[..., 1].square()

        def sample_likelihood(self, x, generator):
            z = torch.randn(x.shape, generator=generator).abs() / 2**0.5
            return torch.cat([super().sample_likelihood(x, generator), x + z], -1)

    problem = Both()
    problem.cases(1, seed=0)
    assert problem.y.whole == (True, False)
    problem.check([3.0, 3.7], 0.5)
    with pytest.raises(ValueError, match=r"^y: expected whole numbers, got 3\.7$"):
        problem.check([3.7, 3.7], 0.5)


@pytest.mark.parametrize("rate", [0.005, 0.0])
def test_rare_counts_are_whole(rate):
    class Rare(Rate):
        def sample_likelihood(self, x, generator):
            return Poisson(rate * x).sample()

    problem = Rare()
    problem.cases(1, seed=0)
    assert problem.y.whole == (True,)
    with pytest.raises(ValueError, match=r"^y: expected whole numbers, got 3\.7$"):
        problem.check(3.7, 0.5)


def test_numbers_too_large_for_fractions_are_no_counts():
    class Far(Rate):
        y = Variable("y", 1, *LARGE, "a rate in another unit", typical_range=(0.0, 1e9))

        def log_likelihood(self, x, y):
            return -(y / 1e9 - x).square().sum(-1)

        def sample_likelihood(self, x, generator):
            return 1e9 * x + 1e9 * torch.rand(x.shape, generator=generator)

    problem = Far()
    problem.cases(1, seed=0)
    assert not any(problem.y.whole)


def test_a_map_over_counts_asks_for_whole_numbers():
    problem = Share()
    proposals = amci.load_proposals(problem, variant="defensive")
    found = amci.amortization_map(problem, proposals, size=(40, 3), draws=32)
    assert found.x.values.tolist() == list(range(11))


def test_samplers_without_a_generator_repeat_themselves():
    problem = Share()
    state = torch.random.get_rng_state()
    one, other = problem.cases(5, seed=3), problem.cases(5, seed=3)
    assert one[0].tolist() == other[0].tolist()
    assert one[0].tolist() != problem.cases(5, seed=4)[0].tolist()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_draws_of_both_generators_are_independent():
    class Mixed(Problem):
        name, nonnegative = "mixed", True
        x = Variable("x", 2, -math.inf, math.inf, "two numbers")
        log_prior = f = None
        __abstractmethods__ = frozenset()

        def sample_prior(self, n, generator):
            return torch.cat([torch.randn(n, 1), torch.randn(n, 1, generator=generator)], -1)

    x = Mixed().sample_prior(10_000, torch.Generator().manual_seed(0))
    # 1 / sqrt(n) is the standard error of a correlation of zero
    assert abs(float(torch.corrcoef(x.T)[0, 1])) < 4 / 100
