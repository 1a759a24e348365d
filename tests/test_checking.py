"""Every mistake in a definition is found, in one sentence; problems that are right are clean."""

import math
import re
import warnings

import numpy as np
import pytest
import torch
from torch.distributions import Normal
from torch.distributions.constraints import less_than

import amci_core as amci
from amci_core.checking import Checked, Finding, contradiction
from amci_core.models import Problem, Variable
from benchmarks.invented import OWN_PROBLEMS

LINE = (-math.inf, math.inf)


def checked(problem):
    """What a short check finds."""
    return amci.check(problem, seconds=0.2)


class Right(Problem):
    """x ~ N(0, I), y ~ N(x, 1/4 I) in two dimensions, f = exp(-theta x1): all of it is right."""

    name = "right"
    nonnegative = True
    x = Variable("x", 2, *LINE, "two numbers")
    y = Variable("y", 2, -20.0, 20.0, "both with noise", typical_range=(-4.0, 4.0))
    theta = Variable("theta", 1, 0.0, 2.0, "a rate")

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        return Normal(x, 0.5).log_prob(y).sum(-1)

    def f(self, x, theta):
        return torch.exp(-theta[..., 0] * x[..., 0])

    def sample_prior(self, n, generator):
        return torch.randn(n, 2, generator=generator)

    def sample_likelihood(self, x, generator):
        return x + 0.5 * torch.randn(x.shape, generator=generator)

    def sample_defensive(self, y, theta, n, generator):
        shape = (*y.shape[:-1], n, 2)
        x = 1.5 * torch.randn(shape, dtype=torch.float64, generator=generator)
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x, y, theta):
        return Normal(0.0, 1.5).log_prob(x).sum(-1)

    def _log_truth(self, y, theta):
        # x1 | y ~ N(0.8 y1, 0.2)
        a, m = theta[..., 0].numpy(), 0.8 * y[..., 0].numpy()
        log_mu = -a * m + a * a * 0.1
        return log_mu, np.ones_like(log_mu)

    def log_evidence(self, y, theta):
        return Normal(0.0, math.sqrt(1.25)).log_prob(y).sum(-1).numpy()


class Unseen(Right):
    """The same without y."""

    name = "unseen"
    y = None
    _log_truth = Problem._log_truth
    log_evidence = Problem.log_evidence
    log_likelihood = Problem.log_likelihood
    sample_likelihood = Problem.sample_likelihood


def changed(base=Right, **members):
    """A problem that differs from a right one in these members; None takes one away."""
    given = {n: getattr(Problem, n) if m is None else m for n, m in members.items()}
    return type("Changed", (base,), given)()


def mistake(method, words, level="error", base=Right, **members):
    """The problem with these members, and what is to be found."""
    return changed(base, **members), level, method, words


def raising(*arguments):
    raise RuntimeError("a tensor\nof the wrong kind")


def off(self, y, theta, n, generator):
    x, log_q = Right.sample_defensive(self, y, theta, n, generator)
    return x, log_q + 1


def wide(self, y, theta, n, generator):
    x = 1.04 * Right.sample_defensive(self, y, theta, n, generator)[0]
    return x, self.log_defensive(x, y, theta)


def half(self, y, theta, n, generator):
    x = torch.randn((*y.shape[:-1], n, 2), dtype=torch.float64, generator=generator).abs()
    return x, self.log_defensive(x, y, theta)


def log_half(self, x, y, theta):
    density = Normal(0.0, 1.0).log_prob(x).sum(-1) + 2 * math.log(2)
    return density.masked_fill((x < 0).any(-1), -math.inf)


def line(low, high, name="y", dim=2, **more):
    return Variable(name, dim, low, high, "changed", **more)


