r"""Peers that are trained before a query, as AMCI is: sbi, Bayesian quadrature, networks.

References:
    Chen, Naslidnyk, Gretton, Briol, Conditional Bayesian quadrature, UAI 2024: Bayesian quadrature
    at T conditions with N draws each, then a Gaussian process over the conditions whose noise is
    the variance of the first stage.
"""

from __future__ import annotations

__all__ = ["LEARNED"]

import math
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peer_cases import Array, Case, problem_of
from peer_methods import Method, powers
from torch import Tensor

from amci_core.models import Problem
from amci_core.models.cancer import TumourTreatment
from amci_core.models.gaussian import GaussianModel

# Simulations that sbi's network learns from, and its passes through them.
SIMULATIONS, EPOCHS = 10_000, 50
# Draws of the prior that stand for a posterior without closed form.
PARTICLES = 8192
# Draws of the posterior at each of the conditions of Bayesian quadrature.
NODES = 100
SEEDS = 2


FLOWS: dict[str, Any] = {}


def _line(problem: Problem, x: Tensor) -> tuple[Tensor, Tensor]:
    """x on the line, and log|dz/dx|: where x has bounds, its logarithm and its log-odds."""
    if not isinstance(problem, TumourTreatment):
        return x, torch.zeros_like(x[..., 0])
    c0, epsilon = x.unbind(-1)
    z = torch.stack([c0.log(), torch.logit(epsilon)], -1)
    return z, -(c0.log() + epsilon.log() + torch.log1p(-epsilon))


def _from_line(problem: Problem, z: Tensor) -> Tensor:
    if not isinstance(problem, TumourTreatment):
        return z
    return torch.stack([z[..., 0].exp(), z[..., 1].sigmoid()], -1)


def _seen(problem: Problem, y: Tensor) -> Tensor:
    """y as networks read it."""
    return y.clamp(min=1e-3).log() if isinstance(problem, TumourTreatment) else y


def train_sbi(problem: Problem, folder: Path) -> dict[str, float]:
    """Learns p(x | y) from simulations once; keeps it in the folder."""
    place = folder / "sbi" / f"{problem.name}.pt"
    if not place.exists():
        from sbi.inference import NPE
        from torch.utils.tensorboard.writer import SummaryWriter

        place.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1)
        x = problem.sample_prior(SIMULATIONS, generator).float()
        y = problem.sample_likelihood(x, generator).float()
        writer = SummaryWriter(str(folder / "sbi" / "logs"))
        inference = NPE(density_estimator="nsf", summary_writer=writer, show_progress_bars=False)
        inference.append_simulations(_line(problem, x)[0], _seen(problem, y))
        flow = inference.train(max_num_epochs=EPOCHS, stop_after_epochs=10)
        torch.save((flow, time.perf_counter() - started), place)
    FLOWS[problem.name], seconds = torch.load(place, weights_only=False)
    return {"seconds": seconds, "evaluations": SIMULATIONS}


def sbi_sampling(case: Case, draws: float, seed: int) -> float:
    """Draws of sbi's posterior with weights p(x, y) / q(x)."""
    torch.manual_seed(seed)
    flow, problem = FLOWS[case.problem.name], case.problem
    with torch.inference_mode():
        y = _seen(problem, case.y).float()[None]
        z = flow.sample((int(draws),), condition=y)[:, 0]
        log_q = flow.log_prob(z[:, None], condition=y)[:, 0].double()
        x = _from_line(problem, z.double())
        log_joint, f = case.terms(x)
        log_w = (log_joint - log_q - _line(problem, x)[1]).where(log_q > -math.inf, -math.inf)
        w = log_w.nan_to_num(nan=-math.inf).softmax(0)
        return float((w * f.where(w > 0, 0.0)).sum())


def _condition(problem: Problem, y: Tensor, theta: Tensor | None) -> Array:
    """What regressions read: y and theta, (n, D_y + D_theta)."""
    parts = [_seen(problem, y)] if y.shape[-1] else []
    return np.asarray(torch.cat(parts + ([] if theta is None else [theta]), -1).double().numpy())


