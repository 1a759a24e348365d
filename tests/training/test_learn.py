"""Training in memory, for registered problems and others."""

import math
import sys

import numpy as np
import pytest
import torch
from torch.distributions import Exponential, Gamma, Normal, Uniform

import amci_core as amci
from amci_core._arguments import PURPOSES
from amci_core.checking import Checked
from amci_core.estimation.sampling import generators
from amci_core.flows.families import forms
from amci_core.models import Problem, Variable
from amci_core.training import Choices, clock, form_names, learn
from amci_core.training.particles import NotReached, draw_particles, smc
from amci_core.training.quality import HeldOut
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import TermRecipe, Trainer, TrainingDiverged, stream_seeds

NORMAL, ABOVE = Normal(0.0, 1.0), {"f": lambda x, theta: x > theta, "theta": Uniform(0.0, 2.0)}


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """Fewer cases, draws and particles to begin with and to judge weights by."""
    for option, number in (("cases", 32), ("draws", 64)):
        monkeypatch.setitem(HeldOut.__init__.__kwdefaults__, option, number)


@pytest.fixture
def unchecked(monkeypatch):
    """Problems without a mistake are trained at once."""
    module = sys.modules["amci_core.training.learn"]
    monkeypatch.setattr(module, "check", lambda problem, **_: Checked("", (), (), 0.0))


def test_the_last_of_the_reports_is_what_learn_gives(unchecked):
    problem, reports, said = amci.problem("gain-loss"), [], []
    learnt = learn(
        problem, steps=3, on_progress=lambda *news: reports.append(news), say=said.append
    )
    progress, last = reports[-1]
    assert (progress.proposal, progress.stage, progress.step) == ("q2", "refine", 2)
    assert progress.ended
    assert last.by_name == learnt.by_name
    assert np.isfinite(amci.estimate(problem, learnt, 1.0, 0.4, draws=8).value)
    (plan,) = (message for message in said if "parameters" in message and "q1_plus" in message)
    assert plan.startswith("q1_plus: half-line")
    assert plan.endswith("3 steps")
    assert learnt.verdict in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"minutes": 1, "steps": 1}, "steps: expected minutes or steps"),
        ({"minutes": 0}, "minutes"),
        (
            {"steps": 2, "choices": Choices(family="rotated")},
            "family: expected one of half-line, half-line from zero, spline",
        ),
    ],
)
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        learn("tail-1d", **options)


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_no_stream_of_training_is_a_stream_of_estimates(seed):
    trained = {s for name in ("q1_plus", "q1_minus", "q2") for s in stream_seeds(seed, name)}
    assert len(trained) == 6
    assert not trained & {generators(seed, purpose)[0].initial_seed() for purpose in PURPOSES}


def test_a_bounded_x_without_y_and_theta_is_one_case_and_learnt(tmp_path, unchecked):
    waiting = amci.model(prior=Exponential(1.0), f="x**2", name="waiting")
    folder = learn(waiting, steps=50).save(tmp_path / "waiting")
    loaded = amci.load_proposals(waiting, folder=folder)
    found = amci.estimate(waiting, loaded, draws=1000)
    assert abs(found.value - 2) < 4 * found.standard_error
    # Draws of the prior have a relative error of sqrt(5 / 1000) = 0.07.
    assert found.standard_error < 0.02 * 2


def test_a_training_that_is_stopped_gives_the_best_so_far_of_what_is_chosen(tmp_path, unchecked):
    folder, chosen = tmp_path / "made", Choices(family="spline", bins=5, width=12)

    def stop(progress, _):
        if progress.proposal == "q2" and progress.step:
            raise KeyboardInterrupt

    stopped = learn("tail-1d", steps=3, choices=chosen, folder=folder, on_progress=stop)
    assert "verdict" not in stopped.card["configuration"]
    for proposals in (stopped, amci.load_proposals("tail-1d", folder=folder)):
        assert amci.estimate("tail-1d", proposals, 1.0, 2.0, seed=3).value > 0
    for stages in stopped.card["configuration"]["recipe"].values():
        assert stages["pretrain"]["family"] == "autoregressive-spline"
        assert stages["pretrain"]["arguments"]["bins"] == 5
        assert stages["pretrain"]["arguments"]["hidden"] == [12, 12]


def test_a_problem_with_a_mistake_is_not_trained():
    class Wrong(type(amci.problem("tail-1d"))):
        def f(self, x, theta):
            return (x > theta).to(x.dtype)

    with pytest.raises(ValueError, match=r"f\(x, theta\)|f: "):
        learn(Wrong(1), steps=1)


# Methods that fail far beyond theta.
BROKEN = {
    "f": lambda x, theta: torch.where(x > theta + 1, math.nan, 1.0).squeeze(-1),
    "log_likelihood": lambda x, y: Normal(x, torch.where(x > 2, math.nan, 1.0)).log_prob(y),
}


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("f", r"f is nan at x = \([\d.]+\), y = \(-?[\d.e-]+\), theta = \([\d.e-]+\),"),
        ("log_likelihood", "log_likelihood raised ValueError in .*: Expected parameter scale"),
    ],
)
def test_a_training_that_diverges_names_the_method_and_gives_the_best(method, said):
    problem = amci.model(prior=NORMAL, likelihood=lambda x: Normal(x, 1.0), **ABOVE)
    settings = {"cases": 192, "uniform_cases": 64, "from_proposal": 12, "from_reference": 4}
    form = forms(problem, reads_theta=True)["spline"]
    term = TermRecipe(**form, objective="refine", settings=settings)
    trainer = Trainer(problem, "q1_plus", term, steps=20, seed=0, reports=4)
    before = trainer.best_quality.relative_variance
    reports = trainer.run()
    while next(reports).step < 10:
        pass
    setattr(problem, method, BROKEN[method])
    with pytest.raises(TrainingDiverged, match=rf"^q1_plus: .*{said}.* at step \d+\.") as raised:
        list(reports)
    assert str(raised.value).endswith("The best weights so far are saved")
    delattr(problem, method)
    best = trainer.best_proposal()
    assert HeldOut(TARGETS["q1_plus"](problem)).quality(best).relative_variance < before


