"""Training in memory, for registered problems and others."""

import math
import re
import sys

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.distributions import Gamma, Independent, Normal, Uniform

import amci_core as amci
from amci_core._arguments import PURPOSES
from amci_core.checking import Checked
from amci_core.estimation.sampling import generators
from amci_core.flows.families import forms
from amci_core.models import LineProblem, Problem, Variable
from amci_core.training import Choices, clock, form_names, learn, recipe
from amci_core.training.particles import NotReached, draw_particles, smc
from amci_core.training.quality import HeldOut
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import TermRecipe, Trainer, TrainingDiverged, stream_seeds


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """Fewer cases and draws to judge weights by."""
    for option, number in (("cases", 32), ("draws", 64)):
        monkeypatch.setitem(HeldOut.__init__.__kwdefaults__, option, number)


def test_the_last_of_the_reports_is_what_learn_gives():
    problem, reports, said = amci.problem("gain-loss"), [], []
    learnt = learn(
        problem, steps=3, on_progress=lambda *news: reports.append(news), say=said.append
    )
    progress, last = reports[-1]
    assert (progress.proposal, progress.stage, progress.step) == ("q2", "refine", 1)
    assert progress.ended
    assert last.by_name == learnt.by_name
    assert np.isfinite(amci.estimate(problem, learnt, 1.0, 0.4, draws=8).value)
    (plan,) = (message for message in said if "parameters" in message and "q1_plus" in message)
    assert plan.startswith("q1_plus: half-line")
    assert plan.endswith("3 steps")
    assert learnt.verdict in said


def test_what_is_wrong_is_said():
    problem = amci.problem("tail-1d")
    with pytest.raises(ValueError, match="steps"):
        learn(problem, steps=0)
    with pytest.raises(ValueError, match="minutes or steps"):
        learn(problem, minutes=1, steps=1)
    with pytest.raises(ValueError, match="minutes"):
        learn(problem, minutes=0)
    with pytest.raises(
        ValueError, match=r"^family: expected one of half-line, half-line from zero, spline"
    ):
        learn(problem, steps=2, choices=Choices(family="rotated"))
    for odd in ({"bins": 3}, {"width": 0}):
        with pytest.raises(ValueError, match=f"^{next(iter(odd))}: expected"):
            Choices(**odd)


@pytest.mark.parametrize("seed", [0, 5, 2**63 - 1])
def test_no_stream_of_training_is_a_stream_of_estimates(seed):
    problem, names = amci.problem("gain-loss"), ("q1_plus", "q1_minus", "q2")
    term = recipe("gain-loss", "spline").terms["q2"]
    trained = {
        Trainer(problem, name, term, steps=1, seed=seed).generator.initial_seed() for name in names
    } | {initial for name in names for initial in stream_seeds(seed, name)}
    estimated = {generators(seed, purpose)[0].initial_seed() for purpose in PURPOSES}
    estimated |= {
        generators(case)[0].initial_seed() for case in np.random.SeedSequence(seed).spawn(100)
    }
    assert len(trained) == 2 * len(names)
    assert not trained & estimated


class Positive(LineProblem):
    """Exponential x; samplers give float64, and the range of x has an end."""

    name, nonnegative = "positive", True
    x, y = Variable("x", 1, 0.0, np.inf, "a waiting time"), None
    theta = Variable("theta", 1, 0.5, 2.0, "a price")

    def log_prior(self, x):
        return torch.where(x > 0, -x, -torch.inf).sum(-1)

    def f(self, x, theta):
        return (theta * x.square()).sum(-1)

    def sample_prior(self, n, generator):
        return torch.empty(n, 1, dtype=torch.float64).exponential_(generator=generator)


def test_a_bounded_x_and_samplers_of_double_precision_are_learnt():
    proposals = learn(Positive(), steps=2)
    found = amci.estimate(Positive(), proposals, theta=1.0, draws=400)
    assert abs(found.value - 2) < 5 * found.standard_error


