r"""Peers that draw from a posterior or count rare events: NUTS, nested sampling, subsets, FORM."""

from __future__ import annotations

__all__ = ["SAMPLERS"]

import math
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from peer_cases import Array, Case, Part, problem_of
from peer_methods import Method, powers
from published import Bioassay, CornerPeak, EightSchools, LinearLimit, Ring

from amci_core.models.cancer import (
    C0_SCALE,
    C0_SHAPE,
    CENTRE,
    EPSILON_A,
    EPSILON_B,
    HIGH,
    LOW,
    NOISE,
    WIDTH,
    _coefficients,
)
from amci_core.models.gaussian import GaussianModel
from amci_core.models.tail import GaussianTail

# NUTS's warm-up, and the largest number of draws after it.
WARMUP, MOST_SAMPLES = 500, 128_000


def nuts(case: Case, samples: float, seed: int) -> float:
    """NUTS of numpyro on the posterior, a warm-up of 500; the mean of f over its draws."""
    x = _chain(case, int(samples), seed)
    with torch.inference_mode():
        return float(case.problem.f(torch.from_numpy(x), case.theta).mean())


def nuts_hits(case: Case) -> dict[str, float]:
    """The share of NUTS's draws at which f is not zero."""
    x = _chain(case, 4000, 0)
    with torch.inference_mode():
        return {
            "hits": float((case.problem.f(torch.from_numpy(x), case.theta) != 0).float().mean())
        }


def _chain(case: Case, samples: int, seed: int) -> Array:
    import jax

    chain, to_x = _sampler(case.problem.name)
    z, steps = chain(jax.random.PRNGKey(seed), case.y.numpy(), samples)
    case.spent += int(steps)
    return np.array(to_x(z[:samples]), dtype=np.float64)


@lru_cache(maxsize=1)
def _sampler(name: str) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """A chain for a problem, compiled at its first use: draws of z and evaluations in all."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro.infer.hmc import hmc

    numpyro.enable_x64()
    problem = problem_of(name)
    log_density, to_x = _in_jax(problem)
    start, step = hmc(potential_fn_gen=lambda y: lambda z: -log_density(z, y), algo="NUTS")

    @jax.jit
    def chain(key: Any, y: Any, samples: Any) -> Any:
        state = start(jnp.zeros(problem.x.dim), WARMUP, model_args=(y,), rng_key=key)

        def one(i: Any, carried: Any) -> Any:
            state, kept, steps = carried
            state = step(state, model_args=(y,))
            # What is kept during the warm-up is overwritten by the first draw.
            kept = kept.at[jnp.maximum(i - WARMUP, 0)].set(state.z)
            return state, kept, steps + state.num_steps

        kept = jnp.zeros((MOST_SAMPLES, problem.x.dim))
        _, kept, steps = jax.lax.fori_loop(0, WARMUP + samples, one, (state, kept, 0))
        return kept, steps

    return chain, to_x


def _in_jax(problem: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    """log p(x(z), y) |dx/du| for z (D,) on the line, and x(z) for z (n, D)."""
    import jax
    import jax.numpy as jnp

    if isinstance(problem, GaussianModel):
        precision = jnp.asarray(np.linalg.inv(problem.posterior_covariance))
        covariance = jnp.asarray(problem.posterior_covariance)

        def gaussian(z: Any, y: Any) -> Any:
            d = z - covariance @ y
            return -0.5 * d @ precision @ d

        return gaussian, lambda z: z
    if isinstance(problem, Ring | LinearLimit):
        return (lambda z, y: -0.5 * z @ z), lambda z: z
    if isinstance(problem, CornerPeak):
        return (
            lambda z, y: (jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)).sum(),
            jax.nn.sigmoid,
        )
    if isinstance(problem, Bioassay):
        factor, doses = jnp.asarray(problem.FACTOR), jnp.asarray(problem.DOSES)

        def bioassay(z: Any, y: Any) -> Any:
            x = factor @ z + jnp.array([0.0, 10.0])
            logits = x[0] + x[1] * doses
            likelihood = y * logits - problem.ANIMALS * jax.nn.softplus(logits)
            return likelihood.sum() - 0.5 * z @ z

        return bioassay, lambda z: z @ factor.T + jnp.array([0.0, 10.0])
    if isinstance(problem, EightSchools):
        deviations = jnp.asarray(problem.DEVIATIONS)

        def schools(z: Any, y: Any) -> Any:
            # mu = 5 z_0 and the effects standardised, as the problem has it.
            effects = 5 * z[0] + jnp.exp(z[1]) * z[2:]
            likelihood = -0.5 * (((y - effects) / deviations) ** 2).sum()
            tau = z[1] - jax.nn.softplus(2 * (z[1] - jnp.log(5.0)))
            return likelihood + tau - 0.5 * (z[0] ** 2 + (z[2:] ** 2).sum())

        return schools, lambda z: z.at[:, 0].multiply(5.0)
    return _cancer_in_jax()


def _cancer_in_jax() -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    """The tumour's table in jax; z = (log c0, logit epsilon)."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import gammaln

    first = jnp.asarray(_coefficients()[:12].numpy())

    def chebyshev(t: Any, degree: int) -> Any:
        return jnp.cos(jnp.arange(degree) * jnp.arccos(jnp.clip(t, -1 + 1e-12, 1 - 1e-12)))

    def log_c5(log_c0: Any, epsilon: Any) -> Any:
        place = (2 * jnp.arctan((log_c0 - CENTRE) / WIDTH) - (LOW + HIGH)) / (HIGH - LOW)
        return chebyshev(2 * epsilon - 1, 12) @ first @ chebyshev(place, first.shape[1])

    def density(z: Any, y: Any) -> Any:
        epsilon = jax.nn.sigmoid(z[1])
        prior = C0_SHAPE * z[0] - jnp.exp(z[0]) / C0_SCALE
        prior += EPSILON_A * jax.nn.log_sigmoid(z[1]) + EPSILON_B * jax.nn.log_sigmoid(-z[1])
        c = jnp.exp(jnp.stack([z[0], log_c5(z[0], epsilon)]))
        shape, rate = (c / NOISE) ** 2, c / NOISE**2
        measured = shape * jnp.log(rate) - gammaln(shape) + (shape - 1) * jnp.log(y) - rate * y
        return prior + measured.sum()

    def to_x(z: Any) -> Any:
        return jnp.stack([jnp.exp(z[:, 0]), jax.nn.sigmoid(z[:, 1])], -1)

    # A chain starts near zero: there the tumour's size is 1, so the prior's centre is zero.
    shift = jnp.array([math.log(C0_SHAPE * C0_SCALE), math.log(EPSILON_A / EPSILON_B)])
    return (lambda z, y: density(z + shift, y)), lambda z: to_x(z + shift)


