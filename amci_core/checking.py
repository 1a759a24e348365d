r"""A problem's definition, tried at draws before it costs time.

A sampler is compared with its density p through a second density g, a mixture of Student's t
fitted to other draws of the sampler. For every function h of a point,

    E_p[h g / (p + g)] = E_g[h p / (p + g)],

since both sides are the integral of h p g / (p + g). With h = 1 the quotient of the two sides is
the mean importance weight, the bridge estimate of p's integral, which is one within its error.
With h the weight of one component in g it is the same for a part of the space. All terms are
bounded by h, so that a z test of the difference holds for any g. Draws of y at one x are compared
with those at another by the odds of their densities, then pairs (x, y) with the joint density,
unless y are counts, which have none.

References:
    Bennett, Efficient estimation of free energy differences from Monte Carlo data, 1976.
    Meng and Wong, Simulating ratios of normalizing constants via a simple identity, 1996.
"""

from __future__ import annotations

__all__ = ["Checked", "Finding", "check"]

import math
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_number
from amci_core.diagnostics.pareto import pareto_k
from amci_core.models import Problem, Variable, check_problem
from amci_core.models.base import Array, written
from amci_core.models.contract import BOTH_SIGNS, functions_at, misfits, raised
from amci_core.models.densities import TERMS, DefensiveDensity
from amci_core.models.student_mixture import StudentMixture, cholesky

# Standard errors apart that contradict: for a right problem with a hundred tests one in 20,000.
APART = 5.0
# A constant that is wrong by fewer nats is a matter of accuracy.
LEAST_CONSTANT = 0.005
# Most components of g.
MOST_COMPONENTS = 8
# Draws of a test: fewer if they take more than this part of the time.
FEWEST_DRAWS, MOST_DRAWS, TIME_OF_TEST = 2**11, 2**17, 0.06
# Cases in which values are looked at, and points of each; cases of the tests with many draws.
CASES, POINTS_OF_CASE, CASES_OF_TEST = 8, 512, 3
# Effective draws, and the largest weight of one, with which a mean is nearly normal.
EFFECTIVE, LARGEST_WEIGHT = 400.0, 0.02
ERROR, WARNING, NOT_JUDGED = "error", "warning", "not judged"
MEND = "fix either, such as a scale, a rate or a bound"

Density = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Finding:
    """A mistake in the definition of a problem.

    Arguments:
        level: `error` if results would be wrong or nothing runs, `warning` if some features do not
            work or are worse than they could be.
        method: The method or attribute to change.
        sentence: What is wrong with it, with its name.
    """

    level: str
    method: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.level}: {self.sentence}"