@pytest.mark.parametrize("dim", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_problem_without_y_and_theta_is_one_case_and_learnt(dim, tmp_path):
    class Alone(Problem):
        name, nonnegative, y, theta = "alone", True, None, None
        x = Variable("x", dim, -np.inf, np.inf, "a point")

        def log_prior(self, x):
            return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)

        def sample_prior(self, n, generator):
            return torch.randn(n, dim, generator=generator)

        def f(self, x, theta):
            return x.sum(-1).exp()

    proposals = learn(Alone(), steps=100)
    folder = proposals.save(tmp_path / "alone")
    loaded = amci.load_proposals(Alone(), folder=folder)
    found = amci.estimate(Alone(), loaded, draws=1000)
    truth = np.exp(dim / 2)
    assert abs(found.value - truth) < 4 * found.standard_error
    # Draws of the prior have a relative error of sqrt((e^dim - 1) / 1000): 0.04 and 0.08.
    assert found.standard_error < 0.02 * truth


class Beside(Problem):
    """Either side of theta, two modes; its own reference knows one of them."""

    name, nonnegative, y = "beside", True, None
    x = Variable("x", 1, -np.inf, np.inf, "a point")
    theta = Variable("theta", 1, 1.0, 3.0, "a bound")

    def log_prior(self, x):
        return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)

    def sample_prior(self, n, generator):
        return torch.randn(n, 1, generator=generator)

    def f(self, x, theta):
        return (x.abs() > theta).all(-1).to(x.dtype)

    def sample_defensive(self, y, theta, n, generator):
        noise = torch.randn(*theta.shape[:-1], n, 1, dtype=theta.dtype, generator=generator)
        x = theta[..., None, :] + 0.4 + 0.4 * noise
        return x, self.log_defensive(x, y, theta)

    def log_defensive(self, x, y, theta):
        centre = theta[..., None, :] + 0.4
        return torch.distributions.Normal(centre, 0.4).log_prob(x).sum(-1)


@pytest.mark.slow
def test_a_mode_that_the_reference_misses_is_found_all_the_same():
    proposals = learn(Beside(), steps=1000)
    theta = np.linspace(1.2, 2.8, 9)[:, None]
    truth = 2 * norm.sf(theta[:, 0])
    wrong = reliable = 0
    for seed in range(20):
        e = amci.estimate(Beside(), proposals, None, theta, draws=500, seed=seed)
        trusted = e.verdict.codes == 0
        reliable += trusted.sum()
        wrong += (trusted & ~(np.abs(e.value - truth) < 4 * e.standard_error)).sum()
    assert wrong <= 1
    assert reliable > 90


def test_a_training_in_a_folder_goes_on_to_the_same_weights(tmp_path):
    problem, folder = amci.problem("tail-1d"), tmp_path / "made"

    def stop(progress, _):
        if (progress.proposal, progress.stage) == ("q2", "pretrain") and progress.step % 6:
            raise KeyboardInterrupt

    stopped = learn(problem, steps=20, folder=folder, on_progress=stop)
    assert "verdict" not in stopped.card["configuration"]
    for proposals in (stopped, amci.load_proposals(problem, folder=folder)):
        assert amci.estimate(problem, proposals, 1.0, 2.0, seed=3).value > 0
    with pytest.raises(ValueError, match=r"holds files, such as config\.json"):
        learn(problem, steps=20, folder=folder)
    with pytest.raises(ValueError, match=r"^resume: .* with another steps\. Repeat"):
        learn(problem, steps=30, folder=folder, resume=True)
    law = {"prior": Normal(0.0, 1.0), "theta": Uniform(0.0, 4.0), "name": "tail-1d"}
    other = amci.model(**law, likelihood=lambda x: Normal(x, 2.0), f="x > theta")
    with pytest.raises(ValueError, match=r"made for tail-1d with another .*log_likelihood"):
        learn(other, steps=20, folder=folder, resume=True)
    resumed = learn(problem, steps=20, folder=folder, resume=True)
    whole = learn(problem, steps=20)
    for name in ("q1_plus", "q2"):
        pair = (getattr(made, name).state_dict().values() for made in (resumed, whole))
        assert all(torch.equal(one, other) for one, other in zip(*pair, strict=True))
    assert resumed.card["configuration"]["steps"] == whole.card["configuration"]["steps"]
    with pytest.raises(ValueError, match="no training that was broken off"):
        learn(problem, steps=20, folder=folder, resume=True)


