"""What every problem tells of its terms, its support and its arguments; what is refused."""

import copy
import math

import numpy as np
import pytest
import torch
from hidden import hidden

import amci_core as amci
from amci_core.models import Problem, Variable
from amci_core.models.tail import GaussianTail

TAIL, FIVE, GAIN = (amci.problem(name) for name in ("tail-1d", "tail-5d", "gain-loss"))
UNKNOWN = hidden("tail-1d")


def changed(problem, **methods):
    """A copy of a problem, with other methods."""
    other = copy.copy(problem)
    other._valid = False
    other.__class__ = type("Changed", (type(problem),), methods)
    return other


# As of a user who has defined neither.
PLAIN = changed(GAIN, with_negated_f=Problem.with_negated_f, _log_parts=Problem._log_parts)


# The path's ends from a start: the diagonal of the tails' thetas, the price up to the mean (which
# is y / 2) from its side, the peak's sharpness.
@pytest.mark.parametrize(
    ("name", "start", "first", "last"),
    [
        ("tail-1d", (0.0, 1.0), 0.0, 5.0),
        ("tail-5d", ((3.0, 1.0, -1.0, 2.0, 0.0), (1.0, 2.0, 0.0, 3.0, 0.5)), [0.0] * 5, [3.0] * 5),
        ("gain-loss", (1.0, 2.0), 3.0, 0.5),
        ("gain-loss", (1.0, -2.0), -3.0, 0.5),
        ("gain-loss", (8.0, 3.0), -3.0, 3.0),
        ("gain-loss", (-6.0, 0.0), 3.0, -3.0),
        ("peak", (None, (0.3, 0.5, 0.1)), (0.3, 0.5, 0.0), (0.3, 0.5, 1.0)),
    ],
)
def test_the_mismatch_control_follows_its_path_to_the_ends(name, start, first, last):
    problem = amci.problem(name)
    low, high = problem.mismatch_range(*start)
    levels = (0.0, low + 0.2 * (high - low), low + 0.9 * (high - low), 1e4)
    at = [problem.at_mismatch(level, *start)[1] for level in levels]
    assert at[0] == pytest.approx(np.atleast_1d(first))
    assert at[-1] == pytest.approx(np.atleast_1d(last))
    found = [float(problem.mismatch(start[0], theta)) for theta in at]
    assert found == pytest.approx(np.clip(levels, low, high), abs=1e-6)


@pytest.mark.parametrize("name", amci.problems())
def test_the_prior_is_zero_outside_the_support_alone(name):
    problem = amci.problem(name)
    x = problem.sample_prior(1000, torch.Generator().manual_seed(0)).double()
    assert problem.support.check(x).all()
    far = torch.cat([x - 3, x * 1.5, -x])
    inside = problem.support.check(far).all(-1)
    assert torch.equal(problem.log_prior(far) > -torch.inf, inside)


def test_the_support_follows_from_the_range_of_x():
    problem = GaussianTail(1)
    at = torch.tensor([-1.0, 0.5, 1.5])
    for low, high, inside in (
        (-math.inf, math.inf, [True, True, True]),
        (0.0, math.inf, [False, True, True]),
        (-math.inf, 0.0, [True, False, False]),
        (0.0, 1.0, [False, True, False]),
    ):
        problem.x = Variable("x", 1, low, high, "a quantity")
        assert problem.support.check(at).tolist() == inside


def test_a_signed_problem_has_a_negated_one_by_default():
    plain, known = PLAIN.with_negated_f(), GAIN.with_negated_f()
    _, theta = GAIN.check([[1.0], [-3.0]], [[0.4], [2.0]])
    x = torch.linspace(-3, 3, 9, dtype=torch.float64)[:, None]
    for one, other in zip(plain.f_parts(x, theta), known.f_parts(x, theta), strict=True):
        assert torch.equal(one, other)


def test_a_problem_prints_what_it_is_and_whether_its_truth_is_known():
    assert repr(FIVE) == "tail-5d: x of 5, y of 5, theta of 5; f >= 0; mu known"
    assert str(GAIN).endswith("f of both signs; mu known")
    assert "y of" not in repr(amci.problem("peak"))
    for problem in (UNKNOWN, PLAIN.with_negated_f()):
        assert str(problem).endswith("mu not known")
        assert (problem.knows_truth, problem.knows_bound) == (False, False)
    assert TAIL.knows_bound


