r"""How often verdicts are right: `python benchmarks/verdict.py`, an hour; with `--quick` minutes.

Five sections, each a table of cells. A cell is one target with one set of proposals, one reference
and one number of draws, estimated many times through the public interface:

- grid: `TARGETS` x pairs of spoilt proposals (`SPOILT`) x references x numbers of draws;
- tables: rows of numbers given to `estimate_from_draws`, some of which break its assumptions;
- constants: a density that integrates to another number than one;
- shipped: the problems of the package with their proposals, at random cases;
- precise: the grid with `estimate_to` to a relative error of 5 %, a run or a few of each cell: how
  often it is reliable, and how often that is right.

A run is *off* if its error exceeds three of its standard errors. Asked of the runs called
reliable: at most 2 % off, and 95 % intervals that cover 93 to 97 %. A cell fails where a binomial
test of its 30 or more reliable runs rejects that at 99.9 %. Where no component has a draw in a
part of the target no estimate can know of it: such cells are *apart*.
"""

from __future__ import annotations

__all__ = ["TARGETS", "Cell", "Mixture", "Part", "Runs", "Target", "grid", "main", "measure"]

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import binom, norm, t
from torch import Tensor
from torch.distributions import Normal, StudentT

import amci_core as amci
from amci_core.estimators import ESTIMATORS
from amci_core.estimators.draws import COMPONENTS
from amci_core.flows import ConditionalDensity, Proposal, Proposals
from amci_core.models import Problem, Variable

Array = NDArray[np.float64]

JUDGED = ("amci-cv", "amci", "snis-q2", "snis-q1", "snis-qm-stratified")
TOTALS = (64, 256, 1000)
OFF, MOST_OFF, COVERED = 3.0, 0.02, (0.93, 0.97)
LEAST_RUNS, LEVEL = 30, 0.001