@dataclass(frozen=True)
class Checked:
    """What `amci_core.check` found.

    Arguments:
        problem: Name of the problem.
        findings: Errors, then warnings.
        not_judged: What the draws could not decide, a sentence each.
        seconds: How long it took.
    """

    problem: str
    findings: tuple[Finding, ...]
    not_judged: tuple[str, ...]
    seconds: float = field(compare=False)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make results wrong or impossible."""
        return tuple(finding for finding in self.findings if finding.level == ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(finding for finding in self.findings if finding.level != ERROR)

    def refuse(self) -> None:
        """Raises a ValueError with all errors, if there are any."""
        if self.errors:
            raise ValueError("; ".join(finding.sentence for finding in self.errors))

    def __str__(self) -> str:
        counts = [(len(self.errors), ERROR), (len(self.warnings), WARNING)]
        total = " and ".join(f"{n} {level}{'s' * (n > 1)}" for n, level in counts if n)
        lines = [f"{self.problem}: {total or 'no mistake found'}"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  {NOT_JUDGED}: {sentence}" for sentence in self.not_judged]
        return "\n".join(lines)

    __repr__ = __str__


def check(problem: Problem | str, *, seconds: float = 2.0) -> Checked:
    """Looks for mistakes in a problem: shapes, types, numbers, supports, samplers, truth.

    Methods are called with draws of the problem, always the same. Samplers are compared with
    their densities, and `log_evidence` and the truth with importance sampling from the defensive
    density. Later checks need the earlier ones: they follow once errors of those are fixed. A
    right problem is called wrong about once in ten thousand times.

    Warning:
        A sample cannot reveal a region it never visits: mistakes where neither the prior nor the
        defensive density has draws are not found.

    Arguments:
        problem: The problem, or the name of a shipped one.
        seconds: The time to aim at; a slow problem is checked with fewer draws.

    Returns:
        `Checked`: `errors` and `warnings`, each a sentence with the method's name, and
        what was `not_judged`; `refuse()` raises the errors.

    Raises:
        ValueError: it is no problem.

    Example:
        >>> import amci_core as amci
        >>> print(amci.check(amci.problem("tail-1d")))
        tail-1d: no mistake found
    """
    problem = check_problem(problem)
    check_number("seconds", seconds)
    began = time.perf_counter()
    # The first finding of each level and method.
    findings: dict[tuple[str, str], Finding] = {}
    not_judged = []
    # What numpy or torch warn of shows in what methods return.
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, stage in STAGES.items():
            if any(level == ERROR for level, _ in findings):
                not_judged.append(f"{name}, before the errors above are fixed")
                continue
            try:
                for finding in stage(problem, seconds):
                    findings.setdefault((finding.level, finding.method), finding)
            except Exception as error:
                finding = _of_exception(error)
                findings[finding.level, finding.method] = finding
    not_judged += [f.sentence for f in findings.values() if f.level == NOT_JUDGED]
    mistakes = [f for f in findings.values() if f.level != NOT_JUDGED]
    return Checked(
        getattr(problem, "name", type(problem).__name__),
        tuple(sorted(mistakes, key=lambda finding: finding.level)),
        tuple(not_judged),
        time.perf_counter() - began,
    )


def _finding(method: str, text: str, level: str = ERROR) -> Finding:
    return Finding(level, method, f"{method}: {text}")


def _of_exception(error: Exception) -> Finding:
    """The finding for an exception, of the problem's method or attribute that raised it."""
    if isinstance(error, ValueError) and str(error).startswith("truth: "):
        # The quadrature refuses what it cannot resolve, of a right problem as well.
        return _finding("truth", str(error).removeprefix("truth: "), WARNING)
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    method = next((name for name in reversed(names) if hasattr(Problem, name)), "check")
    return _finding(method, raised(error))


def _shapes(problem: Problem, seconds: float) -> Iterator[Finding]:
    kinds: dict[str, Any] = {
        **{"x": Variable, "y": Variable | None, "theta": Variable | None},
        **{"name": str, "nonnegative": bool},
    }
    values = {name: getattr(problem, name, "nothing") for name in kinds}
    wrong = {name: value for name, value in values.items() if not isinstance(value, kinds[name])}
    for name, value in wrong.items():
        expected = getattr(kinds[name], "__name__", kinds[name])
        yield _finding(name, f"expected an attribute of type {expected}, got {value!r}")
    for batch, points in () if wrong else (((4,), 16), ((), 1), ((2, 3), 5)):
        for error in misfits(problem, batch, points):
            method, _, text = str(error).partition(": ")
            yield _finding(method, text)


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _draws(problem: Problem, seconds: float) -> Iterator[Finding]:
    """Draws: whether they follow the seed, are finite and within their range; no counts for x."""
    n = CASES * POINTS_OF_CASE
    x = problem.sample_prior(n, _seeded(0))
    samplers = (
        ("sample_prior", problem.x, partial(problem.sample_prior, n)),
        ("sample_likelihood", problem.y, partial(problem.sample_likelihood, x.float())),
        ("sample_theta", problem.theta, partial(problem.sample_theta, n)),
    )
    for seed, (method, variable, sample) in enumerate(samplers):
        if variable is None:
            continue
        draws, again = (sample(_seeded(seed)) for _ in range(2))  # type: ignore[operator]
        if not torch.allclose(draws, again, 0.0, 0.0, equal_nan=True):
            text = "draws differ for the same seed. Draw with the sampler's generator or rng"
            yield _finding(method, text)
        bad = ~draws.isfinite().all(-1)
        if bad.any():
            yield _finding(method, f"{int(bad.sum()):,} of {n:,} draws are NaN or infinite")
        else:
            yield from _ranges(problem, variable, method, draws.double())
    if ((x == x.round()) & (x.abs() < 2**53)).all(0).any():
        text = "takes whole numbers only, but proposals need a density. Sum over x instead"
        yield _finding("x", text)