# An end of the range of x is no bound of f.
TWO_WAITS = amci.model(prior=[Gamma(2.0, 1.0), Gamma(3.0, 1.0)], f=lambda x: x.sum(-1))
LINES, SPACES = ("half-line", "half-line from zero"), ("by coordinate", "rotated")


@pytest.mark.parametrize(
    ("problem", "known"),
    [
        ("tail-1d", (*LINES, "spline")),
        ("gain-loss", (*LINES, "spline")),
        ("tail-5d", (*LINES, *SPACES, "along the radius")),
        ("peak", (*SPACES, "along the radius")),
        (TWO_WAITS, (*SPACES, "along the radius")),
    ],
)
def test_the_forms_that_can_be_chosen(problem, known):
    assert form_names(amci.problem(problem) if isinstance(problem, str) else problem) == known


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
def fake_clock(monkeypatch, unchecked):
    fake = FakeClock()
    monkeypatch.setattr(clock, "now", fake)
    return fake


class Exceeds(Problem):
    """x ~ N(0, I), each y is the mean of x with noise; a point of the likelihood has its price."""

    name, nonnegative = "exceeds", True
    y = Variable("y", 1, -math.inf, math.inf, "data", typical_range=(-2.0, 2.0))
    theta = Variable("theta", 1, 0.0, 2.0, "a bound")

    def __init__(self, clock, *, dim=2, price=1e-7):
        self.clock, self.price = clock, price
        self.x = Variable("x", dim, -math.inf, math.inf, "a point")

    def log_prior(self, x):
        return NORMAL.log_prob(x).sum(-1)

    def log_likelihood(self, x, y):
        value = NORMAL.log_prob(y - x.mean(-1, keepdim=True)).sum(-1)
        self.clock.seconds += self.price * value.numel()
        return value

    def f(self, x, theta):
        return (x[..., 0] > theta[..., 0]).to(x.dtype)

    def sample_prior(self, n, generator):
        return torch.randn(n, self.x.dim, generator=generator)

    def sample_likelihood(self, x, generator):
        mean = x.mean(-1, keepdim=True)
        return mean + torch.randn(mean.shape, generator=generator)


class Unreached(Exceeds):
    """f is zero wherever the prior has draws."""

    def f(self, x, theta):
        return (x[..., 0] > 40 + theta[..., 0]).to(x.dtype)


COSTLY = {"price": 1e-3}


def test_looking_takes_a_quarter_and_the_whole_its_minute(fake_clock):
    looked, since = 0.0, fake_clock.seconds

    def say(message):
        nonlocal looked
        if "parameters" in message:
            looked += fake_clock.seconds - since

    def report(*_):
        nonlocal since
        since = fake_clock.seconds

    proposals = learn(Exceeds(fake_clock, **COSTLY), minutes=0.5, say=say, on_progress=report)
    assert looked < 7.5
    assert 22 < fake_clock.seconds < 31
    assert min(proposals.card["configuration"]["steps"].values()) > 10
    # The verdict comes with the last of the stream.
    assert "verdict" in proposals.card["configuration"]


def test_a_term_that_fails_leaves_the_other_trained(fake_clock):
    proposals = learn(Unreached(fake_clock), minutes=0.2)
    configuration = proposals.card["configuration"]
    assert set(configuration["steps"]) == {"q2"}
    assert configuration["proposals"]["q1_plus"]["family"] == "defensive"
    text = proposals.verdict
    # Sixty-four draws do not show that f is zero.
    assert text.startswith("q1_plus could not be trained (time: the term is zero at all 64 draws")
    assert "Raise minutes, or let the range of theta begin at common events" in text


def test_out_of_time_and_nothing_found_are_two_messages(fake_clock):
    class Sharp(Exceeds):
        def f(self, x, theta):
            return (-50 * (x - theta).square().sum(-1)).exp()

    rare = r"zero at all 1,056 prior draws of each of 8 .* Define sample_defensive and"
    for problem, seconds, message in (
        (Sharp(fake_clock, dim=4, **COSTLY), 0.5, r"8 of 8 cases\. Raise"),
        (Unreached(fake_clock), math.inf, rare),
    ):
        target, generator = TARGETS["q1_plus"](problem), torch.Generator().manual_seed(0)
        y, theta = target.cases(8, uniform=0, generator=generator)
        with pytest.raises(NotReached, match=message):
            smc(target, y, theta, 32, generator, seconds=seconds)


def test_cases_have_theta_where_f_cuts_an_informative_posterior():
    problem = amci.model(prior=NORMAL, likelihood=lambda x: Normal(x, 0.01), **ABOVE)
    target, generator = TARGETS["q1_plus"](problem), torch.Generator().manual_seed(0)
    target.posterior = draw_particles(TARGETS["q2"](problem), generator, steps=64)
    y, theta = target.cases(128, uniform=0, generator=generator)
    # Of theta apart from y one in a hundred is so near.
    assert ((y - theta).abs() < 0.05).double().mean() > 0.15
