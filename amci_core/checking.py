r"""A problem's definition, tried at draws before it costs time.

A sampler is compared with its density p through a second density g, a mixture of Student's t
fitted to other draws of the sampler. For every function h of a point,

    E_p[h g / (p + g)] = E_g[h p / (p + g)],

since both sides are the integral of h p g / (p + g). With h = 1 the quotient of the two sides is
the mean importance weight, the bridge estimate of p's integral, which is one within its error.
With h the share of one component in g it is the same for a part of the space. All terms are
bounded by h, so that a z test of the difference holds for any g. A likelihood is compared by pairs
(x, y) and the joint density.

References:
    Bennett, Efficient estimation of free energy differences from Monte Carlo data, 1976.
    Meng and Wong, Simulating ratios of normalizing constants via a simple identity, 1996.
"""

from __future__ import annotations

__all__ = [
    "Checked",
    "Finding",
    "affordable",
    "bad_value",
    "check",
    "contradiction",
    "place",
    "within",
]

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
from amci_core.models.base import written
from amci_core.models.contract import BOTH_SIGNS, misfits, raised
from amci_core.models.defensive import TERMS, DefensiveDensity
from amci_core.models.student_mixture import StudentMixture, cholesky

# Standard errors apart that contradict: for a right problem with a hundred tests one in 20,000.
APART = 5.0
# A constant that is wrong by fewer nats is a matter of accuracy.
LEAST_CONSTANT = 0.005
# Most components of g.
MOST_COMPONENTS = 8
# Draws of a test: fewer where they take more than this share of the time.
FEWEST_DRAWS, MOST_DRAWS, TIME_SHARE = 2**11, 2**17, 0.06
# Cases in which values are looked at, and points of each.
CASES, POINTS_OF_CASE = 8, 512
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
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(finding for finding in self.findings if finding.level != "error")

    def refuse(self) -> None:
        """Raises a ValueError with all errors, if there are any."""
        if self.errors:
            raise ValueError("; ".join(finding.sentence for finding in self.errors))

    def __str__(self) -> str:
        counts = [(len(self.errors), "error"), (len(self.warnings), "warning")]
        total = " and ".join(f"{n} {level}{'s' * (n > 1)}" for n, level in counts if n)
        lines = [f"{self.problem}: {total or 'no mistake found'}"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  not judged: {sentence}" for sentence in self.not_judged]
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
                # The first error and the first warning of each method.
                for finding in stage(problem, seconds):
                    findings.setdefault((finding.level, finding.method), finding)
            except Exception as error:
                method, text = _source(error), raised(error)
                level = ERROR
                if isinstance(error, ValueError) and str(error).startswith("truth: "):
                    # The quadrature refuses what it cannot resolve, of a right problem as well.
                    level, method, text = WARNING, "truth", str(error).removeprefix("truth: ")
                findings[level, method] = Finding(level, method, f"{method}: {text}")
    not_judged += [f.sentence for f in findings.values() if f.level == NOT_JUDGED]
    kept = (f for f in findings.values() if f.level != NOT_JUDGED)
    return Checked(
        getattr(problem, "name", type(problem).__name__),
        tuple(sorted(kept, key=lambda finding: finding.level)),
        tuple(not_judged),
        time.perf_counter() - began,
    )


def _source(error: Exception) -> str:
    """The method or attribute of a problem that raised."""
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return next((name for name in reversed(names) if hasattr(Problem, name)), "check")


def _finding(method: str, text: str, level: str = ERROR) -> Finding:
    return Finding(level, method, f"{method}: {text}")


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


def _sampled(problem: Problem, x: Tensor | None = None) -> dict[str, Tensor]:
    """Draws (n, D) by the name of their sampler; those of y at x, or at draws of the prior."""
    generators = (torch.Generator().manual_seed(seed) for seed in range(3))
    drawn: dict[str, Any] = {
        "sample_prior": problem.sample_prior(CASES * POINTS_OF_CASE, next(generators))
    }
    x = drawn["sample_prior"].float() if x is None else x
    if problem.y is not None:
        drawn["sample_likelihood"] = problem.sample_likelihood(x, next(generators))
    if problem.theta is not None:
        drawn["sample_theta"] = problem.sample_theta(len(x), next(generators))
    return drawn


def _samples(problem: Problem, seconds: float) -> Iterator[Finding]:
    """Draws: whether they follow the seed, are finite and within their range."""
    drawn = _sampled(problem)
    again = _sampled(problem, drawn["sample_prior"].float())
    variables: dict[str, Any] = {
        "sample_prior": problem.x,
        "sample_likelihood": problem.y,
        "sample_theta": problem.theta,
    }
    for method, draws in drawn.items():
        if not torch.allclose(draws, again[method], 0.0, 0.0, equal_nan=True):
            text = "draws differ for the same seed. Pass generator to the samplers of torch"
            yield _finding(method, text)
        yield from _mistakes(problem, variables[method], method, draws.double())
    x = drawn["sample_prior"].double()
    if ((x == x.round()) & (x.abs() < 2**53)).all(0).any():
        text = "takes whole numbers only, but proposals need a density. Sum over x instead"
        yield _finding("x", text)


def _values(problem: Problem, seconds: float) -> Iterator[Finding]:
    """The densities and f at draws of the prior, in eight cases."""
    drawn = {method: draws.double() for method, draws in _sampled(problem).items()}
    x = drawn["sample_prior"].view(CASES, POINTS_OF_CASE, -1)
    y, theta = x[:, 0, :0], drawn.get("sample_theta")
    if problem.y is not None:
        y = problem.y.nearest(drawn["sample_likelihood"][::POINTS_OF_CASE])
    theta = None if theta is None else theta[:CASES]
    if bad := bad_value(problem, x, y, theta):
        yield _finding(*bad)
        return
    theta = None if theta is None else theta[:, None]
    f = problem.f(x, theta)
    yield from _sign(problem, f)
    calls = {"log_prior": (x,), "log_likelihood": (x, y[:, None]), "f": (x, theta)}
    for method, arguments in calls.items():
        # The second case: the first one may serve all.
        batch = getattr(problem, method)(*arguments)[1]
        alone = getattr(problem, method)(*(of if of is None else of[1] for of in arguments))
        size = float(batch.nan_to_num(0, 0, 0).abs().max()) if method == "f" else 1.0
        if not torch.allclose(alone, batch, 1e-6, 1e-9 * size, equal_nan=True):
            yield _finding(method, "differs between a batch of cases and the cases one by one")
    for name, inside in (
        ("log_prior", problem.log_prior(x) > -torch.inf),
        ("support", within(problem.support, x)),
    ):
        lost = float((~inside).double().mean())
        if lost > 1e-3:
            yield _finding(name, f"{lost:.1%} of the draws of sample_prior lie outside it")
    sides = (
        [(problem, f)] if problem.nonnegative else [(problem, f), (problem.with_negated_f(), -f)]
    )
    for side, value in sides:
        beyond = (value > 0) & ~within(side.support_plus(theta), x)
        if beyond.any():
            at = place(x[beyond][0])
            yield _finding("support_plus", f"f > 0 at x = {at}, outside of support_plus")


def _mistakes(
    problem: Problem, variable: Variable, method: str, draws: Tensor
) -> Iterator[Finding]:
    """Of draws (n, D): not finite, outside the range; of a variable without a finite range."""
    bad = ~draws.isfinite().all(-1)
    if bad.any():
        text = f"{int(bad.sum()):,} of {len(draws):,} draws are NaN or infinite"
        yield _finding(method, text)
        return
    # Draws in float32 may round to a little beyond the ends.
    slack = 1e-6 * draws.abs().amax(0)
    low, high = draws.new_tensor(variable.ends)
    beyond = (draws < low - slack) | (draws > high + slack)
    part = float(beyond.any(-1).double().mean())
    text = f"{part:.1%} of the draws of {method} lie outside {written(variable.ends)}"
    if variable is not problem.y and part > 0:
        yield _finding(variable.name, f"{text}, such as {float(draws[beyond][0]):.4g}")
    elif part > 0.01:
        yield _finding(variable.name, f"{text}, and cases are moved to its ends", WARNING)
    if variable is not problem.x and not np.isfinite(variable.typical).all():
        ends = torch.quantile(draws.flatten(), draws.new_tensor([0.001, 0.999])).tolist()
        text = "has an infinite range, but networks, maps and controls need a finite one. "
        text += f"Declare typical_range=({ends[0]:.3g}, {ends[1]:.3g})"
        yield _finding(variable.name, text, WARNING)


def _sign(problem: Problem, f: Tensor) -> Iterator[Finding]:
    if problem.nonnegative and (f < 0).any():
        yield _finding("f", f"is negative, {float(f.min()):.3g}. {BOTH_SIGNS}")


def _cases(problem: Problem) -> tuple[Tensor, Tensor | None]:
    """Three cases: y (3, D_y) and theta (3, D_theta)."""
    y, theta = problem.sample_cases(3, torch.Generator().manual_seed(1))
    return y.double(), None if theta is None else theta.double()


def _draws(problem: Problem, seconds: float) -> int:
    """How many draws a test takes."""
    y, theta = _cases(problem)

    def evaluate(n: int) -> object:
        x = problem.sample_prior(n, torch.Generator().manual_seed(2)).double()
        return problem.log_joint(x, y[0]), problem.f(x, theta if theta is None else theta[:1])

    dim = 3 * max(problem.x.dim, problem.y.dim if problem.y else 0)
    return affordable(dim, evaluate, TIME_SHARE * seconds)


def _samplers(problem: Problem, seconds: float) -> Iterator[Finding]:
    """Compares samplers with their densities."""
    n, generator = _draws(problem, seconds), torch.Generator().manual_seed(2)
    x = problem.sample_prior(n, generator).double()
    wrong = contradiction(x, problem.log_prior, ("sample_prior", "log_prior"))
    if wrong:
        yield _finding(*wrong)
    elif problem.y is not None and np.any(problem.y.whole):
        if _odds_differ(problem, x, generator):
            text = f"its draws do not follow log_likelihood as x changes; {MEND}"
            yield _finding("sample_likelihood", text)
    elif problem.y is not None:
        # Pairs (x, y): the prior is right, so that what is wrong is of the likelihood.
        y = problem.sample_likelihood(x, generator).double()

        def log_density(pairs: Tensor) -> Tensor:
            x, y = pairs.tensor_split([problem.x.dim], -1)
            return problem.log_prior(x) + problem.log_likelihood(x, y)

        names = "sample_likelihood", "log_likelihood"
        wrong = contradiction(torch.cat([x, y], -1), log_density, names)
        if wrong and wrong[0] == "log_likelihood":
            yield _finding(wrong[0], f"{wrong[1]}; mu is right, but E2 is not", WARNING)
        elif wrong:
            yield _finding(*wrong)
    for side in [problem] if problem.nonnegative else [problem, problem.with_negated_f()]:
        if side.has_defensive:
            yield from _defensive(side, n)


def _odds_differ(problem: Problem, x: Tensor, generator: torch.Generator) -> bool:
    """Whether draws of y at pairs of x contradict the odds of their densities p and q.

    As above, E_p[h q / (p + q)] = E_q[h p / (p + q)] for any h, also where y takes whole numbers.
    """
    x, far = x.chunk(2)
    for step in (1.0, 0.1, 0.01):
        other = x + step * (far - x)
        other = other.where((problem.log_prior(other) > -torch.inf)[:, None], x)
        y = problem.sample_likelihood(torch.cat([x, other]), generator).double()
        at_x, at_other = torch.cat([x, x]), torch.cat([other, other])
        odds = problem.log_likelihood(at_other, y) - problem.log_likelihood(at_x, y)
        odds = odds.nan_to_num(0.0, torch.inf, -torch.inf)[:, None]
        h = torch.cat([odds, odds.abs(), at_other - at_x], -1).tanh()
        of_x, of_other = (h * odds.sigmoid())[: len(x)], (h * (-odds).sigmoid())[len(x) :]
        if (_z(of_x - of_other).abs() > APART).any():
            return True
    return False


def _defensive(side: Problem, n: int) -> Iterator[Finding]:
    """Compares the sampler of the defensive density with that density, in three cases."""
    y, theta = _cases(side)
    x, log_q = side.sample_defensive(y, theta, n, torch.Generator().manual_seed(10))
    same = torch.allclose(log_q, side.log_defensive(x, y, theta), 1e-6, 1e-6)
    if not (same and x.isfinite().all()):
        text = "its log densities differ from log_defensive, or are not finite"
        yield _finding("sample_defensive", text)
        return
    for i in range(len(y)):
        case = y[i], None if theta is None else theta[i]
        density = partial(lambda case, x: side.log_defensive(x, *case), case)
        wrong = contradiction(x[i], density, ("sample_defensive", "log_defensive"))
        if wrong:
            yield _finding(*wrong)


def _integrals(problem: Problem, seconds: float) -> Iterator[Finding]:
    """Compares the evidence and the truth with importance sampling."""
    y, theta = _cases(problem)
    terms = [term for term in TERMS if term != "E1_minus" or not problem.nonnegative]
    density = DefensiveDensity(problem, y, theta, terms)
    x, log_q = density.draw(_draws(problem, seconds), torch.Generator().manual_seed(30))
    if bad := bad_value(problem, x, y, theta):
        yield _finding(*bad)
        return
    log_joint = problem.log_joint(x, y)
    f = problem.f(x, None if theta is None else theta[:, None])
    f = f.where(log_joint > -torch.inf, 0.0)
    yield from _sign(problem, f)
    log_w = log_joint - log_q
    w, w_f = log_w.softmax(-1), (f.abs().log() + log_w).softmax(-1)
    if not (f > 0).any():
        yield _finding("f", "it is zero at all draws of prior and defensive density", NOT_JUDGED)
    else:
        w_plus = (f.clamp(min=0).log() + log_w).softmax(-1)
        missed = (w_plus * (problem.log_defensive(x, y, theta) == -torch.inf)).sum(-1)
        if (_enough(w_plus) & (missed > 0.01)).any():
            text = f"is zero where {float(missed.max()):.1%} of f p(x, y) lies"
            yield _finding("log_defensive", text)
    log_evidence = problem.log_evidence(y, theta)
    if log_evidence is not None:
        # In units of the largest weight, which may be tiny.
        unit = log_w.amax(-1, keepdim=True)
        answer, equal = np.exp(log_evidence - unit[:, 0].numpy()), torch.ones_like(w)
        judged = _enough(w)
        yield from _mean("log_evidence", answer, (log_w - unit).exp(), equal, judged)
    if problem.knows_truth:
        judged = _enough(w) & _enough(w_f)
        yield from _mean("_log_truth", problem.truth(y, theta), f, w, judged)


def _enough(w: Tensor) -> Tensor:
    """Whether normalized weights (C, n) determine a mean, (C,)."""
    return (1 / w.square().sum(-1) > EFFECTIVE) & (w.amax(-1) < LARGEST_WEIGHT)


def _mean(
    method: str, answer: Any, values: Tensor, weights: Tensor, judged: Tensor
) -> Iterator[Finding]:
    """Compares an answer (C,) with the mean of values with weights, (C, n) each."""
    w = weights / weights.sum(-1, keepdim=True)
    mean = (w * values).nansum(-1, keepdim=True)
    summands = (w * (values - mean)).nan_to_num(0.0)
    error, mean = summands.square().sum(-1).sqrt(), mean[:, 0]
    # Only a finite variance gives a standard error.
    judged = judged & ~torch.from_numpy(pareto_k(summands.abs().numpy()) >= 0.5)
    wrong = judged & ~((torch.as_tensor(answer) - mean).abs() <= 6 * error + 1e-4 * mean.abs())
    if wrong.any():
        i = int(wrong.int().argmax())
        estimate = f"{float(mean[i]):.5g} ± {float(error[i]):.2g}"
        yield _finding(
            method,
            f"returns {float(answer[i]):.5g} in one of {len(mean)} cases, but "
            f"{values.shape[-1]:,} draws estimate {estimate}",
        )
    elif not judged.any():
        yield _finding(method, "the draws' weights vary too much", NOT_JUDGED)


STAGES: dict[str, Callable[[Problem, float], Iterator[Finding]]] = {
    "shapes": _shapes,
    "draws": _samples,
    "values at draws": _values,
    "whether samplers follow their densities": _samplers,
    "log_evidence and the truth": _integrals,
}


def affordable(dim: int, call: Callable[[int], object], seconds: float) -> int:
    """How many draws (n, D) a test may have, a power of two: by their time, and for memory."""
    # Processor time, which does not grow where other processes are busy.
    began = time.process_time()
    call(FEWEST_DRAWS)
    of_one = max((time.process_time() - began) / FEWEST_DRAWS, 1e-9)
    n = min(seconds / of_one, 4e6 / (MOST_COMPONENTS * dim), MOST_DRAWS)
    # In many dimensions few draws cannot tell a scale from a constant.
    return int(2 ** math.floor(math.log2(max(n, FEWEST_DRAWS, 60 * dim))))


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
    x = x.double()
    fitted = max(len(x) // 8, min(50 * x.shape[1], len(x) // 2))
    first, others = x[:fitted], x[fitted:]
    n = len(others)
    # Each component needs ten draws a coordinate.
    components = max(1, min(MOST_COMPONENTS, fitted // (10 * x.shape[1])))
    ends = torch.quantile(first[:4096], first.new_tensor([0.25, 0.75]), dim=0)
    scale = (ends[1] - ends[0]).clamp(min=1e-300)
    generator = torch.Generator().manual_seed(4)
    equal = torch.full_like(first[:, 0], 1 / fitted)
    g = StudentMixture.fit(first / scale, equal, components, generator)
    of_one = -(-n // len(g.centres))
    u = torch.rand(*g.centres.shape, of_one, dtype=x.dtype, generator=generator).mT
    points = torch.cat([others, g.points(u).flatten(0, 1)[:n] * scale])
    log_each = (g.log_each(points / scale) - scale.log().sum()).T
    log_g = log_each.logsumexp(-1) - math.log(len(g.centres))
    # Beyond all draws a density need not have a value, and where draws were moved to the ends of a
    # range it has none: h is zero outside the box of the first, and on its faces.
    low, high = first.aminmax(dim=0)
    inside = ((points > low) & (points < high)).all(-1)
    log_p = torch.full_like(log_g, -torch.inf)
    log_p[inside] = log_density(points[inside]).double()
    centred = (points - first.mean(0)) / scale
    # A scale that is a little wrong in each of many coordinates shows in their sum.
    of_sum = (centred / (first / scale).std(0)).square().mean(-1, keepdim=True) - 1
    far = of_sum * math.sqrt(x.shape[1] / 2)
    covariance = (first / scale).T.cov().reshape(x.shape[1], x.shape[1])
    z = torch.linalg.solve_triangular(cholesky(covariance), centred.T, upper=False).T
    z = z.tanh()
    factors = torch.ones_like(far), log_each.softmax(-1), z, z.square(), far.tanh()
    h = torch.cat(factors, -1) * inside[:, None]
    odds = (log_p - log_g).nan_to_num(-torch.inf, torch.inf, -torch.inf)[:, None]
    left, right = h[:n] * (-odds[:n]).sigmoid(), h[n:] * odds[n:].sigmoid()
    apart = _z(left - right).abs()
    if (apart <= APART).all():
        return None
    sampler, density = names
    of_draws, of_g = float(left[:, 0].mean()), float(right[:, 0].mean())
    integral = of_g / max(of_draws, 1e-300)
    constant = (_z(integral * left - right).abs() <= APART).all() and apart.argmax() == 0
    if min(of_draws, of_g) > 1e-3 and constant:
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
    """The first method that is NaN or infinite at points x, and a sentence with the place.

    Arguments:
        problem: The problem.
        x: Points (C, n, D).
        y: (C, D_y).
        theta: (C, D_theta), or None.
    """
    wide = None if theta is None else theta[:, None]
    calls = {"log_prior": (x,), "log_likelihood": (x, y[:, None]), "f": (x, wide)}
    there = torch.ones(x.shape[:-1], dtype=torch.bool)
    for method, arguments in calls.items():
        try:
            value = getattr(problem, method)(*arguments)
        except Exception as error:
            return method, raised(error)
        # Where p(x, y) is zero the likelihood and f may be no number.
        bad = there & ~value.isfinite()
        if method != "f":
            bad &= value != -torch.inf
            there = there & (value > -torch.inf)
        if bad.any():
            case, i = bad.nonzero()[0].tolist()
            at = {"x": x[case, i], "y": y[case], "theta": None if theta is None else theta[case]}
            where = ", ".join(
                f"{name} = {place(point)}"
                for name, point in at.items()
                if point is not None and len(point)
            )
            count = f"as at {int(bad.sum()):,} of {bad.numel():,} points"
            return method, f"is {float(value[case, i]):g} at {where}, {count}"
    return None


def within(support: Any, x: Tensor) -> Tensor:
    """Whether points x (*, n, D) lie in a constraint, (*, n)."""
    inside: Tensor = support.check(x)
    # Some that name an event axis, such as stacked ones, answer for each coordinate all the same.
    return inside.all(-1) if inside.ndim == x.ndim else inside


def place(point: Tensor) -> str:
    """A point (D,) in a message: its first coordinates."""
    coordinates = ", ".join(f"{number:.4g}" for number in point[:5].tolist())
    return f"({coordinates}{', ...' if len(point) > 5 else ''})"