def _ranges(problem: Problem, variable: Variable, method: str, draws: Tensor) -> Iterator[Finding]:
    """Whether draws (n, D) lie within the range of a variable, and whether networks have one."""
    # Draws in float32 may round to a little beyond the ends.
    slack = 1e-6 * draws.abs().amax(0)
    low, high = draws.new_tensor(variable.ends)
    outside = (draws < low - slack) | (draws > high + slack)
    part = float(outside.any(-1).double().mean())
    text = f"{part:.1%} of the draws of {method} lie outside {written(variable.ends)}"
    if variable is not problem.y and part > 0:
        yield _finding(variable.name, f"{text}, such as {float(draws[outside][0]):.4g}")
    elif part > 0.01:
        yield _finding(variable.name, f"{text}, and cases are moved to its ends", WARNING)
    if variable is not problem.x and not np.isfinite(variable.typical).all():
        ends = torch.quantile(draws.flatten(), draws.new_tensor([0.001, 0.999])).tolist()
        text = "has an infinite range, but networks, maps and controls need a finite one. "
        text += f"Declare typical_range=({ends[0]:.3g}, {ends[1]:.3g})"
        yield _finding(variable.name, text, WARNING)


def _cases(problem: Problem, n: int) -> tuple[Tensor, Tensor | None]:
    """Cases y (n, D_y) and theta (n, D_theta)."""
    y, theta = problem.sample_cases(n, _seeded(1))
    return y.double(), None if theta is None else theta.double()


def _sides(problem: Problem) -> list[Problem]:
    """The problem; and the one with -f, if f takes both signs."""
    return [problem] if problem.nonnegative else [problem, problem.with_negated_f()]


def _values(problem: Problem, seconds: float) -> Iterator[Finding]:
    """The densities, f and the supports at draws of the prior."""
    y, theta = _cases(problem, CASES)
    x = problem.sample_prior(CASES * POINTS_OF_CASE, _seeded(0)).double()
    x = x.view(CASES, POINTS_OF_CASE, -1)
    if bad := bad_value(problem, x, y, theta):
        yield _finding(*bad)
        return
    for method, arguments in functions_at(x, y, theta).items():
        # The second case: the first one may serve all.
        batch = getattr(problem, method)(*arguments)[1]
        alone = getattr(problem, method)(*(of if of is None else of[1] for of in arguments))
        size = float(batch.nan_to_num(0, 0, 0).abs().max()) if method == "f" else 1.0
        if not torch.allclose(alone, batch, 1e-6, 1e-9 * size, equal_nan=True):
            yield _finding(method, "differs between a batch of cases and the cases one by one")
    for side in _sides(problem):
        points, log_q = side.sample_defensive(y, theta, POINTS_OF_CASE, _seeded(10))
        same = torch.allclose(log_q, side.log_defensive(points, y, theta), 1e-6, 1e-6)
        if not (same and points.isfinite().all()):
            text = "its log densities differ from log_defensive, or are not finite"
            yield _finding("sample_defensive", text)
    supports = {
        "log_prior": problem.log_prior(x) > -torch.inf,
        "support": within(problem.support, x),
    }
    for name, inside in supports.items():
        lost = float((~inside).double().mean())
        if lost > 1e-3:
            yield _finding(name, f"{lost:.1%} of the draws of sample_prior lie outside it")
    wide = None if theta is None else theta[:, None]
    for side in _sides(problem):
        outside = (side.f(x, wide) > 0) & ~within(side.support_plus(wide), x)
        if outside.any():
            at = place(x[outside][0])
            yield _finding("support_plus", f"f > 0 at x = {at}, outside of support_plus")


def _samplers(problem: Problem, seconds: float) -> Iterator[Finding]:
    """Compares samplers with their densities, up to the first error."""
    n = _affordable(problem, seconds)
    if problem.y is not None and _odds_differ(problem, problem.y, n):
        text = f"its draws do not follow log_likelihood as x changes; {MEND}"
        yield _finding("sample_likelihood", text)
        return
    for names, x, log_density in _sampled(problem, n):
        wrong = contradiction(x, log_density, names)
        if wrong and wrong[0] == "log_likelihood":
            yield _finding(wrong[0], f"{wrong[1]}; mu is right, but E2 is not", WARNING)
        elif wrong:
            yield _finding(*wrong)
            return


