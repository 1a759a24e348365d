r"""What Markov chains would cost instead: `python benchmarks/mcmc.py`.

emcee's ensemble (Goodman and Weare, 2010) draws from the posterior of tail-5d at a rare case, and
the share of draws in f estimates mu. The error of that share, with its autocorrelation time, says
how many evaluations of p(x, y) an error of 1 % takes; AMCI's is measured over runs.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time

import emcee
import numpy as np
import torch

import amci_core as amci

WALKERS, BURN_IN, RUNS, DRAWS = 64, 500, 200, 1000


def main() -> None:
    """Prints what both take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="tail-5d")
    parser.add_argument("--y", type=float, default=0.0, help="of every coordinate")
    parser.add_argument("--theta", type=float, default=0.5, help="of every coordinate")
    parser.add_argument("--steps", type=int, default=20_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    problem, proposals = amci.problem(asked.problem), amci.load_proposals(asked.problem)
    y, theta = np.full(problem.y.dim, asked.y), np.full(problem.theta.dim, asked.theta)
    checked_y, checked_theta = problem.check(y, theta)
    mu = float(problem.truth(y, theta))

    def log_p(x: np.ndarray) -> np.ndarray:
        return problem.log_joint(torch.from_numpy(x), checked_y).numpy()

    start = problem.sample_prior(WALKERS, torch.Generator().manual_seed(0)).numpy()
    np.random.seed(0)  # noqa: NPY002  (emcee has no other)
    sampler = emcee.EnsembleSampler(WALKERS, problem.x.dim, log_p, vectorize=True)
    state = sampler.run_mcmc(start, BURN_IN)
    sampler.reset()
    started = time.process_time()
    sampler.run_mcmc(state, asked.steps)
    seconds = time.process_time() - started
    x = torch.from_numpy(sampler.get_chain(flat=False))
    hits = problem.f_parts(x, checked_theta)[0].numpy() > 0
    tau = emcee.autocorr.integrated_time(hits.astype(float)[..., None], quiet=True)[0]
    found, evaluations = hits.mean(), hits.size
    needed = tau * (1 - mu) / mu / 0.01**2
    print(f"{asked.problem}, y = {asked.y:g}, theta = {asked.theta:g}: mu = {mu:.4g}")
    print(
        f"emcee: {found:.4g} from {evaluations:,} evaluations in {seconds:.0f} s; an "
        f"autocorrelation time of {tau:.0f} steps; 1 % takes {needed:.2g} evaluations, "
        f"{needed / evaluations * seconds / 60:.2g} minutes of one core"
    )
    started = time.process_time()
    errors = [
        amci.estimate(problem, proposals, y, theta, draws=DRAWS, seed=seed).value / mu - 1
        for seed in range(RUNS)
    ]
    seconds = (time.process_time() - started) / RUNS
    trained = sum(proposals.card["configuration"]["seconds"].values()) / 60
    error = np.sqrt(np.mean(np.square(errors)))
    print(
        f"AMCI: an error of {error:.2%} from {DRAWS:,} draws in {1e3 * seconds:.0f} ms, after "
        f"{trained:.0f} minutes of training"
    )


if __name__ == "__main__":
    main()