class Part(NamedTuple):
    """A component of a mixture, in its first coordinate; the others are as wide and centred at 0.

    Arguments:
        loc, scale: Where it lies; a negative scale mirrors it.
        weight: Its share.
        df: Degrees of freedom of Student's t; infinite for a normal.
        kind: `plain`; `squared`, the density times its own (x - loc)^2; `above`, a normal
            restricted to x beyond `edge`, on the side that the sign of the scale says.
    """

    loc: float = 0.0
    scale: float = 1.0
    weight: float = 1.0
    df: float = math.inf
    kind: str = "plain"
    edge: float = 0.0

    def draw(self, *shape: int) -> Tensor:
        """Points of the first coordinate."""
        base = Normal(0.0, 1.0) if math.isinf(self.df) else StudentT(self.df)
        z = base.sample(shape).double()
        if self.kind == "above":
            tail = torch.special.ndtr(torch.tensor(-self._start, dtype=torch.float64))
            z = -torch.special.ndtri(tail * (1 - torch.rand(shape, dtype=torch.float64)))
        if self.kind == "squared":
            size = 2 * torch.distributions.Gamma(1.5, 1.0).sample(shape).double()
            if math.isfinite(self.df):
                below = torch.distributions.Gamma(self.df / 2 - 1, 1.0).sample(shape).double()
                size = size * self.df / 2 / below
            z = z.sign() * size.sqrt()
        return self.loc + self.scale * z

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density of the first coordinate, weight left out."""
        z = (x - self.loc) / self.scale
        base = Normal(0.0, 1.0) if math.isinf(self.df) else StudentT(self.df)
        log_p = base.log_prob(z) - math.log(abs(self.scale))
        if self.kind == "squared":
            log_p = log_p + 2 * z.abs().log() - math.log(float(base.variance))
        if self.kind == "above":
            log_p = (log_p - norm.logsf(self._start)).masked_fill(z <= self._start, -math.inf)
        return log_p

    @property
    def _start(self) -> float:
        return (self.edge - self.loc) / self.scale


class Mixture:
    """Parts side by side, as `from_distributions` takes a density of batch shape (*).

    Arguments:
        parts: The parts; weights need not add up to one.
        dim: Number of coordinates D.
        batch: The batch shape.
    """

    def __init__(self, parts: Sequence[Part], dim: int, batch: Sequence[int] = ()) -> None:
        shares = np.array([part.weight for part in parts])
        self.parts, self.dim, self.batch = parts, dim, tuple(batch)
        self.shares = torch.tensor(shares / shares.sum())

    def sample(self, shape: Sequence[int]) -> Tensor:
        """Points (n, *, D)."""
        wanted = (*shape, *self.batch)
        which = torch.bucketize(torch.rand(wanted, dtype=torch.float64), self.shares.cumsum(0))
        x = torch.zeros(*wanted, self.dim, dtype=torch.float64)
        for k, part in enumerate(self.parts):
            here = which.clamp(max=len(self.parts) - 1) == k
            n = int(here.sum())
            rest = Part(0.0, part.scale, df=part.df)
            columns = [part.draw(n)] + [rest.draw(n) for _ in range(self.dim - 1)]
            x[here] = torch.stack(columns, -1)
        return x

    def log_prob(self, x: Tensor) -> Tensor:
        """The log density at points (..., D)."""
        logs = []
        for part, share in zip(self.parts, self.shares, strict=True):
            rest = Part(0.0, abs(part.scale), df=part.df)
            columns = [part.log_prob(x[..., 0])]
            columns += [rest.log_prob(x[..., i]) for i in range(1, self.dim)]
            logs.append(share.log() + torch.stack(columns).sum(0))
        return torch.logsumexp(torch.stack(logs), 0)


Parts = tuple[Part, ...]


@dataclass(frozen=True)
class Target:
    """A posterior, an f and proposals that are nearly the best.

    Arguments:
        name: What tables call it.
        truth: mu, in closed form.
        posterior: Its parts.
        f: Function of the first coordinate.
        q1: Towards f_plus p.
        edges: Places between which the parts lie that a component may miss.
        q1_minus: Towards f_minus p, where f takes both signs.
        dim: Number of coordinates.
    """

    name: str
    truth: float
    posterior: Parts
    f: Callable[[Tensor], Tensor]
    q1: Parts
    edges: tuple[float, ...] = (0.0,)
    q1_minus: Parts | None = None
    dim: int = 1


def _above(edge: float) -> Callable[[Tensor], Tensor]:
    return lambda x: (x > edge).to(x.dtype)


def _exp(x: Tensor) -> Tensor:
    return x.clamp(max=100).exp()  # finite where a reference is very wide


def _folded(mean: float, scale: float) -> float:
    """E|x| of a normal."""
    z = mean / scale
    return mean * (1 - 2 * norm.cdf(-z)) + 2 * scale * norm.pdf(z)


BEYOND = (Part(kind="above", edge=1.5),)
MODES = (Part(-3.0, 0.7, 0.6), Part(3.0, 1.0, 0.4))
TARGETS = (
    Target("normal, tail", norm.sf(1.5), (Part(),), _above(1.5), BEYOND, edges=(1.5, 1.8)),
    Target("normal, square", 1.0, (Part(),), torch.square, (Part(kind="squared"),)),
    Target("t7, square", 7 / 5, (Part(df=7.0),), torch.square, (Part(df=7.0, kind="squared"),)),
    Target(
        "two modes, one",
        0.6 * norm.sf(3 / 0.7) + 0.4 * norm.cdf(3),
        MODES,
        _above(0.0),
        (Part(3.0, kind="above"),),
        edges=(0.0, 3.0),
    ),
    Target(
        "two modes, both",
        0.6 * _folded(3, 0.7) + 0.4 * _folded(3, 1),
        MODES,
        torch.abs,
        (Part(-3.15, 0.7, 0.58), Part(3.3, 1.0, 0.42)),
    ),
    # On its logarithmic scale.
    Target("lognormal, mean", math.exp(0.18), (Part(0, 0.6),), _exp, (Part(0.36, 0.6),)),
    Target("3-D, tail", norm.sf(1.5), (Part(),), _above(1.5), BEYOND, edges=(1.5, 1.8), dim=3),
    Target(
        "signed",
        3 * norm.cdf(0.5) - 1,
        (Part(0.5),),
        lambda x: 2.0 * (x > 0) - (x <= 0).to(x.dtype),
        (Part(0.5, kind="above"),),
        edges=(-0.3, 0.0, 0.5),
        q1_minus=(Part(0.5, -1.0, kind="above"),),
    ),
)


def _scaled(factor: float) -> Callable[[Parts], Parts]:
    return lambda parts: tuple(part._replace(scale=factor * part.scale) for part in parts)


def _with_wide(parts: Parts) -> Parts:
    """Narrow, with a small share five times as wide."""
    narrow, wide = _scaled(0.6)(parts), _scaled(3.0)(parts)
    shares = [(part, 0.998) for part in narrow] + [(part, 0.002) for part in wide]
    return tuple(part._replace(weight=share * part.weight) for part, share in shares)


def _shifted(parts: Parts) -> Parts:
    """By one and a half of its scales; a squared density would vanish there, and is replaced."""
    return tuple(
        part._replace(kind="plain", loc=part.loc + part.scale, scale=1.3 * part.scale)
        if part.kind == "squared"
        else part._replace(loc=part.loc + 1.5 * part.scale)
        for part in parts
    )


def _dropped(parts: Parts) -> Parts:
    """Without its last mode, or without one side."""
    if len(parts) > 1:
        return parts[:-1]
    part = parts[0]
    begins = max((part.edge - part.loc) / part.scale + 0.3, 0.0) if part.kind == "above" else 0.0
    scale = part.scale * (1.4 if part.kind == "squared" else 1.05)
    edge = part.loc + begins * part.scale
    return (part._replace(kind="above", edge=edge, scale=scale, df=math.inf),)


SPOILT: Mapping[str, Callable[[Parts], Parts]] = {
    "good": _scaled(1.05),
    "narrow": _scaled(0.6),
    "narrow+wide": _with_wide,
    "shifted": _shifted,
    "light": lambda parts: tuple(
        part._replace(df=math.inf, scale=part.scale * (1.0 if part.df < math.inf else 0.8))
        for part in parts
    ),
    "heavy": lambda parts: tuple(
        part._replace(scale=1.6 * part.scale) if part.kind == "above" else part._replace(df=3.0)
        for part in parts
    ),
    "dropped": _dropped,
}
PAIRS = [
    ("good", "good"),
    *((how, "good") for how in SPOILT if how != "good"),
    *(("good", how) for how in SPOILT if how != "good"),
    *((how, how) for how in SPOILT if how != "good"),
]
REFERENCES: Mapping[str, Callable[[Parts], Parts]] = {
    "seeing": _scaled(2.0),
    "far": _scaled(20.0),
    "blind": _scaled(1e6),
    "elsewhere": lambda parts: (Part(60.0, 2.0),),
    "dropped": lambda parts: _scaled(2.0)(_dropped(parts)),
}


class Grid(Problem):
    """A target whose reference is any density: the prior, which the likelihood takes out again."""

    def __init__(self, target: Target, reference: Parts) -> None:
        self.name, self.target = "grid", target
        self.nonnegative = target.q1_minus is None
        self.x = Variable("x", target.dim, -math.inf, math.inf, "a point")
        self.y = Variable("y", 1, -1.0, 1.0, "nothing: the posterior is the same at every y")
        self._posterior = Mixture(target.posterior, target.dim)
        self._reference = Mixture(reference, target.dim)

    def log_prior(self, x: Tensor) -> Tensor:
        return self._reference.log_prob(x)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        return self._posterior.log_prob(x) - self._reference.log_prob(x) + 0 * y[..., 0]

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return self.target.f(x[..., 0])

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        return self._reference.sample((n,))

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return torch.zeros_like(x[..., :1])


class Runs(NamedTuple):
    """What the runs of a cell by one estimator say, (R,) each.

    Arguments:
        reliable: Whether they are called reliable.
        errors: Errors in standard errors; infinite where the estimate differs and that is zero.
        covered: Whether the 95 % interval holds the truth.
        relative: Errors over the truth.
    """

    reliable: NDArray[np.bool_]
    errors: Array
    covered: NDArray[np.bool_]
    relative: Array

    @staticmethod
    def of(found: Any, mu: float) -> Runs:
        """The runs of an `Estimate` or of a `Precise` with batch (R,)."""
        rounding = 1e-9 * abs(mu)
        error = np.where(np.abs(found.value - mu) <= rounding, 0.0, found.value - mu)
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.where(error == 0, 0.0, error / found.standard_error)
        low, high = found.interval(0.95)
        covered = (low - rounding <= mu) & (mu <= high + rounding)
        runs = (found.verdict.codes == 0, errors, covered, error / mu)
        return Runs(*(np.atleast_1d(each) for each in runs))

    @staticmethod
    def joined(parts: Iterable[Runs]) -> Runs:
        """All runs of several."""
        return Runs(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    @property
    def off(self) -> NDArray[np.bool_]:
        """Whether they are off; an unknown error is."""
        return ~(np.abs(self.errors) <= OFF)

    @property
    def failure(self) -> str:
        """What a binomial test rejects of those called reliable; empty where nothing."""
        n, off = int(self.reliable.sum()), int((self.reliable & self.off).sum())
        covered = int((self.reliable & self.covered).sum())
        if n < LEAST_RUNS:
            return ""
        rejected = [
            (binom.sf(off - 1, n, MOST_OFF), "off"),
            (binom.cdf(covered, n, COVERED[0]), "covers too little"),
            (binom.sf(covered - 1, n, COVERED[1]), "covers too much"),
        ]
        return ", ".join(words for p, words in rejected if p < LEVEL)


class Cell(NamedTuple):
    """The runs of one cell by one estimator.

    Arguments:
        where: What it is: section, target, proposals, reference, draws, estimator.
        runs: Its runs.
        apart: Whether no component has a draw in a part of the target.
    """

    where: tuple[str, ...]
    runs: Runs
    apart: bool = False


def measure(
    target: Target, pair: tuple[str, str], reference: str, estimator: str, total: int, *,
    runs: int = 300, seed: int = 0,
) -> tuple[Runs, bool, Any]:  # fmt: skip
    """One cell of the grid: its runs, whether it is apart, and the estimates themselves."""
    problem, proposals, components = _cell(target, pair, reference)
    found = amci.estimate(
        problem, proposals, np.zeros((runs, 1)), draws=total, estimator=estimator, seed=seed
    )
    used = [COMPONENTS[j] for j in ESTIMATORS[estimator].used(proposals.present)]
    apart = _is_apart(target, components, used, total)
    return Runs.of(found, target.truth), apart, found


def _cell(
    target: Target, pair: tuple[str, str], reference: str
) -> tuple[Problem, Proposals, dict[str, Parts]]:
    """The problem of a cell, its proposals, and the parts of all components by name."""
    parts = {"q1_plus": SPOILT[pair[0]](target.q1), "q2": SPOILT[pair[1]](target.posterior)}
    if target.q1_minus:
        parts["q1_minus"] = SPOILT[pair[0]](target.q1_minus)
    around = REFERENCES[reference](target.posterior)
    problem = Grid(target, around)
    makers: dict[str, Any] = {
        name: lambda y, theta, of=of: Mixture(of, target.dim, y.shape[:-1])
        for name, of in parts.items()
    }
    proposals = Proposals.from_distributions(problem, **makers)
    return problem, proposals, parts | {"defensive": around}


def _is_apart(
    target: Target, components: Mapping[str, Parts], used: Sequence[str], total: int
) -> bool:
    """Whether no component has a draw in a part of the target."""
    # An eighth comes from the reference.
    each = total * 7 // 8 // len(used)
    seen = each * sum(_shares(components[name], target.edges) for name in used)
    seen += total // 8 * _shares(components["defensive"], target.edges)
    matters = _shares(target.posterior, target.edges) > 0
    return bool((seen[matters] < 1).any())


@cache
def _shares(parts: Parts, edges: Sequence[float]) -> Array:
    """The probabilities of the intervals between the edges, from many draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = Mixture(parts, 1).sample((20_000,))[..., 0].numpy()
    return np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) / len(x)