MISTAKES = {
    "the first case serves all": mistake(
        "f",
        "differs between a batch of cases and the cases one by one",
        f=lambda s, x, t: torch.exp(-t.flatten()[0] * x[..., 0]),
    ),
    "counts for x": mistake(
        "x",
        "takes whole numbers only",
        base=Unseen,
        sample_prior=lambda s, n, g: torch.poisson(torch.full((n, 2), 30.0), generator=g),
    ),
    "counts of another rate": mistake(
        "sample_likelihood",
        "do not follow log_likelihood as x changes",
        y=line(0.0, 500.0, typical_range=(0.0, 5.0)),
        log_likelihood=lambda s, x, y: (y * x - x.exp() - torch.lgamma(y + 1)).sum(-1),
        sample_likelihood=lambda s, x, g: torch.poisson(1.1 * x.exp(), generator=g),
        log_evidence=None,
        _log_truth=None,
    ),
    "NaN in the prior": mistake(
        "log_prior",
        r"is nan at x = \([-\d., ]+\)",
        log_prior=lambda s, x: Right.log_prior(s, x).where(x[..., 0] < 2, math.nan),
    ),
    "infinite draws": mistake(
        "sample_theta",
        r"2,[01]\d\d of 4,096 draws are NaN or infinite",
        sample_theta=lambda s, n, g: (torch.rand(n, 1, generator=g) - 0.5).log().abs(),
    ),
    "an exception": mistake(
        "f", r"raised RuntimeError in test_checking\.py, line \d+: a tensor of the", f=raising
    ),
    "a prior without its constant": mistake(
        "log_prior",
        r"importance weight is 6\.\d+, .* constant, about -1\.[78]",
        base=Unseen,
        log_prior=lambda s, x: -x.square().sum(-1) / 2,
    ),
    "a prior's sampler of another scale": mistake(
        "sample_prior",
        "do not follow log_prior",
        sample_prior=lambda s, n, g: 1.3 * torch.randn(n, 2, generator=g),
    ),
    "a prior that is zero at its draws": mistake(
        "log_prior",
        r"[45]\d\.\d% of the draws of sample_prior lie outside it",
        log_prior=lambda s, x: Right.log_prior(s, x).masked_fill(x[..., 0] < 0, -math.inf),
    ),
    "a likelihood without its constant": mistake(
        "log_likelihood",
        r"importance weight is 1\.5\d.* E2 is not",
        "warning",
        log_likelihood=lambda s, x, y: -2 * (y - x).square().sum(-1),
        log_evidence=None,
    ),
    "a defensive density whose density is another": mistake(
        "sample_defensive", "its log densities differ from log_defensive", sample_defensive=off
    ),
    "a defensive density that leaves f out": mistake(
        "log_defensive",
        r"is zero where [\d.]+% of f p\(x, y\) lies",
        sample_defensive=half,
        log_defensive=log_half,
    ),
    "a normalizer that is wrong": mistake(
        "log_evidence",
        r"returns \d.*, but [\d,]+ draws estimate \d",
        log_evidence=lambda s, y, t: np.zeros(y.shape[:-1]),
    ),
    "a prior outside the range of x": mistake(
        "x",
        r"of the draws of sample_prior lie outside \[-2, inf\], such as -\d",
        x=line(-2.0, math.inf, "x"),
    ),
    "observations outside their range": mistake(
        "y",
        r"of the draws of sample_likelihood lie outside .*, and cases are moved to its ends",
        "warning",
        y=line(-2.0, 2.0),
    ),
    "no range for the networks": mistake(
        "y",
        r"has an infinite range, .* Declare typical_range=\(-[34]\.\d",
        "warning",
        y=line(*LINE),
    ),
    "the support leaves f out": mistake(
        "support_plus",
        r"f > 0 at x = \(.*\), outside of support_plus",
        support_plus=lambda s, t: less_than(torch.zeros(1).double()),
    ),
    "a truth that is wrong": mistake(
        "_log_truth",
        r"returns 1 in one of 3 cases, but [\d,]+ draws estimate",
        _log_truth=lambda s, y, t: (np.zeros(y.shape[:-1]), np.ones(y.shape[:-1])),
    ),
    "draws of numpy's generator": mistake(
        "sample_prior",
        "draws differ for the same seed",
        sample_prior=lambda s, n, g: torch.from_numpy(np.random.default_rng().normal(size=(n, 2))),
    ),
    "no sampler of y": mistake(
        "sample_likelihood", "right has y, but no sample_likelihood", sample_likelihood=None
    ),
    "no Variable": mistake("y", r"expected an attribute of type .*Variable \| None, got 3", y=3),
}