def _sampled(problem: Problem, n: int) -> Iterator[tuple[tuple[str, str], Tensor, Density]]:
    """The names of a sampler and its density, draws (n, D), and the logarithm of the density."""
    generator = _seeded(2)
    x = problem.sample_prior(n, generator).double()
    yield ("sample_prior", "log_prior"), x, problem.log_prior
    if problem.y is not None and not np.any(problem.y.whole):
        # The prior is right: what is wrong with the pairs is the likelihood.
        y = problem.sample_likelihood(x, generator).double()

        def log_joint(pairs: Tensor) -> Tensor:
            x, y = pairs.tensor_split([problem.x.dim], -1)
            return problem.log_prior(x) + problem.log_likelihood(x, y)

        yield ("sample_likelihood", "log_likelihood"), torch.cat([x, y], -1), log_joint
    names = "sample_defensive", "log_defensive"
    y, theta = _cases(problem, CASES_OF_TEST)
    for side in _sides(problem):
        if side.has_defensive:
            x = side.sample_defensive(y, theta, n, _seeded(10))[0]
            for i in range(CASES_OF_TEST):
                case = y[i], None if theta is None else theta[i]
                yield names, x[i], _log_defensive(side, *case)


def _log_defensive(problem: Problem, y: Tensor, theta: Tensor | None) -> Density:
    return lambda x: problem.log_defensive(x, y, theta)


def _odds_differ(problem: Problem, variable: Variable, n: int) -> bool:
    """Whether draws of y at n places x contradict the odds of their densities p and q.

    The two of a pair are x and another place, which is far, near or nearer. As with a sampler,
    E_p[h q / (p + q)] = E_q[h p / (p + q)] for any h.
    """
    generator = _seeded(3)
    x, far = problem.sample_prior(n, generator).double().chunk(2)
    for step in (1.0, 0.1, 0.01):
        other = x + step * (far - x)
        other = other.where((problem.log_prior(other) > -torch.inf)[:, None], x)
        y = problem.sample_likelihood(torch.cat([x, other]), generator).double()
        at_x, at_other = torch.cat([x, x]), torch.cat([other, other])
        log_odds = problem.log_likelihood(at_other, y) - problem.log_likelihood(at_x, y)
        log_odds = log_odds.nan_to_num(0.0, torch.inf, -torch.inf)[:, None]
        h = torch.cat([log_odds, log_odds.abs(), at_other - at_x], -1).tanh()
        if not np.any(variable.whole):
            # Draws that were moved to the ends of their range have no density.
            low, high = y.new_tensor(variable.ends)
            h *= ((y > low) & (y < high)).all(-1, keepdim=True)
        left, right = (h * log_odds.sigmoid())[: len(x)], (h * (-log_odds).sigmoid())[len(x) :]
        if (_z(left - right).abs() > APART).any():
            return True
    return False


def _integrals(problem: Problem, seconds: float) -> Iterator[Finding]:
    """Compares the evidence and the truth with importance sampling."""
    y, theta = _cases(problem, CASES_OF_TEST)
    terms = [term for term in TERMS if term != "E1_minus" or not problem.nonnegative]
    density = DefensiveDensity(problem, y, theta, terms)
    x, log_q = density.draw(_affordable(problem, seconds), _seeded(30))
    if bad := bad_value(problem, x, y, theta):
        yield _finding(*bad)
        return
    log_joint = problem.log_joint(x, y)
    f = problem.f(x, None if theta is None else theta[:, None])
    f = f.where(log_joint > -torch.inf, 0.0)
    log_w = log_joint - log_q
    w, w_f = log_w.softmax(-1), (f.abs().log() + log_w).softmax(-1)
    if not (f > 0).any():
        yield _finding("f", "it is zero at all draws of prior and defensive density", NOT_JUDGED)
    w_plus = (f.clamp(min=0).log() + log_w).softmax(-1)
    missed = (w_plus * (problem.log_defensive(x, y, theta) == -torch.inf)).sum(-1)
    if (_determines(w_plus) & (missed > 0.01)).any():
        yield _finding("log_defensive", f"is zero where {missed.max():.1%} of f p(x, y) lies")
    log_evidence = problem.log_evidence(y, theta)
    if log_evidence is not None:
        # In units of the largest weight, which may be tiny.
        unit = log_w.amax(-1, keepdim=True)
        E2, equal = np.exp(log_evidence - unit[:, 0].numpy()), torch.full_like(w, 1 / w.shape[-1])
        yield from _mean("log_evidence", E2, (log_w - unit).exp(), equal, _determines(w))
    if problem.knows_truth:
        judged = _determines(w) & _determines(w_f)
        yield from _mean("_log_truth", problem.truth(y, theta), f, w, judged)


def _determines(w: Tensor) -> Tensor:
    """Whether normalized weights (C, n) determine a mean, (C,)."""
    return (1 / w.square().sum(-1) > EFFECTIVE) & (w.amax(-1) < LARGEST_WEIGHT)