def _evidences(case: Case, evidence: Callable[[Callable[[Array], Array]], float]) -> float:
    """mu from an evidence for each integral, of a function of points of the unit cube (n, D)."""
    found = {"E1": 0.0, "E2": 0.0}
    for part in case.parts:
        for name in part.gives:
            alone = Part((name,), part.to_x)

            def log_values(u: Array, alone: Part = alone) -> Array:
                values = np.abs(case.values(alone, u)[:, 0])
                return np.log(np.maximum(values, 1e-300))

            signs = case.values(alone, np.full((1, case.dim), 0.5))[0, 0]
            case.spent -= 1
            found[name] += math.copysign(math.exp(evidence(log_values)), signs)
    return case.ratio(found if not case.known else {"E1": found["E1"]})


def nested_dynesty(case: Case, live: float, seed: int) -> float:
    """Static nested sampling of dynesty with so many live points, for each integral."""
    import dynesty

    def evidence(log_values: Callable[[Array], Array]) -> float:
        sampler = dynesty.NestedSampler(
            lambda u: float(log_values(u[None])[0]),
            lambda u: u,
            case.dim,
            nlive=int(live),
            rstate=np.random.default_rng(seed),
        )
        sampler.run_nested(print_progress=False, dlogz=0.01)
        return float(sampler.results.logz[-1])

    return _evidences(case, evidence)


def nested_nautilus(case: Case, live: float, seed: int) -> float:
    """nautilus with so many live points and ten times as many effective ones, each integral."""
    import nautilus

    def evidence(log_values: Callable[[Array], Array]) -> float:
        sampler = nautilus.Sampler(
            lambda u: u, log_values, case.dim, n_live=int(live), vectorized=True, seed=seed
        )
        sampler.run(n_eff=10 * int(live), verbose=False)
        return float(sampler.log_z)

    return _evidences(case, evidence)


