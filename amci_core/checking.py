r"""A problem's definition, tried at draws before it costs time.

A sampler is compared with its density p through a second density g, a mixture of Student's t
fitted to other draws of the sampler. For every function h of a point,

    E_p[h g / (p + g)] = E_g[h p / (p + g)],

since both sides are the integral of h p g / (p + g). With h = 1 the quotient of the two sides is
the mean importance weight, the bridge estimate of p's integral, which is one within its error.
With h the share of one component in g it is the same for a part of the space. All terms are
bounded by h, so that a z test of the difference holds for any g.

References:
    Bennett, Efficient estimation of free energy differences from Monte Carlo data, 1976.
    Meng and Wong, Simulating ratios of normalizing constants via a simple identity, 1996.
"""

from __future__ import annotations

__all__ = ["Checked", "Finding", "affordable", "bad_value", "check", "contradiction", "place"]

import inspect
import math
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from amci_core._arguments import check_number
from amci_core.diagnostics.pareto import pareto_k
from amci_core.models import Problem, Variable, check_problem
from amci_core.models.base import BOTH_SIGNS, raised, violations, written
from amci_core.models.defensive import DefensiveDensity
from amci_core.models.student_mixture import StudentMixture

# Standard errors apart that contradict: for a right problem with a hundred tests one in 20,000.
APART = 5.0
# A constant that is wrong by fewer nats is a matter of accuracy.
LEAST = 0.005
# Most components of g; draws of a test, fewer where they take more than this share of the time.
COMPONENTS, FEWEST, MOST, SHARE = 8, 2**11, 2**17, 0.06
# Effective draws, and the largest weight of one, with which a mean is nearly normal.
EFFECTIVE, LARGEST = 400.0, 0.02
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
        return tuple(each for each in self.findings if each.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(each for each in self.findings if each.level != "error")

    def refuse(self) -> None:
        """Raises a ValueError with all errors, if there are any."""
        if self.errors:
            raise ValueError("; ".join(each.sentence for each in self.errors))

    def __str__(self) -> str:
        counts = [(len(self.errors), "error"), (len(self.warnings), "warning")]
        said = " and ".join(f"{n} {name}{'s' * (n > 1)}" for n, name in counts if n)
        lines = [f"{self.problem}: {said or 'no mistake found'}"]
        lines += [f"  {each}" for each in self.findings]
        lines += [f"  not judged: {each}" for each in self.not_judged]
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
    notes = _Notes(problem, seconds)
    stages = {
        "shapes": _check_shapes,
        "values at draws": _check_values,
        "whether samplers follow their densities": _check_samplers,
        "log_evidence and the truth": _check_integrals,
    }
    # What numpy or torch warn of shows in what methods return.
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, stage in stages.items():
            if notes.failed:
                notes.not_judged.append(f"{name}, before the errors above are fixed")
                continue
            try:
                stage(problem, notes)
            except Exception as error:
                if isinstance(error, ValueError) and str(error).startswith("truth: "):
                    # The quadrature refuses what it cannot resolve, of a right problem as well.
                    notes.warning("truth", str(error).removeprefix("truth: "))
                else:
                    notes.error(_source(problem, error), raised(error))
    ordered = sorted(notes.findings, key=lambda each: each.level)
    name = getattr(problem, "name", type(problem).__name__)
    spent = time.perf_counter() - began
    return Checked(name, tuple(ordered), tuple(notes.not_judged), spent)


class _Notes:
    """What has been found so far: at most one error and one warning a method.

    Attributes:
        draws: Number of draws of a test.
        y, theta: Three cases.
    """

    draws: int
    y: Tensor
    theta: Tensor | None

    def __init__(self, problem: Problem, seconds: float) -> None:
        self.problem, self.seconds = problem, seconds
        self.findings: list[Finding] = []
        self.not_judged: list[str] = []

    @property
    def failed(self) -> bool:
        return any(each.level == "error" for each in self.findings)

    def error(self, method: str, text: str, level: str = "error") -> None:
        if not any((each.method, each.level) == (method, level) for each in self.findings):
            self.findings.append(Finding(level, method, f"{method}: {text}"))

    def warning(self, method: str, text: str) -> None:
        self.error(method, text, "warning")

    def compare(self, sampler: str, density: str, x: Tensor, log_p: Density) -> None:
        found = contradiction(x, log_p, (sampler, density))
        if found is not None:
            self.error(*found)


def _source(problem: Problem, error: Exception) -> str:
    """The method or attribute of a problem that raised: a `def`, a lambda or a property."""
    codes = {}
    for name in dir(Problem):
        hook = inspect.getattr_static(problem, name)
        for attribute in ("__wrapped__", "__func__", "fget", "func"):
            hook = getattr(hook, attribute, hook)
        codes[getattr(hook, "__code__", None)] = name
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = (codes.get(code, code.co_name) for code in reversed(frames))
    return next((name for name in names if hasattr(Problem, name)), "check")


def affordable(dim: int, call: Callable[[int], object], seconds: float) -> int:
    """How many draws (n, D) a test may have, a power of two: by their time, and for memory."""
    # Processor time, which does not grow where other processes are busy.
    began = time.process_time()
    call(FEWEST)
    each = max((time.process_time() - began) / FEWEST, 1e-9)
    n = min(seconds / each, 4e6 / (COMPONENTS * dim), MOST)
    return int(2 ** math.floor(math.log2(max(n, FEWEST))))


def _check_shapes(problem: Problem, notes: _Notes) -> None:
    kinds: dict[str, Any] = {"x": Variable, "y": Variable | None, "theta": Variable | None}
    for name, kind in (kinds | {"name": str, "nonnegative": bool}).items():
        value = getattr(problem, name, ...)
        wanted = getattr(kind, "__name__", kind)
        if value is ...:
            notes.error(name, f"is missing. Define an attribute of type {wanted}")
        elif not isinstance(value, kind):
            notes.error(name, f"expected an attribute of type {wanted}, got {value!r}")
    if notes.failed:
        return
    for batch, points in (((4,), 16), ((), 1), ((2, 3), 5)):
        for found in violations(problem, batch, points):
            notes.error(found.method, found.text)


def _check_values(problem: Problem, notes: _Notes) -> None:
    cases, points = 8, 512
    n = cases * points

    def drawn(variable: Variable, method: str, argument: Any) -> Tensor:
        """Draws (n, D) of a sampler."""
        sampler = getattr(problem, method)
        one: Tensor
        one, other = (sampler(argument, torch.Generator().manual_seed(1)) for _ in range(2))
        if not torch.allclose(one, other, 0.0, 0.0, equal_nan=True):
            text = "draws differ for the same seed. Pass generator to the samplers of torch"
            notes.error(method, text)
        bad = ~one.isfinite().all(-1)
        if bad.any():
            at = "" if argument is n else f", the first at x = {place(argument[bad][0])}"
            notes.error(method, f"{int(bad.sum()):,} of {n:,} draws are NaN or infinite{at}")
        else:
            _check_range(variable, one.double(), method, notes)
        return one.double()

    raw = drawn(problem.x, "sample_prior", n)
    if ((raw == raw.round()) & (raw.abs() < 2**53)).all(0).any():
        notes.error(
            "x", "takes whole numbers only, but proposals need a density. Sum over x instead"
        )
    x, y = raw.view(cases, points, -1), raw[:cases, :0]
    if problem.y is not None:
        y = problem.y.nearest(drawn(problem.y, "sample_likelihood", raw.float())[::points])
    theta = None
    if problem.theta is not None:
        theta = drawn(problem.theta, "sample_theta", n)[:cases]
    if notes.failed:
        return
    bad = bad_value(problem, x, y, theta)
    if bad is not None:
        notes.error(*bad)
        return
    wide = None if theta is None else theta[:, None]
    calls = {"log_prior": (x,), "log_likelihood": (x, y[:, None]), "f": (x, wide)}
    values = {name: getattr(problem, name)(*arguments) for name, arguments in calls.items()}
    for method, arguments in calls.items():
        for i in range(2):
            single = (each if each is None else each[i] for each in arguments)
            alone, whole = getattr(problem, method)(*single), values[method][i]
            size = float(whole.nan_to_num(0, 0, 0).abs().max()) if method == "f" else 1.0
            if not torch.allclose(alone, whole, 1e-6, 1e-9 * size, equal_nan=True):
                notes.error(method, "differs between a batch of cases and the cases one by one")
    f = values["f"]
    _check_sign(problem, f, notes)
    for method, inside in (
        ("log_prior", values["log_prior"] > -torch.inf),
        ("support", _within(problem.support, x)),
    ):
        lost = float((~inside).double().mean())
        if lost > 1e-3:
            notes.error(method, f"{lost:.1%} of the draws of sample_prior lie outside it")
    sides = [(problem, f, "support_plus")]
    if not problem.nonnegative:
        negated = problem.with_negated_f()
        sides.append((negated, -f, "with_negated_f"))
        same = torch.allclose(negated.f(x, wide), -f, 1e-9, 0.0, equal_nan=True)
        if negated.nonnegative or not same:
            notes.error("with_negated_f", "its f is not -f, or it declares nonnegative = True")
    for side, value, method in sides:
        lost_points = (value > 0) & ~_within(side.support_plus(wide), x)
        if lost_points.any():
            at = place(x[lost_points][0])
            notes.error(method, f"f > 0 at x = {at}, outside of support_plus; widen that set")


def _check_range(variable: Variable, draws: Tensor, method: str, notes: _Notes) -> None:
    # Draws in float32 may round to a little beyond the ends.
    slack = 1e-6 * draws.abs().amax(0)
    low, high = draws.new_tensor(variable.ends)
    beyond = (draws < low - slack) | (draws > high + slack)
    share = float(beyond.any(-1).double().mean())
    text = f"{share:.1%} of the draws of {method} lie outside {written(variable.ends)}"
    if variable is not notes.problem.y and share > 0:
        notes.error(variable.name, f"{text}, such as {float(draws[beyond][0]):.4g}")
    elif share > 0.01:
        notes.warning(variable.name, f"{text}, and cases are moved to its ends")
    if variable is notes.problem.x:
        return
    low, high = draws.new_tensor(variable.typical)
    if not (high - low).isfinite().all():
        level = draws.new_tensor([0.001, 0.999])
        ends = torch.quantile(draws, level, dim=0)
        widths = ends[1] - ends[0]
        if widths.amax() < 2 * widths.amin():
            ends = torch.quantile(draws.flatten(), level)[:, None]
        lower, upper = (", ".join(f"{v:.3g}" for v in end.tolist()) for end in ends)
        pair = f"{lower}, {upper}" if ends.shape[1] == 1 else f"({lower}), ({upper})"
        notes.warning(
            variable.name,
            "has an infinite range, but networks, maps and controls need a finite one. Declare "
            f"typical_range=({pair})",
        )
    elif (inside := float(((draws >= low) & (draws <= high)).double().mean())) < 0.5:
        notes.warning(
            variable.name,
            f"only {inside:.0%} of the draws of {method} lie within its typical range "
            f"{written(variable.typical)}. Widen typical_range, or correct the unit of either",
        )


def _check_sign(problem: Problem, f: Tensor, notes: _Notes) -> None:
    if problem.nonnegative and (f < 0).any():
        notes.error("f", f"is negative, {float(f.min()):.3g}. {BOTH_SIGNS}")


def _check_samplers(problem: Problem, notes: _Notes) -> None:
    y, theta = problem.sample_cases(3, torch.Generator().manual_seed(1))
    notes.y, notes.theta = y.double(), None if theta is None else theta.double()

    def prior(n: int, seed: int = 2) -> Tensor:
        return problem.sample_prior(n, torch.Generator().manual_seed(seed)).double()

    def values(n: int) -> object:
        x = prior(n)
        return problem.log_joint(x, notes.y[0]), problem.f(
            x, theta if theta is None else theta[:1]
        )

    numbers = 3 * max(problem.x.dim, problem.y.dim if problem.y else 0)
    notes.draws = affordable(numbers, values, SHARE * notes.seconds)
    notes.compare("sample_prior", "log_prior", prior(notes.draws), problem.log_prior)
    u = _uniform(2, notes.draws // 2, problem)
    evenly = problem.prior_from_uniform(u)
    if _has_shape(evenly, u, "prior_from_uniform", notes):
        x = evenly.flatten(0, 1)
        notes.compare("prior_from_uniform", "log_prior", x, problem.log_prior)
    if problem.y is not None:
        _check_likelihood(problem, notes, prior)
    for side in [problem] if problem.nonnegative else [problem, problem.with_negated_f()]:
        if side.has_defensive:
            _check_defensive(side, notes)


def _uniform(cases: int, n: int, problem: Problem) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    u = torch.rand(cases, n, problem.x.dim, dtype=torch.float64, generator=generator)
    return 1 - u


def _has_shape(x: Tensor | None, u: Tensor, method: str, notes: _Notes) -> TypeGuard[Tensor]:
    """Whether there are points for uniform ones, finite and of their shape."""
    if x is None:
        return False
    came = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
    if came != tuple(u.shape):
        shapes = f"{tuple(u.shape)} for uniform points of this shape, got {came}"
        notes.error(method, f"expected shape {shapes}")
        return False
    if not x.isfinite().all():
        notes.error(method, "returns NaN or infinite points for uniform points in (0, 1)")
        return False
    return True


def _check_likelihood(
    problem: Problem, notes: _Notes, prior: Callable[[int, int], Tensor]
) -> None:
    variable, n = problem.y, notes.draws
    assert variable is not None
    generator = torch.Generator().manual_seed(7)
    names = "sample_likelihood", "log_likelihood"
    # Two values of x have two densities of y, compared at the draws of both: counts as well.
    for step in (1.0, 0.1, 0.01):
        x, other = prior(n, 4).chunk(2)
        between = x + step * (other - x)
        other = between.where((problem.log_prior(between) > -torch.inf)[:, None], x)
        y = problem.sample_likelihood(torch.cat([x, other]), generator).double()
        x, other = x.repeat(2, 1), other.repeat(2, 1)
        odds = problem.log_likelihood(other, y) - problem.log_likelihood(x, y)
        odds = odds.nan_to_num(0.0, torch.inf, -torch.inf)[:, None]
        h = torch.cat([odds, odds.abs(), other - x], -1).tanh()
        if not variable.all_whole:
            # Draws that were moved to the ends of the range have no density.
            h = h * _strictly_within(variable, y)[:, None]
        of_x, of_other = (h * odds.sigmoid())[: n // 2], (h * (-odds).sigmoid())[n // 2 :]
        if (_z(of_x - of_other).abs() > APART).any():
            notes.error(names[0], f"its draws do not follow {names[1]} as x changes; {MEND}")
            return
    if np.any(variable.whole):
        return
    # Then the density of y at a few x. A constant is the same for all of them.
    found = []
    for x in prior(3, 5):
        y = problem.sample_likelihood(x.expand(n, -1), generator).double()
        if _strictly_within(variable, y).all():
            found.append(contradiction(y, partial(problem.log_likelihood, x), names))
    wrong = [each for each in found if each is not None and each[0] == names[0]]
    if wrong:
        notes.error(*wrong[0])
    elif found and found[0] is not None and None not in found:
        notes.warning(names[1], f"{found[0][1]}; mu is right, but E2 is not")


def _strictly_within(variable: Variable, values: Tensor) -> Tensor:
    low, high = values.new_tensor(variable.ends)
    inside: Tensor = ((values > low) & (values < high)).all(-1)
    return inside


def _check_defensive(problem: Problem, notes: _Notes) -> None:
    y, theta = notes.y, notes.theta
    generator = torch.Generator().manual_seed(10)
    x, log_q = problem.sample_defensive(y, theta, notes.draws, generator)
    log_density = problem.log_defensive(x, y, theta)
    if not (x.isfinite().all() and torch.allclose(log_q, log_density, 1e-6, 1e-6)):
        text = "its log densities differ from log_defensive, or are not finite"
        notes.error("sample_defensive", text)
        return
    drawn = {"sample_defensive": x}
    u = _uniform(len(y), notes.draws, problem)
    evenly = problem.defensive_from_uniform(y, theta, u)
    if _has_shape(evenly, u, "defensive_from_uniform", notes):
        drawn["defensive_from_uniform"] = evenly
    for i, (sampler, points) in product(range(len(y)), drawn.items()):
        case = y[i], None if theta is None else theta[i]
        density = partial(lambda case, x: problem.log_defensive(x, *case), case)
        notes.compare(sampler, "log_defensive", points[i], density)


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
    first, own = x[:fitted], x[fitted:]
    n = len(own)
    # Each component needs ten draws a coordinate.
    components = max(1, min(COMPONENTS, fitted // (10 * x.shape[1])))
    ends = torch.quantile(first[:4096], first.new_tensor([0.25, 0.75]), dim=0)
    scale = (ends[1] - ends[0]).clamp(min=1e-300)
    generator = torch.Generator().manual_seed(4)
    equal = torch.full_like(first[:, 0], 1 / fitted)
    g = StudentMixture.fit(first / scale, equal, components, generator)
    each = -(-n // len(g.centres))
    u = torch.rand(*g.centres.shape, each, dtype=x.dtype, generator=generator).mT
    points = torch.cat([own, g.points(u).flatten(0, 1)[:n] * scale])
    log_each = (g.log_each(points / scale) - scale.log().sum()).T
    log_g = log_each.logsumexp(-1) - math.log(len(g.centres))
    # Beyond all draws a density need not have a value: h is zero outside the box of the first.
    low, high = first.aminmax(dim=0)
    inside = ((points >= low) & (points <= high)).all(-1)
    log_p = torch.full_like(log_g, -torch.inf)
    log_p[inside] = log_density(points[inside]).double()
    z = (points - first.mean(0)) / first.std(0)
    # A scale that is a little wrong in each of many coordinates shows in their sum.
    far = (z.square().mean(-1, keepdim=True) - 1) * math.sqrt(x.shape[1] / 2)
    z = z.tanh()
    factors = torch.ones_like(far), log_each.softmax(-1), z, z.square(), far.tanh()
    h = torch.cat(factors, -1) * inside[:, None]
    odds = (log_p - log_g).nan_to_num(-torch.inf, torch.inf, -torch.inf)[:, None]
    left, right = h[:n] * (-odds[:n]).sigmoid(), h[n:] * odds[n:].sigmoid()
    apart = _z(left - right).abs()
    if (apart <= APART).all():
        return None
    sampler, density = names
    of_own, of_g = float(left[:, 0].mean()), float(right[:, 0].mean())
    integral = of_g / max(of_own, 1e-300)
    constant = (_z(integral * left - right).abs() <= APART).all() and apart.argmax() == 0
    if min(of_own, of_g) > 1e-3 and constant:
        if abs(math.log(integral)) < LEAST:
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


def _check_integrals(problem: Problem, notes: _Notes) -> None:
    y, theta = notes.y, notes.theta
    terms = ["E1_plus", "E2"] if problem.nonnegative else ["E1_plus", "E1_minus", "E2"]
    density = DefensiveDensity(problem, y, theta, terms)
    x, log_q = density.draw(notes.draws, torch.Generator().manual_seed(30))
    bad = bad_value(problem, x, y, theta)
    if bad is not None:
        notes.error(*bad)
        return
    log_joint = problem.log_joint(x, y)
    f = problem.f(x, None if theta is None else theta[:, None]).where(log_joint > -torch.inf, 0.0)
    _check_sign(problem, f, notes)
    log_w = log_joint - log_q
    if not (f > 0).any():
        notes.not_judged.append("f: it is zero at all draws of prior and defensive density")
    elif not notes.failed:
        w = (f.clamp(min=0).log() + log_w).softmax(-1)
        missed = (w * (problem.log_defensive(x, y, theta) == -torch.inf)).sum(-1)
        if (_enough(w) & (missed > 0.01)).any():
            text = f"is zero where {float(missed.max()):.1%} of f p(x, y) lies"
            notes.error("log_defensive", text)
    known = problem.log_evidence(y, theta)
    uniform = torch.full_like(log_w, 1 / log_w.shape[-1])
    w = log_w.softmax(-1)
    if known is not None:
        # In units of the largest weight, which may be tiny.
        unit = log_w.amax(-1, keepdim=True)
        answer = np.exp(known - unit[:, 0].numpy())
        _check_mean(notes, "log_evidence", answer, (log_w - unit).exp(), uniform, _enough(w))
    judged = _enough(w) & _enough((f.abs().log() + log_w).softmax(-1))
    if problem.knows_truth:
        _check_mean(notes, "_log_truth", problem.truth(y, theta), f, w, judged)
    if problem.knows_bound:
        answer, away = problem.mean_absolute_deviation(y, theta), (f - (w * f).sum(-1, True)).abs()
        _check_mean(notes, "_log_mean_absolute_deviation", answer, away, w, judged)


def _enough(w: Tensor) -> Tensor:
    """Whether normalized weights (C, n) determine a mean, (C,)."""
    return (1 / w.square().sum(-1) > EFFECTIVE) & (w.amax(-1) < LARGEST)


def _check_mean(
    notes: _Notes, method: str, answer: Any, values: Tensor, w: Tensor, judged: Tensor
) -> None:
    """Notes an answer (C,) that the mean of values with weights w, (C, n) each, contradicts."""
    mean = (w * values).nansum(-1, keepdim=True)
    summands = (w * (values - mean)).nan_to_num(0.0)
    error, mean = summands.square().sum(-1).sqrt(), mean[:, 0]
    # Only a finite variance gives a standard error.
    judged = judged & ~torch.from_numpy(pareto_k(summands.abs().numpy()) >= 0.5)
    # Relative accuracy of the comparison: of a value, and of the constant of a bound.
    accuracy = 0.01 if "deviation" in method else 1e-4
    apart = (torch.as_tensor(answer) - mean).abs()
    wrong = judged & ~(apart <= 6 * error + accuracy * mean.abs())
    if wrong.any():
        i = int(wrong.int().argmax())
        notes.error(
            method,
            f"returns {float(answer[i]):.5g} in one of {len(mean)} cases, but "
            f"{values.shape[-1]:,} draws estimate {float(mean[i]):.5g} ± {float(error[i]):.2g}",
        )
    elif not judged.any():
        notes.not_judged.append(f"{method}: the draws' weights vary too much")


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
    values = []
    wide = None if theta is None else theta[:, None]
    calls = {"log_prior": (), "log_likelihood": (y[:, None],), "f": (wide,)}
    for method, arguments in calls.items():
        try:
            values.append(getattr(problem, method)(x, *arguments))
        except Exception as error:
            return method, raised(error)
    log_prior, log_likelihood, f = values
    there = log_prior + log_likelihood > -torch.inf
    bad = {
        "log_prior": (log_prior, log_prior.isnan() | (log_prior == torch.inf)),
        "log_likelihood": (
            log_likelihood,
            (log_likelihood.isnan() | (log_likelihood == torch.inf)) & (log_prior > -torch.inf),
        ),
        # Where p(x, y) is zero f may be no number.
        "f": (f, ~f.isfinite() & there),
    }
    for method, (value, wrong) in bad.items():
        if wrong.any():
            case, i = wrong.nonzero()[0].tolist()
            at = {"x": x[case, i], "y": y[case], "theta": None if theta is None else theta[case]}
            where = ", ".join(
                f"{name} = {place(point)}"
                for name, point in at.items()
                if point is not None and len(point)
            )
            count = f"as at {int(wrong.sum()):,} of {wrong.numel():,} points"
            return method, f"is {float(value[case, i]):g} at {where}, {count}"
    return None


def _within(support: Any, x: Tensor) -> Tensor:
    """Whether points x (*, n, D) lie in a constraint, (*, n)."""
    inside: Tensor = support.check(x)
    # Some that name an event axis, such as stacked ones, answer for each coordinate all the same.
    return inside.all(-1) if inside.ndim == x.ndim else inside


def place(point: Tensor) -> str:
    """A point (D,) in a message: its first coordinates."""
    said = ", ".join(f"{each:.4g}" for each in point[:5].tolist())
    return f"({said}{', ...' if len(point) > 5 else ''})"