def _mean(
    method: str, answer: Array, values: Tensor, w: Tensor, judged: Tensor
) -> Iterator[Finding]:
    """Compares an answer (C,) with the mean of values by normalized weights, (C, n) each."""
    mean = (w * values).nansum(-1, keepdim=True)
    summands = (w * (values - mean)).nan_to_num(0.0)
    error, mean = summands.square().sum(-1).sqrt(), mean[:, 0]
    # Only a finite variance gives a standard error.
    judged = judged & ~torch.from_numpy(pareto_k(summands.abs().numpy()) >= 0.5)
    wrong = judged & ~((torch.as_tensor(answer) - mean).abs() <= 6 * error + 1e-4 * mean.abs())
    if wrong.any():
        i = int(wrong.int().argmax())
        text = (
            f"returns {answer[i]:.5g} in one of {len(mean)} cases, but {values.shape[-1]:,} draws "
            f"estimate {mean[i]:.5g} ± {error[i]:.2g}"
        )
        yield _finding(method, text)
    elif not judged.any():
        yield _finding(method, "the draws' weights vary too much", NOT_JUDGED)


STAGES: dict[str, Callable[[Problem, float], Iterator[Finding]]] = {
    "shapes": _shapes,
    "draws": _draws,
    "values at draws": _values,
    "whether samplers follow their densities": _samplers,
    "log_evidence and the truth": _integrals,
}


def _affordable(problem: Problem, seconds: float) -> int:
    """How many draws of x a test takes in each of its cases."""
    y, theta = _cases(problem, 1)

    def evaluate(n: int) -> object:
        x = problem.sample_prior(n, _seeded(2)).double()
        return problem.log_joint(x, y[0]), problem.f(x, theta)

    dim = problem.x.dim + (problem.y.dim if problem.y else 0)
    return affordable(dim, evaluate, TIME_OF_TEST * seconds)


def affordable(dim: int, call: Callable[[int], object], seconds: float) -> int:
    """How many draws (n, D) a test may have, a power of two: by their time, and for memory."""
    # Processor time, which does not grow when other processes are busy.
    began = time.process_time()
    call(FEWEST_DRAWS)
    of_one = max((time.process_time() - began) / FEWEST_DRAWS, 1e-9)
    n = min(seconds / of_one, 4e6 / (MOST_COMPONENTS * dim), MOST_DRAWS)
    # In many dimensions few draws cannot tell a scale from a constant.
    return int(2 ** math.floor(math.log2(max(n, FEWEST_DRAWS, 180 * dim))))