def _limit_state(case: Case) -> Callable[[Array], Array]:
    """Above zero where the event happens, with a slope: x (n, D) to (n)."""
    theta = case.theta
    assert theta is not None
    bound = theta.numpy()
    if isinstance(case.problem, GaussianTail):
        return lambda x: (x - bound).min(-1)
    if isinstance(case.problem, Ring):
        return lambda x: 0.25 - abs(np.linalg.norm(x, axis=-1) - bound[0] - 0.25)
    return lambda x: x.sum(-1) - bound[0] * math.sqrt(case.dim)


def _event(case: Case, seed: int) -> tuple[Any, Any]:
    """openturns's event under the posterior, which it is told, and its distribution."""
    import openturns as ot

    ot.RandomGenerator.SetSeed(seed)
    ot.Log.Show(ot.Log.NONE)
    limit = _limit_state(case)

    def g(x: Any) -> Any:
        points = np.asarray(x)
        case.spent += len(points)
        return limit(points)[:, None]

    if isinstance(case.problem, GaussianTail):
        mean = case.problem.posterior_mean(case.y).numpy()
        covariance = case.problem.posterior_covariance
    else:
        mean, covariance = np.zeros(case.dim), np.eye(case.dim)
    normal = ot.Normal(mean.tolist(), ot.CovarianceMatrix(covariance.tolist()))
    function = ot.PythonFunction(
        case.dim, 1, func=lambda x: list(g([x])[0]), func_sample=lambda x: g(x).tolist()
    )
    output = ot.CompositeRandomVector(function, ot.RandomVector(normal))
    return ot.ThresholdEvent(output, ot.Greater(), 0.0), mean


def subset(case: Case, points: float, seed: int) -> float:
    """Subset simulation of openturns with so many points on each level, a tenth goes on."""
    import openturns as ot

    event, _ = _event(case, seed)
    algorithm = ot.SubsetSampling(event)
    algorithm.setMaximumOuterSampling(1000)
    algorithm.setBlockSize(max(1, int(points) // 1000))
    algorithm.setMaximumCoefficientOfVariation(0.0)
    algorithm.run()
    return float(algorithm.getResult().getProbabilityEstimate())


def form(case: Case, points: float, seed: int) -> float:
    """FORM, and importance sampling around its design point with so many points."""
    import openturns as ot

    assert case.theta is not None
    event, mean = _event(case, seed)
    solver = ot.Cobyla()
    solver.setMaximumCallsNumber(5000)
    solver.setMaximumConstraintError(1.0)
    # From the event's own corner: a search from the mean does not always arrive.
    start = np.maximum(mean, case.theta.numpy() + 1e-3)
    algorithm = ot.FORM(solver, event, start.tolist())
    algorithm.run()
    sampling = ot.PostAnalyticalImportanceSampling(algorithm.getResult())
    block = max(1, int(points) // 16)
    sampling.setBlockSize(block)
    sampling.setMaximumOuterSampling(16)
    sampling.setMaximumCoefficientOfVariation(0.0)
    sampling.run()
    return float(sampling.getResult().getProbabilityEstimate())


def _rare(case: Case) -> bool:
    return isinstance(case.problem, GaussianTail | Ring | LinearLimit)


os.environ.setdefault("JAX_PLATFORMS", "cpu")
SAMPLERS: Mapping[str, Method] = {
    "nuts": Method(
        "NUTS (numpyro)",
        nuts,
        [500, 2000, 8000, 32000, 128000],
        "gradients",
        needs=("numpyro",),
        seeds=5,
        extra=nuts_hits,
    ),
    "dynesty": Method(
        "nested sampling (dynesty)",
        nested_dynesty,
        [50, 200, 800],
        "the support",
        needs=("dynesty",),
        seeds=3,
        cases=3,
    ),
    "nautilus": Method(
        "nested sampling (nautilus)",
        nested_nautilus,
        [200, 800],
        "the support",
        needs=("nautilus",),
        seeds=3,
        cases=3,
    ),
    "subset": Method(
        "subset simulation (openturns)",
        subset,
        powers(10, 18, 2),
        "the posterior, and how far the event is",
        needs=("openturns",),
        fits=_rare,
        unless="f is no indicator, or the posterior has no closed form",
        seeds=10,
    ),
    "form": Method(
        "FORM and importance sampling (openturns)",
        form,
        powers(6, 20, 2),
        "the posterior, and how far the event is",
        needs=("openturns",),
        fits=_rare,
        unless="f is no indicator, or the posterior has no closed form",
        seeds=10,
    ),
}
