"""Training in memory, for registered problems and others."""

import math
import re
import sys

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.distributions import Normal

import amci_core as amci
from amci_core._arguments import PURPOSES
from amci_core.checking import Checked
from amci_core.estimation.sampling import generators
from amci_core.models import LineProblem, Problem, Variable
from amci_core.training import Plan, learn, stream_learning, usual_terms
from amci_core.training.quality import HeldOut
from amci_core.training.targets import TARGETS
from amci_core.training.trainer import Fit, stream_seeds


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """Fewer cases and draws to judge weights by."""
    for option, number in (("cases", 32), ("draws", 64)):
        monkeypatch.setitem(HeldOut.__init__.__kwdefaults__, option, number)


@pytest.mark.slow
def test_learning_lowers_the_held_out_variance_of_every_proposal():
    problem = amci.problem("tail-1d")
    reached = {}
    for progress, _ in stream_learning(problem, steps=300, seed=1):
        reached.setdefault(progress.proposal, []).append(progress.quality.relative_variance)
    assert list(reached) == ["q1_plus", "q2"]
    for course in reached.values():
        assert course[-1] < 0.6 * course[0]


def test_the_last_of_the_stream_is_what_learn_gives():
    problem = amci.problem("gain-loss")
    *_, (progress, streamed) = stream_learning(problem, steps=3)
    assert (progress.proposal, progress.step) == ("q2", 3)
    at_once = learn(problem, steps=3)
    for one, other in zip(streamed.as_tuple, at_once.as_tuple, strict=True):
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(a, b)
    value = amci.estimate(problem, at_once, 1.0, 0.4, draws=8).value
    assert np.isfinite(value)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("tail-1d", ["q1_plus", "q2"]),
        ("gain-loss", ["q1_plus", "q1_minus", "q2"]),
        ("peak", ["q1_plus"]),
    ],
)
def test_every_term_that_needs_a_proposal_has_a_usual_one(name, wanted):
    assert list(usual_terms(amci.problem(name))) == wanted


def test_what_is_wrong_is_said():
    problem = amci.problem("tail-1d")
    with pytest.raises(ValueError, match="q1_plus"):
        stream_learning(problem, {})
    with pytest.raises(ValueError, match="steps"):
        stream_learning(problem, steps=0)
    with pytest.raises(ValueError, match="minutes or steps"):
        learn(problem, minutes=1, steps=1)
    for minutes in (0, math.nan, 1e9, "five"):
        with pytest.raises(ValueError, match="minutes"):
            stream_learning(problem, minutes=minutes)
    with pytest.raises(ValueError, match=r"^progress: expected True, False, None or a function"):
        learn(problem, steps=1, progress="bar")
    with pytest.raises(ValueError, match="with terms expected steps"):
        stream_learning(problem, usual_terms(problem), minutes=1)


@pytest.mark.parametrize("seed", [0, 5, 2**63 - 1])
def test_no_stream_of_training_is_a_stream_of_estimates(seed):
    problem = amci.problem("gain-loss")
    terms = usual_terms(problem)
    cpu = torch.device("cpu")
    trained = {
        Fit(problem, name, term, steps=1, seed=seed, device=cpu).generator.initial_seed()
        for name, term in terms.items()
    } | {initial for name in terms for initial in stream_seeds(seed, name)}
    estimated = {generators(seed, purpose)[0].initial_seed() for purpose in PURPOSES}
    estimated |= {
        generators(case)[0].initial_seed() for case in np.random.SeedSequence(seed).spawn(100)
    }
    assert len(trained) == 2 * len(terms)
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
    folder = amci.save_proposals(tmp_path / "alone", proposals)
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
def test_a_mode_that_the_reference_misses_is_found_all_the_same(monkeypatch):
    with pytest.raises(ValueError, match=r"log_defensive: .* give the reference a part there"):
        learn(Beside(), steps=1)
    # A mode may be too rare for the check: what if it had said nothing?
    nothing = Checked("beside", (), (), 0.0)
    monkeypatch.setattr(
        sys.modules["amci_core.training.learn"], "check", lambda problem, **_: nothing
    )
    proposals = learn(Beside(), steps=200)
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


def test_it_says_what_it_will_do_before_it_does_it():
    said = []
    stream = stream_learning(amci.problem("tail-1d"), steps=20, say=said.append)
    next(stream)
    (plan,) = (each for each in said if isinstance(each, Plan))
    assert plan.proposal == "q1_plus"
    assert sum(plan.steps) == 20
    for part in ("half-line", "parameters", " ms", "a report takes", "MB"):
        assert part in str(plan)
    *_, (last, proposals) = stream
    assert last.step == last.steps
    assert proposals.card["configuration"]["verdict"]["text"] in said


def test_ctrl_c_keeps_the_best_so_far():
    seen = []

    def stop(progress):
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    proposals = learn(amci.problem("tail-1d"), steps=50, progress=stop)
    assert np.isfinite(amci.estimate(amci.problem("tail-1d"), proposals, 1.0, 2.0).value)
    assert "verdict" not in proposals.card["configuration"]


def test_a_training_in_a_folder_goes_on_where_it_was_interrupted(tmp_path):
    problem, folder = amci.problem("tail-1d"), tmp_path / "kept"

    def stop(progress):
        if progress.proposal == "q2":
            raise KeyboardInterrupt

    first = learn(problem, steps=10, folder=folder, progress=stop)
    kept = amci.load_proposals(problem, folder=folder)
    for at in (first, kept):
        assert amci.estimate(problem, at, 1.0, 2.0, seed=3).value > 0
    with pytest.raises(ValueError, match="holds proposals already"):
        learn(problem, steps=10, folder=folder)
    whole = learn(problem, steps=10, folder=folder, resume=True)
    for one, other in zip(
        first.q1_plus.state_dict().values(), whole.q1_plus.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, other, check_dtype=False)
    assert set(whole.card["configuration"]["steps"]) == {"q1_plus", "q2"}
    with pytest.raises(ValueError, match="is complete"):
        learn(problem, steps=10, folder=folder, resume=True)
    with pytest.raises(ValueError, match="holds no training"):
        learn(problem, steps=10, folder=tmp_path / "empty", resume=True)
    with pytest.raises(ValueError, match="resume: expected a folder"):
        learn(problem, steps=10, resume=True)


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
    terms = usual_terms(problem)

    def look(report):
        problem.broken = method if report.step >= 10 else ""

    with pytest.warns(UserWarning, match=rf"^q1_plus: .*{said}.* at step \d+ of 20") as warned:
        best = learn(problem, {"q1_plus": terms["q1_plus"]}, steps=20, progress=look)
    if method == "f":
        x, theta = map(float, re.search(said, str(warned[0].message)).groups())
        assert x > theta + 1
    assert str(warned[0].message).endswith("the best so far is kept")
    assert len(str(warned[0].message)) < 600
    problem.broken = ""
    untrained = learn(problem, {"q1_plus": terms["q1_plus"]}, steps=1).q1_plus
    held_out = HeldOut(TARGETS["q1_plus"](problem))
    reached, before = (held_out.quality(q).relative_variance for q in (best.q1_plus, untrained))
    assert reached < before