def grid(
    targets: Sequence[Target], totals: Sequence[int], runs: int, judged: Sequence[str]
) -> Iterator[Cell]:
    """Targets x pairs of proposals x references x numbers of draws, by each estimator."""
    for target in targets:
        for reference in REFERENCES:
            if reference == "dropped" and len(target.posterior) == 1:
                continue
            for pair, total, name in product(PAIRS, totals, judged):
                # One proposal for both terms has to be wide.
                if name == "snis-q1" and pair not in (("good", "good"), ("heavy", "heavy")):
                    continue
                found, apart, _ = measure(target, pair, reference, name, total, runs=runs)
                where = (target.name, " / ".join(pair), reference, str(total), name)
                yield Cell(("grid", *where), found, apart)


def precise(targets: Sequence[Target], runs: int) -> Iterator[Cell]:
    """The grid with `estimate_to` to 5 %, with at most 20,000 draws."""
    most = 20_000
    cells = product(PAIRS, targets, REFERENCES)
    for place, (pair, target, reference) in enumerate(cells):
        if reference == "dropped" and len(target.posterior) == 1:
            continue
        problem, proposals, parts = _cell(target, pair, reference)
        used = [name for name in parts if name != "defensive"]
        apart = _is_apart(target, parts, used, most)
        where = ("precise", target.name, " / ".join(pair), reference, f"{most}")
        for seed in range(place * runs, (place + 1) * runs):
            torch.manual_seed(seed)  # the prior draws from the global generator
            reached = amci.estimate_to(
                problem, proposals, 0.0, relative_error=0.05, draws=most, seed=seed
            )
            yield Cell(where, Runs.of(reached, target.truth), apart)