def test_a_problem_with_a_mistake_is_not_trained():
    class Wrong(Beside):
        def f(self, x, theta):
            return (x.abs() > theta).to(x.dtype)

    with pytest.raises(ValueError, match=r"f\(x, theta\)|f: "):
        learn(Wrong(), steps=1)


class Breaking(LineProblem):
    """P(x > theta | y), whose f or likelihood fails beyond x = theta + 1 once it is broken."""

    name, nonnegative, broken = "breaking", True, ""
    x = Variable("x", 1, -math.inf, math.inf, "a number")
    y = Variable("y", 1, -9.0, 9.0, "with noise", typical_range=(-3.0, 3.0))
    theta = Variable("theta", 1, 0.0, 2.0, "a threshold")

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        scale = torch.where(x > 3, math.nan, 1.0) if self.broken == "log_likelihood" else 1.0
        return Normal(x, scale).log_prob(y).sum(-1)

    def f(self, x, theta):
        value = (x > theta).to(x.dtype).squeeze(-1)
        far = (x > theta + 1).squeeze(-1)
        return value.masked_fill(far, math.nan) if self.broken == "f" else value

    def sample_prior(self, n, generator):
        return torch.randn(n, 1, generator=generator)

    def sample_likelihood(self, x, generator):
        return x + torch.randn(x.shape, generator=generator)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("f", r"f is nan at x = \(([\d.]+)\), y = \(-?[\d.e-]+\), theta = \(([\d.e-]+)\),"),
        ("log_likelihood", r"log_likelihood raised ValueError: Expected parameter scale()()"),
    ],
)
def test_a_training_that_diverges_names_the_method_and_gives_the_best(method, said):
    problem = Breaking()
    settings = {"cases": 192, "uniform_cases": 64, "from_proposal": 12, "from_reference": 4}
    form = forms(problem, reads_theta=True)["spline"]
    recipe = TermRecipe(**form, objective="refine", settings=settings)
    trainer = Trainer(problem, "q1_plus", recipe, steps=20, seed=0, reports=4)
    before = trainer.best_quality.relative_variance
    reports = trainer.run()
    while next(reports).step < 10:
        pass
    problem.broken = method
    with pytest.raises(TrainingDiverged, match=rf"^q1_plus: .*{said}.* at step \d+\.") as raised:
        list(reports)
    message = str(raised.value)
    if method == "f":
        x, theta = map(float, re.search(said, message).groups())
        assert x > theta + 1
    assert message.endswith("The best weights so far are saved")
    assert len(message) < 600
    problem.broken = ""
    best = trainer.best_proposal()
    assert HeldOut(TARGETS["q1_plus"](problem)).quality(best).relative_variance < before


def test_what_is_chosen_is_what_is_trained():
    proposals = learn(
        amci.problem("tail-1d"), steps=2, choices=Choices(family="spline", bins=5, width=12)
    )
    for stages in proposals.card["configuration"]["recipe"].values():
        assert stages["pretrain"]["family"] == "autoregressive-spline"
        assert stages["pretrain"]["arguments"]["bins"] == 5
        assert stages["pretrain"]["arguments"]["hidden"] == [12, 12]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("tail-1d", ("half-line", "half-line from zero", "spline")),
        ("gain-loss", ("half-line", "half-line from zero", "spline")),
        (
            "tail-5d",
            ("half-line", "half-line from zero", "by coordinate", "rotated", "along the radius"),
        ),
        ("peak", ("by coordinate", "rotated", "along the radius")),
    ],
)
def test_the_forms_that_can_be_chosen(name, known):
    assert form_names(amci.problem(name)) == known