@pytest.mark.parametrize(
    ("method", "function", "message"),
    [
        ("f", lambda x, t: (x > t).all(-1), r"f: expected .*float64.*\(4, 16\), got bool"),
        ("f", lambda x, t: (x > t).double(), r"f: expected .* got float64 of shape \(4, 16, 1\)"),
        ("f", lambda x, t: -(x - t).abs()[..., 0], "f: expected values >= 0, since nonnegative"),
        ("f", lambda x, t: 2.0 + (x - t)[..., 0] ** 2, r"f: .* within f_range, \[0, 1\], got"),
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
    problem = changed(TAIL, **{method: staticmethod(function)})
    for use in (lambda: problem.check(1.0, 3.0), lambda: problem.cases(3, seed=0)):
        with pytest.raises(ValueError, match=f"^{message}"):
            use()


SEVERAL = r"For several cases pass shape \(cases, 1\), such as \[\[1.0\], "


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: UNKNOWN.truth(1.0, 3.0), "truth: tail-1d has no known mu. Define _log_truth, or"),
        (lambda: UNKNOWN.log_terms(1.0, 3.0), "truth: tail-1d has no known mu"),
        (
            lambda: UNKNOWN.mean_absolute_deviation(1.0, 3.0),
            "mean_absolute_deviation: tail-1d has no known value",
        ),
        (lambda: UNKNOWN.mismatch(1.0, 3.0), "mismatch: tail-1d has no .* Define _mismatch"),
        (lambda: UNKNOWN.mismatch_range(1.0, 3.0), "mismatch: tail-1d .* Define _path"),
        (lambda: PLAIN.log_terms(1.0, 0.4), "log_terms: gain-loss .* Define _log_parts"),
        (TAIL.with_negated_f, "with_negated_f: tail-1d declares .* declare False"),
        (GAIN.complement, "complement: f of gain-loss has no known range"),
        (lambda: TAIL.truth(8.1, 1.0), r"y: expected .* within \[-8, 8\], got 8.1"),
        (lambda: TAIL.truth(1.0, -0.1), r"theta: expected .* within \[0, 5\], got -0.1"),
        (lambda: TAIL.truth(math.nan, 1.0), r"y: expected .* got nan"),
        (lambda: TAIL.truth(np.zeros((0, 1)), 1.0), r"y: expected .* got shape \(0, 1\)"),
        (lambda: TAIL.truth("one", 1.0), r"y: expected .* got 'one'"),
        (lambda: TAIL.truth(1.0), r"theta: tail-1d needs it .* within \[0, 5\]"),
        (lambda: TAIL.truth(None, 1.0), r"y: tail-1d needs it .* within \[-8, 8\]"),
        (
            lambda: TAIL.truth(np.zeros((2, 1)), np.ones((3, 1))),
            r"y and theta: .* \(2,\) and \(3,\) do not broadcast",
        ),
        (lambda: TAIL.check([1.0, 2.0], 3.0), rf"y: .* got shape \(2,\). {SEVERAL}"),
        (lambda: FIVE.check([1.0] * 3, [1.0] * 5), r"y: .* \(\.\.\., 5\) .* got shape \(3,\)$"),
        (lambda: TAIL.at_mismatch(-1.0, 0.0, 1.0), "level: expected .* got"),
        (lambda: TAIL.at_mismatch(1.0, [[1.0], [2.0]], 1.0), "y: expected a single case"),
        (lambda: TAIL.cases(0, seed=0), "n: expected a whole number"),
        (lambda: TAIL.cases(3, seed=-1), "seed: expected a whole number"),
        (lambda: amci.problem("tail-3d"), "problem: expected one of .*tail-1d.* got 'tail-3d'"),
        (lambda: Variable("x", 0, 0.0, 1.0, "none"), r"x.dim: .* whole number from 1 .*, got 0$"),
        (lambda: Variable("x", 1.5, 0.0, 1.0, "none"), r"x.dim: expected .*, got 1.5$"),
        (lambda: Variable("x", 1, 1.0, 0.0, "none"), r"x: expected low below high.*\[1.0, 0.0\]$"),
    ],
)
def test_what_is_wrong_or_not_known_is_named(ask, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        ask()