def contradiction(
    x: Tensor, log_density: Density, names: tuple[str, str] = ("sample", "log_prob")
) -> tuple[str, str] | None:
    """Which of a sampler and its density is wrong, as independent draws show; else None.

    Arguments:
        x: Draws (n, D). The first ones fit g, see above.
        log_density: Their log density at points (m, D), in nats.
        names: What the sampler and the density are called.

    Returns:
        One of the names, and a sentence without it.

    Example:
        >>> x = torch.randn(100_000, 1, generator=torch.Generator().manual_seed(0))
        >>> def log_density(x):
        ...     return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)
        >>> contradiction(x, log_density)
        >>> contradiction(1.03 * x, log_density)[0]
        'sample'
        >>> contradiction(x, lambda x: log_density(x) + 0.1)[0]
        'log_prob'
    """
    x, dim = x.double(), x.shape[1]
    n_first = max(len(x) // 8, min(50 * dim, len(x) // 2))
    # Powers of two, by which division is exact.
    quartiles = torch.quantile(x[: min(n_first, 4096)], x.new_tensor([0.25, 0.75]).double(), dim=0)
    scale = (quartiles[1] - quartiles[0]).clamp(min=1e-300).log2().round().exp2()
    first, others = (x / scale).tensor_split([n_first])
    n = len(others)
    # Each component needs ten draws a coordinate.
    components = max(1, min(MOST_COMPONENTS, n_first // (10 * dim)))
    generator = _seeded(4)
    equal = torch.full_like(first[:, 0], 1 / n_first)
    g = StudentMixture.fit(first, equal, components, generator)
    of_one = -(-n // len(g.centres))
    u = torch.rand(*g.centres.shape, of_one, dtype=x.dtype, generator=generator).mT
    points = torch.cat([others, g.points(u).flatten(0, 1)[:n]])
    log_components = g.log_each(points).T
    log_g = log_components.logsumexp(-1) - math.log(len(g.centres))
    # Beyond all draws a density need not have a value, and if draws were moved to the ends of a
    # range it has none: h is zero outside the box of the first, and on its faces.
    low, high = first.aminmax(dim=0)
    inside = ((points > low) & (points < high)).all(-1)
    log_p = torch.full_like(log_g, -torch.inf)
    log_p[inside] = log_density(points[inside] * scale).double() + scale.log().sum()
    factor = cholesky(first.T.cov().reshape(dim, dim))
    z = torch.linalg.solve_triangular(factor, (points - first.mean(0)).T, upper=False).T
    # A scale that is a little wrong in each of many coordinates shows in their sum.
    radius = (z.square().mean(-1, keepdim=True) - 1) * math.sqrt(dim / 2)
    ones = torch.ones_like(radius)
    scales = ((z.square() - 1) / 2).tanh()
    h = [ones, log_components.softmax(-1), z.tanh(), scales, radius.tanh()]
    h_inside = torch.cat(h, -1) * inside[:, None]
    log_odds = (log_p - log_g).nan_to_num(-torch.inf, torch.inf, -torch.inf)[:, None]
    left, right = h_inside[:n] * (-log_odds[:n]).sigmoid(), h_inside[n:] * log_odds[n:].sigmoid()
    apart = _z(left - right).abs()
    if (apart <= APART).all():
        return None
    sampler, density = names
    of_draws, of_g = float(left[:, 0].mean()), float(right[:, 0].mean())
    integral = of_g / max(of_draws, 1e-300)
    is_constant = (_z(integral * left - right).abs() <= APART).all() and apart.argmax() == 0
    if min(of_draws, of_g) > 1e-3 and is_constant:
        if abs(math.log(integral)) < LEAST_CONSTANT:
            return None
        return density, (
            f"the mean importance weight is {integral:.3g}, expected 1, by {n:,} draws of "
            f"{sampler}; add the missing constant, about {-math.log(integral):.3g} nats"
        )
    return sampler, f"its draws do not follow {density}, as {n:,} of them show; {MEND}"


def _z(difference: Tensor) -> Tensor:
    """Means of independent differences (n, F) with mean zero, in standard errors, (F,).

    Four terms are added to the error: of rare large terms none may be among the draws.
    """
    n = len(difference)
    return difference.mean(0) / (difference.var(0) / n + (4 / n) ** 2).sqrt()


def bad_value(
    problem: Problem, x: Tensor, y: Tensor, theta: Tensor | None
) -> tuple[str, str] | None:
    """The first method whose value is impossible at points x, and a sentence with the place.

    NaN and infinities are, and an f below zero that is declared nonnegative.

    Arguments:
        problem: The problem.
        x: Points (C, n, D).
        y: (C, D_y).
        theta: (C, D_theta), or None.
    """
    positive = torch.ones(x.shape[:-1], dtype=torch.bool)
    for method, arguments in functions_at(x, y, theta).items():
        try:
            value = getattr(problem, method)(*arguments)
        except Exception as error:
            return method, raised(error)
        # If p(x, y) is zero the likelihood and f may be no number.
        bad, hint = positive & ~value.isfinite(), ""
        if method != "f":
            bad &= value != -torch.inf
            positive = positive & (value > -torch.inf)
        elif problem.nonnegative and not bad.any():
            bad, hint = positive & (value < 0), f". {BOTH_SIGNS}"
        if bad.any():
            case, i = bad.nonzero()[0].tolist()
            at = places(x=x[case, i], y=y[case], theta=None if theta is None else theta[case])
            count = f"as at {int(bad.sum()):,} of {bad.numel():,} points{hint}"
            return method, f"is {float(value[case, i]):.3g} at {at}, {count}"
    return None


def within(support: Any, x: Tensor) -> Tensor:
    """Whether points x (*, n, D) lie in a constraint, (*, n)."""
    inside: Tensor = support.check(x)
    # Some that name an event axis, such as stacked ones, answer for each coordinate all the same.
    return inside.all(-1) if inside.ndim == x.ndim else inside


def places(**points: Tensor | None) -> str:
    """Points (D,) by their names in a message, those that there are."""
    return ", ".join(f"{k} = {place(v)}" for k, v in points.items() if v is not None and len(v))


def place(point: Tensor) -> str:
    """A point (D,) in a message: its first coordinates."""
    coordinates = ", ".join(f"{number:.4g}" for number in point[:5].tolist())
    return f"({coordinates}{', ...' if len(point) > 5 else ''})"
