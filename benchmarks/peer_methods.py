r"""The methods of `peers.py`: each turns a case, a budget and a seed into an estimate of mu.

What a budget means is said with each of them; `Case.spent` counts what was evaluated.
"""

from __future__ import annotations

__all__ = ["METHODS", "PROPOSALS", "Method", "powers"]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from peer_cases import CHUNK, Array, Case, Part
from scipy.integrate import cubature
from scipy.stats import qmc

import amci_core as amci
from amci_core.flows import Proposals
from amci_core.models import Problem

# Of vegas's ten rounds, the first half adapts.
ROUNDS = 10
# Points of the prior from which a posterior's mean and covariance are told.
PILOT = 1024
# Of adaptive quadrature.
SUBDIVISIONS = 100


@dataclass(frozen=True)
class Method:
    """A way to mu.

    Arguments:
        title: Its name in tables.
        run: From a case, a budget and a seed to an estimate.
        ladder: Budgets, from few to many.
        told: What it is told beside p(x, y) and f.
        batch: The same for a batch of cases, where it does better than one by one.
        needs: Modules that it imports.
        fits: Whether it applies to a case.
        seeds: At most so many runs at a budget; None for what the command asks.
        cases: At most so many cases.
        precise: Whether its budget is the relative error that is asked for.
        unless: Why it does not apply where it does not.
        train: What is done once for a problem, with a folder for what it keeps: its seconds.
        extra: What else is to be said, from a case.
    """

    title: str
    run: Callable[[Case, float, int], float]
    ladder: Sequence[float]
    told: str
    batch: Callable[[Case, float, int], Array] | None = None
    needs: tuple[str, ...] = ()
    fits: Callable[[Case], bool] = lambda case: True
    precise: bool = False
    unless: str = ""
    seeds: int | None = None
    cases: int | None = None
    train: Callable[[Problem, Path], dict[str, float]] | None = None
    extra: Callable[[Case], dict[str, float]] | None = None

    @property
    def missing(self) -> list[str]:
        """The libraries that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


def powers(low: int, high: int, step: int = 1) -> list[float]:
    """Powers of two."""
    return [2.0**k for k in range(low, high + 1, step)]


# AMCI's proposals for the problem at hand; `peers.py` fills it.
PROPOSALS: dict[str, Proposals] = {}


def amci_estimate(case: Case, draws: float, seed: int, points: str = "independent") -> Array:
    """`estimate` with so many draws, an eighth of them from the defensive density."""
    proposals = PROPOSALS[case.problem.name]
    e = amci.estimate(
        case.problem, proposals, *case.given, draws=int(draws), seed=seed, points=points
    )
    case.spent += math.prod(case.batch) * e.draws
    return e.value


def amci_value(case: Case, draws: float, seed: int, points: str = "independent") -> Array:
    """Plain AMCI with nothing that judges it."""
    proposals = PROPOSALS[case.problem.name]
    e = amci.estimate(
        case.problem, proposals, *case.given, draws=int(draws), seed=seed, points=points,
        estimator="amci", diagnose=False,
    )  # fmt: skip
    case.spent += math.prod(case.batch) * e.draws
    return e.value


def amci_to(case: Case, relative_error: float, seed: int) -> Array:
    """`estimate_to`, whose 95 % interval is as narrow as asked."""
    proposals = PROPOSALS[case.problem.name]
    found = amci.estimate_to(
        case.problem, proposals, *case.given, relative_error=relative_error, seed=seed
    )
    case.spent += int(found.draws.sum())
    return found.value


def _means(case: Case, part: Part, u: Array) -> Array:
    """The means of a part's integrands over points u, (*, number of integrals)."""
    size = max(1, CHUNK // max(1, math.prod(case.batch)))
    total = sum(case.values(part, u[i : i + size]).sum(-2) for i in range(0, len(u), size))
    return np.asarray(total / len(u))


def monte_carlo(case: Case, points: float, seed: int) -> Array:
    """Independent uniform points of the cube."""
    random = np.random.default_rng(seed)
    each = max(1, int(points) // len(case.parts))
    return case.together(
        [_means(case, part, random.random((each, case.dim))) for part in case.parts]
    )


def sobol(case: Case, points: float, seed: int) -> Array:
    """Scrambled Sobol points, a power of two for each part."""
    each = max(0, int(math.log2(points / len(case.parts))))
    return case.together(
        [
            _means(case, part, qmc.Sobol(case.dim, rng=seed + 1000 * k).random_base2(each))
            for k, part in enumerate(case.parts)
        ]
    )


def qmcpy(case: Case, relative: float, seed: int) -> float:
    """Sobol points until QMCPy's stopping rule says that the relative error is as asked."""
    import qmcpy as qp

    means = []
    for k, part in enumerate(case.parts):
        width = len(part.gives)

        def g(t: Array, part: Part = part, width: int = width, **_: object) -> Array:
            values = case.values(part, t)
            return values[:, 0] if width == 1 else np.ascontiguousarray(values.T)

        uniform = qp.Uniform(qp.DigitalNetB2(case.dim, seed=seed + 1000 * k))
        shape = () if width == 1 else (width,)
        integrand = qp.CustomFun(uniform, g, dimension_indv=shape)
        rule = qp.CubQMCNetG(integrand, abs_tol=0.0, rel_tol=relative / 2, n_limit=2**20)
        means.append(np.atleast_1d(rule.integrate()[0]))
    return float(case.together(means))


def quadrature(case: Case, relative: float, seed: int) -> float:
    """Adaptive Gauss-Kronrod points, in two dimensions their products."""
    low, high = np.zeros(case.dim), np.ones(case.dim)
    means = []
    for part in case.parts:
        found = cubature(
            lambda u, part=part: case.values(part, u),
            low,
            high,
            rule="gk21",
            rtol=relative,
            atol=0.0,
            max_subdivisions=SUBDIVISIONS,
        )
        means.append(np.atleast_1d(found.estimate))
    return float(case.together(means))


def vegas_plain(case: Case, points: float, seed: int) -> float:
    """vegas in ten rounds, of which the first five adapt; an integrator for each integral."""
    import gvar
    import vegas

    gvar.ranseed(seed)
    apart = [[Part((name,), part.to_x) for name in part.gives] for part in case.parts]
    each = max(20, int(points) // ROUNDS // sum(map(len, apart)))
    means = []
    for parts in apart:
        found = []
        for part in parts:
            integrator = vegas.Integrator([[0.0, 1.0]] * case.dim)

            @vegas.lbatchintegrand
            def integrand(u: Array, part: Part = part) -> Array:
                return np.ascontiguousarray(case.values(part, u)[:, 0])

            integrator(integrand, nitn=ROUNDS // 2, neval=each)
            found.append(integrator(integrand, nitn=ROUNDS // 2, neval=each, adapt=False).mean)
        means.append(np.array(found))
    return float(case.together(means))


def vegas_pdf(case: Case, points: float, seed: int) -> float:
    """vegas's PDFIntegrator around a normal with the posterior's mean and covariance."""
    import gvar
    import vegas

    gvar.ranseed(seed)
    mean, covariance = _whitening(case, seed)
    to_x = case.prior_map()
    expectation = vegas.PDFIntegrator(gvar.gvar(mean, covariance))
    seen: dict[str, Array] = {}

    @vegas.lbatchintegrand
    def density(z: Array) -> Array:
        z = torch.from_numpy(np.ascontiguousarray(z))
        with torch.inference_mode():
            u = torch.special.ndtr(z).clamp(1e-15, 1 - 1e-15)
            x, log_jacobian = to_x(u)
            log_joint, f = case.terms(x)
            log_normal = -0.5 * (z.square() + math.log(2 * math.pi)).sum(-1)
            seen["f"] = f.numpy()
            return (log_joint + log_jacobian + log_normal).exp().numpy()

    @vegas.lbatchintegrand
    def f_seen(z: Array) -> Array:
        # Asked for right after the density, at the same points.
        return seen["f"]

    each = max(20, int(points) // ROUNDS)
    try:
        expectation(f_seen, pdf=density, nitn=ROUNDS // 2, neval=each)
        found = expectation(f_seen, pdf=density, nitn=ROUNDS // 2, neval=each, adapt=False)
    except ValueError:
        # What vegas says of covariances where no point has met f.
        return 0.0
    return float(found.mean)


def _whitening(case: Case, seed: int) -> tuple[Array, Array]:
    """The posterior's mean and covariance where the prior is a standard normal.

    Exact for Gaussian posteriors and without observation; else from points of the prior, counted.
    """
    problem = case.problem
    if case.known:
        return np.zeros(case.dim), np.eye(case.dim)
    if hasattr(problem, "posterior_covariance"):
        back = np.linalg.inv(np.linalg.cholesky(problem.prior_covariance))
        mean = problem.posterior_mean(case.y).numpy()
        return back @ mean, back @ problem.posterior_covariance @ back.T
    u = qmc.Sobol(case.dim, rng=seed).random(PILOT)
    weights = case.values(Part(("E2",), case.prior_map()), u)[:, 0]
    z = torch.special.ndtri(torch.from_numpy(np.clip(u, 1e-15, 1 - 1e-15))).numpy()
    weights = weights / weights.sum()
    mean = weights @ z
    centred = z - mean
    covariance = (weights[:, None] * centred).T @ centred
    return mean, covariance + 1e-4 * np.eye(case.dim)


even_estimate = partial(amci_estimate, points="sobol")
even_value = partial(amci_value, points="sobol")

METHODS: Mapping[str, Method] = {
    "amci": Method(
        "AMCI, `estimate`", amci_estimate, powers(2, 18, 2), "its proposals", batch=amci_estimate
    ),
    "amci-sobol": Method(
        "AMCI, `estimate`, Sobol points",
        even_estimate,
        powers(4, 18, 2),
        "its proposals",
        batch=even_estimate,
    ),
    "amci-value": Method(
        "AMCI, value alone", amci_value, powers(2, 18), "its proposals", batch=amci_value
    ),
    "amci-value-sobol": Method(
        "AMCI, value alone, Sobol points",
        even_value,
        powers(3, 18),
        "its proposals",
        batch=even_value,
    ),
    "amci-to": Method(
        "AMCI, `estimate_to`",
        amci_to,
        [0.1, 0.01, 0.001],
        "its proposals",
        batch=amci_to,
        precise=True,
    ),
    "monte-carlo": Method(
        "plain Monte Carlo", monte_carlo, powers(6, 22, 2), "the support", batch=monte_carlo
    ),
    "vegas": Method(
        "vegas", vegas_plain, powers(8, 22, 2), "the support", needs=("vegas", "gvar")
    ),
    "vegas-pdf": Method(
        "vegas, PDFIntegrator",
        vegas_pdf,
        powers(8, 22, 2),
        "the posterior's mean and covariance",
        needs=("vegas", "gvar"),
    ),
    "sobol": Method("Sobol (scipy)", sobol, powers(4, 22, 2), "the support", batch=sobol),
    "qmcpy": Method(
        "Sobol (QMCPy's stopping rule)",
        qmcpy,
        [0.2, 0.05, 0.02, 0.005, 0.002, 0.0005],
        "the support",
        needs=("qmcpy",),
    ),
    "quadrature": Method(
        "adaptive quadrature (scipy)",
        quadrature,
        [1e-1, 1e-2, 1e-3, 1e-4],
        "the support",
        fits=lambda case: case.dim <= 2,
        unless="more than two dimensions",
        seeds=1,
    ),
}