@pytest.mark.parametrize(("problem", "level", "method", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_in_one_sentence(problem, level, method, words):
    report = checked(problem)
    (sentence,) = (f.sentence for f in report.findings if (f.level, f.method) == (level, method))
    assert re.match(rf"{method}: .*{words}", sentence), sentence  # on one line
    assert len(sentence) < 400
    # No other method is called wrong by an error.
    assert {each.method for each in report.errors} <= {method}, report


SMALL_MISTAKES = [
    ("log_prior", lambda s, x: Right.log_prior(s, x) + 0.05),
    ("sample_prior", lambda s, n, g: 1.04 * Right.sample_prior(s, n, g)),
    ("sample_prior", lambda s, n, g: Right.sample_prior(s, n, g) + 0.06),
    ("sample_likelihood", lambda s, x, g: 1.04 * Right.sample_likelihood(s, x, g) - 0.04 * x),
    ("sample_likelihood", lambda s, x, g: Right.sample_likelihood(s, x, g) + 0.03),
    ("log_defensive", lambda s, x, y, t: Right.log_defensive(s, x, y, t) + 0.05),
    ("sample_defensive", wide),
]


@pytest.mark.parametrize(("method", "function"), SMALL_MISTAKES)
def test_many_draws_show_small_mistakes(method, function):
    report = amci.check(changed(log_evidence=None, **{method: function}), seconds=60)
    assert report.findings[0].method == method, report


@pytest.mark.parametrize("k", [2, 4, 6, 10])
def test_a_wrong_scale_about_a_wave_is_no_missing_constant(k):
    problem = changed(
        log_likelihood=lambda s, x, y: Normal((k * x).sin(), 0.3).log_prob(y).sum(-1),
        sample_likelihood=lambda s, x, g: (k * x).sin() + 0.33 * torch.randn(x.shape, generator=g),
        log_evidence=None,
        _log_truth=None,
    )
    assert [each.method for each in amci.check(problem).findings] == ["sample_likelihood"]


@pytest.mark.parametrize(("scale", "found"), [(1.0, []), (1.05, ["sample_likelihood"])])
def test_a_wrong_scale_in_one_of_ten_coordinates_of_y_is_found(scale, found):
    scales = torch.tensor([1.0] * 9 + [scale])
    problem = changed(
        y=line(-30.0, 30.0, dim=10),
        log_likelihood=lambda s, x, y: Normal(x[..., :1], 1.0).log_prob(y).sum(-1),
        sample_likelihood=lambda s, x, g: (
            x[..., :1] + scales * torch.randn(*x.shape[:-1], 10, generator=g)
        ),
        log_evidence=None,
        _log_truth=None,
    )
    assert [f.method for f in amci.check(problem, seconds=20).findings] == found


def test_all_mistakes_are_named_at_once():
    wrong = changed(
        log_prior=lambda s, x: Normal(0.0, 1.0).log_prob(x),
        log_likelihood=lambda s, x, y: x - y,
        f=lambda s, x, t: (x > t).all(-1),
        sample_theta=lambda s, n, g: 3 * torch.rand(n, 1, generator=g),
    )
    report = checked(wrong)
    assert {each.method for each in report.errors} == {"log_prior", "log_likelihood", "f"}
    assert report.not_judged[0] == "draws, before the errors above are fixed"
    with pytest.raises(ValueError, match=r"log_prior: .*; f: ") as refused:
        wrong.check([1.0, 1.0], 1.0)
    assert len(str(refused.value)) < 600


SHIPPED = ("tail-5d", "tail-20d", "cancer", "gain-loss", "peak")
RIGHT = [*map(amci.problem, SHIPPED), Right(), Unseen()]


@pytest.mark.parametrize("problem", RIGHT, ids=lambda problem: problem.name)
def test_a_problem_that_is_right_is_clean(problem):
    state = torch.random.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = amci.check(problem, seconds=0.5)
    assert report.findings == (), report
    # Draws of the prior reach these too rarely to tell.
    assert report.not_judged == () or problem.name == "tail-20d", report
    report.refuse()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.is_grad_enabled()


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN_PROBLEMS)
def test_an_invented_problem_that_is_right_is_clean(name):
    assert amci.check(OWN_PROBLEMS[name]()).findings == ()


def cauchy(self, n, generator):
    u = torch.rand(n, 2, generator=generator, dtype=torch.float64)
    return torch.tan(math.pi * (u - 0.5))


HARD = {
    "observations moved to the ends": changed(
        y=line(-2.0, 2.0),
        sample_likelihood=lambda s, x, g: Right.sample_likelihood(s, x, g).clamp(-2, 2),
        log_evidence=None,
    ),
    "counts": changed(
        y=line(0.0, 50.0, typical_range=(0.0, 5.0)),
        log_likelihood=lambda s, x, y: (y * x / 2 - (x / 2).exp() - torch.lgamma(y + 1)).sum(-1),
        sample_likelihood=lambda s, x, g: torch.poisson((x / 2).exp(), generator=g),
        log_evidence=None,
        _log_truth=None,
    ),
    "no moments": changed(
        Unseen,
        f=lambda s, x, t: (x[..., 0] > t[..., 0]).to(x.dtype),
        sample_prior=cauchy,
        log_prior=lambda s, x: -(math.pi * (1 + x.square())).log().sum(-1),
        sample_defensive=None,
        log_defensive=None,
    ),
}


@pytest.mark.parametrize("problem", HARD.values(), ids=HARD)
def test_a_hard_problem_that_is_right_is_not_called_wrong(problem):
    assert checked(problem).findings == ()


def test_a_truth_that_the_draws_cannot_settle_is_not_judged():
    problem = changed(
        Unseen,
        f=lambda s, x, t: (6 * x[..., 0]).exp() + 0 * t[..., 0],
        _log_truth=lambda s, y, t: (np.full(y.shape[:-1], 18.0), np.ones(y.shape[:-1])),
    )
    report = checked(problem)
    assert report.findings == ()
    assert report.not_judged == ("_log_truth: the draws' weights vary too much",)


@pytest.mark.parametrize("f", ["x**-0.9", "1 / x"])
def test_a_right_f_without_a_variance_is_no_mistake(f):
    # The right truth of the first was called wrong; of the other a method that nobody wrote.
    prior = torch.distributions.Uniform(*torch.tensor([0.0, 1.0], dtype=torch.float64))
    report = amci.check(amci.model(prior=prior, f=f))
    assert report.errors == ()
    assert report.warnings or report.not_judged
    assert {each.method for each in report.warnings} <= {"truth"}


def test_what_was_found_is_said_and_can_be_raised():
    wrong = Finding("error", "f", "f: is NaN")
    report = Checked("mine", (wrong, Finding("warning", "y", "y: no end")), ("f: where",), 0.1)
    assert str(report).splitlines() == [
        "mine: 1 error and 1 warning",
        "  error: f: is NaN",
        "  warning: y: no end",
        "  not judged: f: where",
    ]
    assert (report.errors, [each.method for each in report.warnings]) == ((wrong,), ["y"])
    with pytest.raises(ValueError, match=r"^f: is NaN$"):
        report.refuse()


@pytest.mark.parametrize("name", amci.problems())
def test_points_for_sobol_follow_the_densities(name):
    problem = amci.problem(name)
    y, theta = problem.check(*problem.typical_case())
    generator = torch.Generator().manual_seed(3)
    u = 1 - torch.rand(1, 2**14, problem.x.dim, dtype=torch.float64, generator=generator)
    x, safe = problem.prior_from_uniform(u), problem.defensive_from_uniform(y, theta, u[0])
    assert x is None or contradiction(x[0], problem.log_prior) is None
    assert safe is None or not contradiction(safe, lambda x: problem.log_defensive(x, y, theta))
