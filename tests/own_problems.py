"""Problems that the app has never met, each from a file, and proposals for it."""

from __future__ import annotations

from pathlib import Path

# On the line, written out: x ~ N(0, 1), y ~ N(x, 1/2), f = 1{x > theta}.
WRITTEN_OUT = '''\
r"""How likely is it that x exceeds theta, given y = x + noise? Change what is below."""

import math

import torch
from torch.distributions import Normal
from torch.distributions.constraints import greater_than

from amci_core.models import LineProblem, Variable  # in more dimensions: Problem


class {kind}(LineProblem):
    name = "{name}"
    nonnegative = True  # f >= 0 everywhere; False where f takes both signs
    x = Variable("x", 1, -math.inf, math.inf, "what is unknown")
    # y = None where nothing is observed; networks are scaled to the range that is shown.
    y = Variable("y", 1, -12.0, 12.0, "x seen with noise", typical_range=(-4.0, 4.0))
    theta = Variable("theta", 1, 0.0, 4.0, "the threshold")  # or None; by default uniform

    # Tensors of shape (*, 1): let x, y and theta broadcast, and return shape (*).
    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).squeeze(-1)

    def log_likelihood(self, x, y):
        return Normal(x, 0.5).log_prob(y).squeeze(-1)

    def f(self, x, theta):
        return (x > theta).to(x.dtype).squeeze(-1)

    def support_plus(self, theta):  # leave it out where f > 0 everywhere
        return greater_than(theta)

    def sample_prior(self, n, generator):  # n draws of log_prior, shape (n, 1)
        return torch.randn(n, 1, generator=generator)

    def sample_likelihood(self, x, generator):  # one y for every x
        return x + 0.5 * torch.randn(x.shape, generator=generator)
'''

# x ~ N(0, I), y ~ N(x, I): the posterior is N(y / 2, I / 2). Nothing is known of the truth.
FILE = '''
import math

import torch
from torch.distributions import Normal

from amci_core.flows import Proposals
from amci_core.flows.density import ConditionalDensity, Proposal
from amci_core.models import Problem, Variable


class New(Problem):
    name = "{name}"
    title = "New"
    description = "A problem of one's own."
    formula = "x"
    nonnegative = {nonnegative}
    x = Variable("x", {dim}, -math.inf, math.inf, "what is unknown")
    y = Variable("y", {dim}, -9.0, 9.0, "what is seen", typical_range=(-2.0, 2.0))
    theta = None

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        return Normal(x, 1.0).log_prob(y).sum(-1)

    def f(self, x, theta):
        return {f}

    def sample_prior(self, n, generator):
        return torch.randn(n, {dim}, generator=generator)

    def sample_likelihood(self, x, generator):
        return (x + torch.randn(x.shape, generator=generator)).clamp(-9, 9)


class Wide(Proposal):
    """Independent normals about a point that depends on y, of one width."""

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, y, theta):
        return WideDensity(y / 2 + self.shift)


class WideDensity(ConditionalDensity):
    def __init__(self, mean):
        super().__init__(mean.shape[:-1])
        self.mean = mean

    def draw(self, n, generator=None):
        shape = (*self.batch_shape, n, self.mean.shape[-1])
        z = torch.randn(shape, dtype=torch.float64, generator=generator)
        x = self.mean[..., None, :] + z
        return x, self.log_prob(x)

    def log_prob(self, x):
        return Normal(self.mean[..., None, :], 1.0).log_prob(x).sum(-1)


def wide(shift=0.2):
    minus = None if {nonnegative} else Wide(-shift)
    return Proposals("{name}", "mine", Wide(shift), minus, Wide(0.0))
'''
SQUARE = {"dim": 1, "nonnegative": True, "f": "x.square().squeeze(-1)"}
FIRST = {"dim": 2, "nonnegative": False, "f": "x[..., 0]"}
EXPONENTIAL = {"dim": 3, "nonnegative": True, "f": "(x.sum(-1) / 2).exp()"}
RARE = {"dim": 3, "nonnegative": True, "f": "(x.sum(-1) > 12).double()"}


def write(folder: Path, *, name: str = "new", **options) -> Path:
    """Writes a problem and its proposals to a file."""
    path = folder / f"{name}.py"
    path.write_text(FILE.format(name=name, **options))
    return path
