"""Conjugate models made of torch's distributions, with their validation on."""

import math

from scipy import stats
from torch.distributions import Beta, Binomial, Gamma, Poisson, Uniform

from amci_core.models import LineProblem, Variable

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

    def posterior(self, y):
        return stats.beta(self.a + y, self.a + 10 - y)

    def exact(self, y, theta):
        return self.posterior(y).sf(theta)


class Rate(Share):
    """x ~ Gamma(a, 1), y a count: the posterior is Gamma(a + y, 2)."""

    name = "rate"
    x = Variable("x", 1, *LARGE, "a rate")
    y = Variable("y", 1, *LARGE, "a count", typical_range=(0.0, 12.0))
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

    def posterior(self, y):
        return stats.gamma(self.a + y, scale=0.5)


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