def test_an_end_of_the_range_of_x_is_no_bound_of_f():
    waits = Gamma(torch.tensor([2.0, 3.0]), 1.0)
    problem = amci.model(
        prior=Independent(waits, 1),
        f=lambda x, theta: theta * x.sum(-1),
        theta=Uniform(1.0, 2.0),
    )
    assert "half-line" not in form_names(problem)


# Seconds of a look at the clock: of half a step, for steps look twice.
LOOK = 0.04


class FakeClock:
    """Seconds that pass when they are charged, and at every look."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        self.seconds += LOOK
        return self.seconds


@pytest.fixture
def fake_clock(monkeypatch):
    fake = FakeClock()
    monkeypatch.setattr(clock, "now", fake)
    nothing = Checked("exceeds", (), (), 0.0)
    module = sys.modules["amci_core.training.learn"]
    monkeypatch.setattr(module, "check", lambda problem, **_: nothing)
    return fake


class Exceeds(Problem):
    """x ~ N(0, I), each y is the mean of x with noise; a point of the likelihood has its price."""

    name, nonnegative = "exceeds", True
    theta = Variable("theta", 1, 0.0, 2.0, "a bound")

    def __init__(self, clock, *, dim=2, numbers=1, price=1e-7):
        self.clock, self.price = clock, price
        self.x = Variable("x", dim, -math.inf, math.inf, "a point")
        self.y = Variable("y", numbers, -math.inf, math.inf, "data", typical_range=(-2.0, 2.0))

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        value = Normal(x.mean(-1, keepdim=True), 1.0).log_prob(y).sum(-1)
        self.clock.seconds += self.price * value.numel()
        return value

    def f(self, x, theta):
        return (x[..., 0] > theta[..., 0]).to(x.dtype)

    def sample_prior(self, n, generator):
        return torch.randn(n, self.x.dim, generator=generator)

    def sample_likelihood(self, x, generator):
        noise = torch.randn(*x.shape[:-1], self.y.dim, generator=generator)
        return x.mean(-1, keepdim=True) + noise


def learnt(problem, clock, minutes):
    """Seconds of looking, seconds in all, and the proposals."""
    looked, started = 0.0, clock.seconds
    since = started

    def say(message):
        nonlocal looked
        if "parameters" in message:
            looked += clock.seconds - since

    def report(*_):
        nonlocal since
        since = clock.seconds

    proposals = learn(problem, minutes=minutes, say=say, on_progress=report)
    return looked, clock.seconds - started, proposals


COSTLY = {"price": 1e-3}


@pytest.mark.parametrize(
    "options",
    [
        COSTLY,
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"numbers": 20}, marks=pytest.mark.slow),
        pytest.param({"dim": 15}, marks=pytest.mark.slow),
    ],
    ids=["costly", "cheap", "a y of 20 numbers", "15 dimensions"],
)
def test_looking_takes_a_quarter_and_the_whole_its_minute(fake_clock, options):
    problem = Exceeds(fake_clock, **options)
    looked, total, proposals = learnt(problem, fake_clock, minutes=1)
    assert looked < 15
    assert 45 < total < 61
    steps = proposals.card["configuration"]["steps"]
    assert min(steps.values()) > 20
    # The verdict comes with the last of the stream.
    assert "verdict" in proposals.card["configuration"]


class Unreached(Exceeds):
    """f is zero wherever the prior has draws."""

    def f(self, x, theta):
        return (x[..., 0] > 40 + theta[..., 0]).to(x.dtype)


def test_a_term_that_fails_leaves_the_other_trained(fake_clock):
    *_, proposals = learnt(Unreached(fake_clock), fake_clock, minutes=0.2)
    configuration = proposals.card["configuration"]
    assert set(configuration["steps"]) == {"q2"}
    assert configuration["proposals"]["q1_plus"]["family"] == "defensive"
    text = proposals.verdict
    # Sixty-four draws do not show that f is zero.
    assert text.startswith("q1_plus could not be trained (time: the term is zero at all 64 draws")
    assert "Raise minutes, or let the range of theta begin at common events" in text


def test_out_of_time_and_nothing_found_are_two_messages(fake_clock):
    def found(problem, seconds):
        target, generator = TARGETS["q1_plus"](problem), torch.Generator().manual_seed(0)
        y, theta = target.cases(8, uniform=0, generator=torch.Generator().manual_seed(0))
        return smc(target, y, theta, 32, generator, seconds=seconds)

    class Sharp(Exceeds):
        def f(self, x, theta):
            return (-50 * (x - theta).square().sum(-1)).exp()

    with pytest.raises(NotReached, match=r"8 of 8 cases\. Raise"):
        found(Sharp(fake_clock, dim=4, **COSTLY), 0.5)
    said = r"zero at all 1,056 prior draws of each of 8 .* Define sample_defensive and"
    with pytest.raises(NotReached, match=said):
        found(Unreached(fake_clock), math.inf)


class Epidemic(Problem):
    """23 weekly counts that grow to 1e10 and more: at one draw of thousands are they likely."""

    name, nonnegative, theta = "epidemic", True, None
    x = Variable("x", 2, -math.inf, math.inf, "log of the first count, and growth a week")
    y = Variable("y", 23, 0.0, math.inf, "counts")

    def log_prior(self, x):
        return Normal(0.0, 1.0).log_prob(x[..., 0]) + Normal(1.0, 0.2).log_prob(x[..., 1])

    def sample_prior(self, n, generator):
        z = torch.randn(n, 2, generator=generator)
        return torch.stack([z[:, 0], 1 + 0.2 * z[:, 1]], -1)

    def rates(self, x):
        return (x[..., :1] + x[..., 1:] * torch.arange(23.0).to(x)).exp()

    def log_likelihood(self, x, y):
        rate = self.rates(x)
        return (y * rate.log() - rate - torch.lgamma(y + 1)).sum(-1)

    def sample_likelihood(self, x, generator):
        return torch.poisson(self.rates(x), generator=generator)

    def f(self, x, theta):
        return x[..., 1].exp()


def test_particles_reach_a_posterior_of_relative_width_1e_5():
    problem = Epidemic()
    target, generator = TARGETS["q2"](problem), torch.Generator().manual_seed(0)
    found = draw_particles(target, generator, steps=0)
    assert found.missed == 0
    # The sum of all counts is Poisson: its rate is known to one over its root.
    rate = problem.rates(found.x.double()).sum(-1)
    apart = rate.log().std(1) * found.y.double().sum(-1).sqrt()
    assert rate.max() > 1e10
    assert 0.7 < apart.median() < 1.4
    assert apart.quantile(0.9) < 3


class Informative(Exceeds):
    """y tells x to a hundredth."""

    def log_likelihood(self, x, y):
        return Normal(x, 0.01).log_prob(y).sum(-1)

    def sample_likelihood(self, x, generator):
        return x + 0.01 * torch.randn(x.shape, generator=generator)


def test_cases_have_theta_where_f_cuts_an_informative_posterior(fake_clock):
    problem = Informative(fake_clock, dim=1)
    target, generator = TARGETS["q1_plus"](problem), torch.Generator().manual_seed(0)
    posterior = draw_particles(TARGETS["q2"](problem), generator, steps=64)
    target.posterior = posterior
    y, theta = target.cases(128, uniform=0, generator=generator)
    # Of theta apart from y one in a hundred is so near.
    near = ((y - theta).abs() < 0.05).double().mean()
    assert near > 0.15
