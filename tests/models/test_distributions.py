"""Models made of torch's distributions, with their validation on, work as they are written."""

import math

import pytest
import torch
from scipy import stats
from torch.distributions import Beta, Binomial, Gamma, Poisson, Uniform

import amci_core as amci
from amci_core.models import LineProblem, Problem, Variable
from amci_core.training import learn
from amci_core.training.data import TARGETS

LARGE = (0.0, math.inf)


class Share(LineProblem):
    """x ~ Beta(a, a), y successes of ten: the posterior is Beta(a + y, a + 10 - y)."""

    name = "share"
    nonnegative = True
    x = Variable("x", 1, 0.0, 1.0, "the probability of success")
    y = Variable("y", 1, 0.0, 10.0, "successes of ten")
    theta = Variable("theta", 1, 0.0, 1.0, "a threshold")
    a = 2.0

    def log_prior(self, x):
        return Beta(self.a, self.a).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        return Binomial(10, probs=x).log_prob(y).sum(-1)

    def f(self, x, theta):
        return (x > theta).to(x.dtype).squeeze(-1)

    def sample_prior(self, n, generator):
        return Beta(self.a, self.a).sample((n, 1))

    def sample_likelihood(self, x, generator):
        return Binomial(10, probs=x).sample()

    def exact(self, y, theta):
        return stats.beta.sf(theta, self.a + y, self.a + 10 - y)


class Rate(Share):
    """x ~ Gamma(a, 1), y a count: the posterior is Gamma(a + y, 2)."""

    name = "rate"
    x = Variable("x", 1, *LARGE, "a rate")
    y = Variable("y", 1, *LARGE, "a count", shown=(0.0, 12.0))
    theta = Variable("theta", 1, 0.0, 6.0, "a threshold")
    a = 3.0

    def log_prior(self, x):
        return Gamma(x.new_tensor(self.a), x.new_tensor(1.0)).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        return Poisson(x).log_prob(y).sum(-1)

    def sample_prior(self, n, generator):
        return Gamma(self.a, 1.0).sample((n, 1))

    def sample_likelihood(self, x, generator):
        return Poisson(x).sample()

    def exact(self, y, theta):
        return stats.gamma.sf(theta, self.a + y, scale=0.5)


class Flat(Share):
    """The same with a uniform prior, which is Beta(1, 1)."""

    name, a = "flat", 1.0

    def log_prior(self, x):
        return Uniform(x.new_tensor(0.0), x.new_tensor(1.0)).log_prob(x).sum(-1)

    def sample_prior(self, n, generator):
        return Uniform(0.0, 1.0).sample((n, 1))


def with_a(kind, a):
    return type(f"{kind.__name__}{a:g}", (kind,), {"a": a, "name": f"{kind.name}-{a:g}"})


# The prior is infinite at its ends where a is 1/2, and its derivative is NaN where a is 1.
KINDS = {kind.name: kind for kind in (Share, with_a(Share, 1.0), with_a(Share, 0.5), Flat, Rate)}
KINDS |= {kind.name: kind for kind in (with_a(Rate, 1.0), with_a(Rate, 0.5))}


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_checked_and_its_truth_is_that_of_the_conjugate_posterior(name):
    problem = KINDS[name]()
    assert amci.check(problem, seconds=60).errors == ()
    for y, theta in ((3.0, 0.6), (0.0, 0.1), (10.0, 0.9)):
        assert problem.truth(y, theta) == pytest.approx(problem.exact(y, theta), rel=1e-6)
    proposals = amci.load_proposals(problem, variant="reference")
    e = amci.estimate(problem, proposals, y=3.0, theta=0.3, draws=4000, seed=1)
    assert abs(e.value - problem.exact(3.0, 0.3)) < 4 * e.standard_error


def test_training_asks_for_counts_alone():
    target = TARGETS["q2"](KINDS["share-0.5"]())
    y, theta = target.cases(32, uniform=96, generator=torch.Generator().manual_seed(0))
    assert set(y.flatten().tolist()) <= set(range(11))
    x, _ = target.reference(y, theta).draw(64, torch.Generator().manual_seed(1))
    assert (target.log_density(x, y, theta) < math.inf).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["share-0.5", "rate-0.5"])
def test_a_model_is_learnt_from(name):
    problem = KINDS[name]()
    proposals = learn(problem, steps=10, progress=False)
    e = amci.estimate(problem, proposals, y=3.0, theta=0.3, draws=2000, seed=1)
    assert abs(e.value - problem.exact(3.0, 0.3)) < 4 * e.standard_error


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
        assert axis.usual_range == (0.0, 10.0)
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


def test_numbers_too_large_for_fractions_are_no_counts():
    class Far(Rate):
        y = Variable("y", 1, *LARGE, "a rate in another unit", shown=(0.0, 1e9))

        def log_likelihood(self, x, y):
            return -(y / 1e9 - x).square().sum(-1)

        def sample_likelihood(self, x, generator):
            return 1e9 * x + 1e9 * torch.rand(x.shape, generator=generator)

    problem = Far()
    problem.cases(1, seed=0)
    assert not any(problem.y.whole)


def test_a_map_over_counts_asks_for_whole_numbers():
    problem = Share()
    proposals = amci.load_proposals(problem, variant="reference")
    found = amci.amortization_map(problem, proposals, size=(40, 3), draws=32)
    assert found.x.values.tolist() == list(range(11))


def test_samplers_without_a_generator_repeat_themselves():
    problem = Share()
    state = torch.random.get_rng_state()
    one, other = problem.cases(5, seed=3), problem.cases(5, seed=3)
    assert one[0].tolist() == other[0].tolist()
    assert one[0].tolist() != problem.cases(5, seed=4)[0].tolist()
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_sampler_that_uses_its_generator_draws_what_it_did():
    tail = amci.problem("tail-1d")
    generator = torch.Generator().manual_seed(0)
    plain = torch.randn(5, 1, generator=torch.Generator().manual_seed(0))
    assert torch.equal(tail.sample_prior(5, generator), plain)


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


def test_what_torch_refuses_is_said_in_one_short_sentence():
    class Misfit(Share):
        def sample_likelihood(self, x, generator):
            return Binomial(10, probs=x).sample() + 0.5

    with pytest.raises(
        ValueError, match=r"^log_likelihood: raised ValueError .*Integer"
    ) as refused:
        Misfit().check(3.0, 0.5)
    assert len(str(refused.value)) < 400