Table = dict[str, Any]


def _single(x: Array, scale: float, f: Array, wide: float = 0.0) -> Table:
    """Draws of 0.998 N(0, scale^2) + 0.002 N(0, wide^2), or of the first alone, for N(0, 1)."""
    log_q = norm.logpdf(x, scale=scale)
    if wide:
        other = norm.logpdf(x, scale=wide)
        log_q = np.logaddexp(math.log(0.998) + log_q, math.log(0.002) + other)
    return {"log_joint": norm.logpdf(x), "log_q": log_q, "f": f}


def _hidden(rng: np.random.Generator, n: int, beside: int = 0) -> Table:
    """A narrow q2 with a tiny wide part; beside, draws of a reference that sees nothing."""
    scales = np.where(rng.random(n) < 0.002, 3.0, 0.6)
    x = np.concatenate([scales * rng.normal(size=n), 1e6 * rng.normal(size=beside)])
    table = _single(x, 0.6, x**2, wide=3.0)
    if beside:
        table["log_q_q2"] = table.pop("log_q")
        table["log_q_defensive"] = norm.logpdf(x, scale=1e6)
        table["component"] = ["q2"] * n + ["defensive"] * beside
    return table


def _light(rng: np.random.Generator, n: int) -> Table:
    """N(0, 1) proposes for t_7."""
    x = rng.normal(size=n)
    return {"log_joint": t.logpdf(x, 7), "log_q": norm.logpdf(x), "f": x**2}