def _posterior_draws(
    problem: Problem, y: Tensor, n: int, particles: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """n draws of p(x | y), and weights of the particles; None where it is normal."""
    if isinstance(problem, GaussianModel):
        return problem.posterior(y).draw(n, generator)[0], None
    log_w = problem.log_likelihood(particles, y) if y.shape[-1] else particles[:, 0] * 0
    w = log_w.softmax(0)
    chosen = torch.multinomial(w, n, replacement=True, generator=generator)
    # Not twice at the same place: the kernel matrix would be singular.
    return particles[chosen.unique()], w


def _first_stage(
    problem: Problem, y: Tensor, theta: Tensor | None, particles: Tensor, seed: int
) -> tuple[float, float]:
    """Bayesian quadrature with a Gaussian kernel at one condition: the mean and its variance."""
    generator = torch.Generator().manual_seed(seed)
    x, w = _posterior_draws(problem, y, NODES, particles, generator)
    f = problem.f(x, theta).double()
    x, n = x.double(), len(x)
    dim = x.shape[-1]
    # Whitened by the draws' spread; the length is the median distance.
    scale = x.std(0) + 1e-9
    z = x / scale
    distance = torch.cdist(z, z)
    length = distance[distance > 0].median()
    K = torch.exp(-0.5 * (distance / length) ** 2) + 1e-6 * torch.eye(n)
    if w is None:
        assert isinstance(problem, GaussianModel)
        mean = problem.posterior_mean(y).double() / scale
        P = torch.from_numpy(problem.posterior_covariance.copy()) / scale / scale[:, None]

        def embedded(points: Tensor, covariance: Tensor) -> Tensor:
            total = covariance + length**2 * torch.eye(dim)
            d = points - mean
            quadratic = (d @ torch.linalg.inv(total) * d).sum(-1)
            log_scale = dim * length.log() - 0.5 * torch.logdet(total)
            return (log_scale - 0.5 * quadratic).exp()

        embedding, initial = embedded(z, P), embedded(mean[None], 2 * P)[0]
    else:
        kept = w.topk(min(2048, len(w))).indices
        weights, points = w[kept] / w[kept].sum(), particles[kept].double() / scale
        embedding = torch.exp(-0.5 * (torch.cdist(z, points) / length) ** 2) @ weights
        among = torch.exp(-0.5 * (torch.cdist(points[:512], points) / length) ** 2) @ weights
        initial = (among * weights[:512]).sum() / weights[:512].sum()
    centre = f.mean()
    inverse_f = torch.linalg.solve(K, f - centre)
    amplitude = ((f - centre) @ inverse_f / n).clamp(min=1e-12)
    value = centre + embedding @ inverse_f
    variance = amplitude * (initial - embedding @ torch.linalg.solve(K, embedding))
    return float(value), max(float(variance), 1e-12)


@lru_cache(maxsize=64)
def _quadrature(name: str, conditions: int, seed: int) -> tuple[Any, Any]:
    """The Gaussian process of the second stage, and what scales its inputs."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern
    from sklearn.preprocessing import StandardScaler

    problem = problem_of(name)
    generator = torch.Generator().manual_seed(seed + 100)
    y, theta = problem.sample_cases(conditions, generator)
    y, theta = y.double(), None if theta is None else theta.double()
    particles = problem.sample_prior(PARTICLES, generator).double()
    with torch.inference_mode():
        found = np.array(
            [
                _first_stage(problem, y[i], None if theta is None else theta[i], particles, i)
                for i in range(conditions)
            ]
        )
    inputs = _condition(problem, y, theta)
    scaler = StandardScaler().fit(inputs)
    kernel = ConstantKernel(1.0) * Matern(np.ones(inputs.shape[1]), (1e-2, 1e3), nu=2.5)
    spread = max(found[:, 0].std(), 1e-12)
    process = GaussianProcessRegressor(
        kernel, alpha=np.maximum(found[:, 1] / spread**2, 1e-8), normalize_y=True
    )
    return process.fit(scaler.transform(inputs), found[:, 0]), scaler


def train_cbq(problem: Problem, folder: Path) -> dict[str, float]:
    """Fits for every number of conditions and every seed."""
    started = time.perf_counter()
    for seed in range(SEEDS + 1):
        for conditions in CONDITIONS:
            _quadrature(problem.name, int(conditions), seed)
    # One of them, the largest, counts; the time is that of all over their number and sizes.
    seconds = (time.perf_counter() - started) / (SEEDS + 1)
    return {"seconds": seconds, "evaluations": CONDITIONS[-1] * NODES}


def cbq(case: Case, conditions: float, seed: int) -> Array:
    """Its mean at a query, for which nothing is evaluated."""
    process, scaler = _quadrature(case.problem.name, int(conditions), seed)
    return _predicted(case, process, scaler)


def _predicted(case: Case, model: Any, scaler: Any) -> Array:
    inputs = _condition(case.problem, case.y, case.theta)
    rows = scaler.transform(inputs.reshape(-1, inputs.shape[-1]))
    return np.asarray(model.predict(rows).reshape(case.batch))


CONDITIONS = (50.0, 200.0)


SIMULATED, TRUTHS = (5_000.0, 50_000.0), (1_000.0, 4_000.0)


@lru_cache(maxsize=64)
def _network(name: str, size: int, seed: int, truth: bool) -> tuple[Any, Any, bool]:
    """A regression on simulated f(x; theta), or on the truth; its scaler; whether on log mu."""
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    problem = problem_of(name)
    generator = torch.Generator().manual_seed(seed + 200)
    logarithm = truth and problem.nonnegative
    if truth:
        y, theta = problem.sample_cases(size, generator)
        log_mu, sign = problem.log_truth(y, theta)
        target = log_mu if logarithm else sign * np.exp(log_mu)
    else:
        x = problem.sample_prior(size, generator)
        theta = problem.sample_theta(size, generator)
        y = x[:, :0] if problem.y is None else problem.sample_likelihood(x, generator)
        target = problem.f(x, theta).double().numpy()
    inputs = _condition(problem, y, theta)
    scaler = StandardScaler().fit(inputs)
    network = MLPRegressor(
        hidden_layer_sizes=(128, 128),
        early_stopping=True,
        random_state=seed,
        max_iter=40,
        batch_size=256,
    )
    return network.fit(scaler.transform(inputs), target), scaler, logarithm


def _train_network(problem: Problem, sizes: tuple[float, ...], truth: bool) -> dict[str, float]:
    for size in sizes:
        started = time.perf_counter()
        for seed in range(SEEDS + 1):
            _network(problem.name, int(size), seed, truth)
        seconds = (time.perf_counter() - started) / (SEEDS + 1)
    return {"seconds": seconds, "evaluations": sizes[-1]}


def train_simulated(problem: Problem, folder: Path) -> dict[str, float]:
    """Networks on simulated values."""
    return _train_network(problem, SIMULATED, False)


def train_told(problem: Problem, folder: Path) -> dict[str, float]:
    """Networks on the truth."""
    return _train_network(problem, TRUTHS, True)


def network_simulated(case: Case, size: float, seed: int) -> Array:
    """What it says after so many simulated values."""
    network, scaler, _ = _network(case.problem.name, int(size), seed, False)
    return _predicted(case, network, scaler)


def network_told(case: Case, size: float, seed: int) -> Array:
    """What it says after so many true values."""
    network, scaler, logarithm = _network(case.problem.name, int(size), seed, True)
    found = _predicted(case, network, scaler)
    return np.exp(found) if logarithm else found


LEARNED: Mapping[str, Method] = {
    "sbi": Method(
        "sbi's posterior, importance sampling",
        sbi_sampling,
        powers(6, 20, 2),
        f"{SIMULATIONS:,} simulations before",
        needs=("sbi",),
        fits=lambda case: case.problem.y is not None,
        unless="nothing is observed",
        train=train_sbi,
    ),
    "cbq": Method(
        "conditional Bayesian quadrature",
        cbq,
        CONDITIONS,
        f"{NODES} draws of the posterior at each of 50 or 200 conditions before",
        batch=cbq,
        needs=("sklearn",),
        train=train_cbq,
        seeds=SEEDS,
    ),
    "network": Method(
        "network on simulated values",
        network_simulated,
        SIMULATED,
        "5,000 or 50,000 simulated f before",
        batch=network_simulated,
        needs=("sklearn",),
        train=train_simulated,
        seeds=SEEDS,
    ),
    "network-told": Method(
        "network on the truth",
        network_told,
        TRUTHS,
        "1,000 or 4,000 true log mu (or mu) before",
        batch=network_told,
        needs=("sklearn",),
        train=train_told,
        seeds=SEEDS,
    ),
}