def _resampled(rng: np.random.Generator, n: int) -> Table:
    """Rows drawn again, by their weights, out of 4,000."""
    x = 1.5 * rng.normal(size=4000)
    weights = norm.pdf(x) / norm.pdf(x, scale=1.5)
    x = rng.choice(x, n, p=weights / weights.sum())
    return _single(x, 1.5, x**2)


def _dependent(rng: np.random.Generator, n: int) -> Table:
    """Rows of an AR(1) with rho = 0.9."""
    noise = math.sqrt(1 - 0.81) * rng.normal(size=n)
    x = 1.2 * lfilter([1.0], [1.0, -0.9], noise, zi=0.9 * rng.normal(size=1))[0]
    return _single(x, 1.2, x**2)


def _few_values(rng: np.random.Generator, n: int, scale: float, constant: float = 0.0) -> Table:
    """f is 0, 1 or 2."""
    x = scale * rng.normal(size=n)
    table = _single(x, scale, 1.0 * (x > 0) + 1.0 * (x > 1))
    return table | {"log_joint": table["log_joint"] + constant}


def _constant_f(rng: np.random.Generator, n: int) -> Table:
    """f is one everywhere."""
    return _single(x := 1.2 * rng.normal(size=n), 1.2, np.ones_like(x))


VALUES = norm.sf(0) + norm.sf(1)
# What a table shows, its truth, how it is made, and whether it may be called reliable.
TABLES: tuple[tuple[str, float, Callable[[np.random.Generator], Table], str], ...] = (
    ("narrow with a wide part", 1.0, partial(_hidden, n=2000), ""),
    ("the same, a blind reference beside", 1.0, partial(_hidden, n=2000, beside=250), ""),
    ("the same, 256 draws", 1.0, partial(_hidden, n=256), ""),
    ("normal for t_7", 7 / 5, partial(_light, n=1000), ""),
    ("resampled rows", 1.0, partial(_resampled, n=500), "never"),
    ("dependent rows", 1.0, partial(_dependent, n=1000), "never"),
    ("f of values 0, 1, 2; q = p", VALUES, partial(_few_values, n=256, scale=1.0), "most"),
    ("the same, weights near one", VALUES, partial(_few_values, n=256, scale=1.05), "most"),
    ("the same + 1e8", VALUES, partial(_few_values, n=256, scale=1.05, constant=1e8), "most"),
    ("f = 1", 1.0, partial(_constant_f, n=256), "most"),
)


def tables(runs: int) -> Iterator[Cell]:
    """Every estimate that `estimate_from_draws` makes of each of `TABLES`."""
    for title, mu, make, asked in TABLES:
        found: dict[str, list[Runs]] = defaultdict(list)
        for seed in range(runs):
            said = amci.estimate_from_draws(make(np.random.default_rng(seed)))
            for name, one in said.estimates.items():
                found[name].append(Runs.of(one, mu))
        for name, parts in found.items():
            yield Cell(("tables", title, asked or "if right", "", "", name), Runs.joined(parts))


class Misnormed(Proposal):
    """A proposal whose log density is off by a constant, in nats."""

    def __init__(self, proposal: Proposal, constant: float) -> None:
        self.proposal, self.constant = proposal, constant

    def __call__(self, y: Tensor, theta: Tensor | None) -> ConditionalDensity:
        return _MisnormedDensity(self.proposal(y, theta), self.constant)


class _MisnormedDensity(ConditionalDensity):
    def __init__(self, density: ConditionalDensity, constant: float) -> None:
        super().__init__(density.batch_shape)
        self.density, self.constant = density, constant

    def draw(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        x, log_q = self.density.draw(n, generator)
        return x, log_q + self.constant

    def log_prob(self, x: Tensor) -> Tensor:
        return self.density.log_prob(x) + self.constant


def repeated(
    problem: Problem, proposals: Proposals, y: Any, theta: Any, name: str, draws: int, runs: int
) -> Runs:
    """The runs of a case of a shipped problem."""
    y, theta = (None if v is None else np.tile(np.atleast_1d(v), (runs, 1)) for v in (y, theta))
    each = {COMPONENTS[j]: draws for j in ESTIMATORS[name].used(proposals.present)}
    found = amci.estimate(problem, proposals, y, theta, draws=each, estimator=name)
    return Runs.of(found, problem.truth(y, theta)[0])


def constants(runs: int, judged: Sequence[str]) -> Iterator[Cell]:
    """tail-1d at (1, 1) with one density that integrates to another number than one."""
    problem, right = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    for slot, factor, name, draws in product(
        ("q1_plus", "q2"), (0.17, 0.5, 2.0), judged, (128, 500)
    ):
        wrong: dict[str, Any] = {slot: Misnormed(getattr(right, slot), math.log(factor))}
        found = repeated(problem, replace(right, **wrong), 1.0, 1.0, name, draws, runs)
        yield Cell(("constants", f"{slot} x {factor}", "", "", str(2 * draws), name), found)


SHIPPED = [
    *((name, "spline") for name in ("tail-1d", "tail-5d", "cancer", "gain-loss", "peak")),
    *((name, "paper") for name in ("tail-1d", "tail-5d", "cancer")),
]


def shipped(runs: int, cases: int, judged: Sequence[str]) -> Iterator[Cell]:
    """Random cases of the package's problems, all those of a problem as one cell."""
    for (called, variant), draws in product(SHIPPED, (64, 500)):
        problem = amci.problem(called)
        proposals = amci.load_proposals(called, variant=variant)
        drawn = problem.cases(cases, seed=5)
        at = [[None if v is None else v[i] for v in drawn] for i in range(cases)]
        for name in judged:
            if name == "snis-q1" or (name.startswith("snis") and proposals.q2 is None):
                continue
            parts = [repeated(problem, proposals, y, theta, name, draws, runs) for y, theta in at]
            where = ("shipped", called, variant, "", f"{draws} each", name)
            yield Cell(where, Runs.joined(parts))


HEAD = "reliable | off, all | off, reliable | covered, reliable | error | cells that fail"


def row(cells: Sequence[Cell]) -> str:
    """What some cells say together, as the columns of `HEAD`."""
    runs = Runs.joined(cell.runs for cell in cells)
    said = runs.reliable
    shares = [said.mean(), runs.off.mean()]
    shares += [of[said].mean() if said.any() else math.nan for of in (runs.off, runs.covered)]
    figures = " | ".join("" if math.isnan(share) else f"{share:.1%}" for share in shares)
    failing = sum(bool(cell.runs.failure) for cell in cells)
    return f"{figures} | {np.median(np.abs(runs.relative)):.2g} | {failing} of {len(cells)}"


def show(title: str, groups: Mapping[str, Sequence[Cell]]) -> None:
    """Prints a row for every group of cells."""
    print(f"\n### {title}\n\n| | {HEAD} |\n|---|" + "---:|" * 6)
    for name, cells in groups.items():
        print(f"| {name} | {row(cells)} |", flush=True)


def grouped(cells: Iterable[Cell], *axes: int) -> dict[str, list[Cell]]:
    """Cells by some entries of `where`."""
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[", ".join(cell.where[axis] for axis in axes if cell.where[axis])].append(cell)
    return groups


def report_grid(cells: Sequence[Cell]) -> None:
    """Prints the grid, pooled in several ways, and the cells that fail."""
    told = [cell for cell in cells if not cell.apart]
    show("Grid, by estimator", grouped(told, 5))
    show("Cells apart: no component reaches a part", grouped([c for c in cells if c.apart], 5))
    seeing = [cell for cell in told if cell.where[2:4] == ("good / good", "seeing")]
    show("Good proposals with a seeing reference", grouped(seeing, 5, 4))
    for axis, what in ((1, "target"), (3, "reference"), (4, "draws"), (2, "q1 / q2")):
        show(f"Grid, by {what}", grouped(told, 5, axis))
    failing = [cell for cell in told if cell.runs.failure]
    named = {f"{', '.join(c.where[1:])}: {c.runs.failure}": [c] for c in failing}
    show("Cells that fail", named)


def report_precise(cells: Sequence[Cell]) -> None:
    """Prints how often `estimate_to` is right."""
    told = [cell for cell in cells if not cell.apart]
    show("estimate_to", {"all": cells, "apart": [cell for cell in cells if cell.apart]})
    for axis, what in ((1, "target"), (3, "reference"), (2, "q1 / q2")):
        show(f"estimate_to, by {what}, none apart", grouped(told, axis))


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 runs of a cell, not 300")
    sections = ("tables", "constants", "shipped", "precise", "grid")
    parser.add_argument("--sections", nargs="+", default=sections)
    parser.add_argument("--estimators", nargs="+", default=JUDGED)
    parser.add_argument("--targets", nargs="+", help="parts of names of the grid's targets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = 100 if options.quick else 300
    judged = [name for name in options.estimators if name in ESTIMATORS]
    wanted = options.targets or [""]
    targets = [each for each in TARGETS if any(name in each.name for name in wanted)]
    if "tables" in options.sections:
        show("Tables of draws", grouped(tables(runs), 1, 2, 5))
    if "constants" in options.sections:
        show("Densities that are not normalized", grouped(constants(runs, judged), 1, 4, 5))
    if "shipped" in options.sections:
        cases = 6 if options.quick else 20
        show("Shipped problems", grouped(shipped(runs, cases, judged), 1, 2, 4, 5))
    if "precise" in options.sections:
        report_precise(list(precise(targets, runs // 100)))
    if "grid" in options.sections:
        report_grid(list(grid(targets, TOTALS, runs, judged)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
