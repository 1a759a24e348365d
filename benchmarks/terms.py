r"""Whether terms come with honest errors: `python benchmarks/terms.py`, half an hour.

Estimates every term of cases of every problem by importance sampling, annealing and nested
sampling, from the problem's own densities and from the learnt proposals, and compares with the
truth: z is the error of log E_t over its own standard error. An estimate that is right to rounding
counts as z = 0. The exit status is 1 where any |z| exceeds 4.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import sys
import time
from collections import defaultdict

import numpy as np
import torch

import amci_core as amci
from amci_core.term_methods import METHODS
from amci_core.term_methods.mu import estimate_terms

LARGEST_Z = 4.0
ROUNDING = 1e-9
STARTS = ("own", "learnt")


def report(name: str, method: str, start: str, *, cases: int, seed: int) -> bool:
    """Prints one line a term, and says whether every z lies within the limit."""
    problem = amci.problem(name)
    proposals = None if start == "own" else amci.load_proposals(name)
    y, theta = problem.cases(cases, seed=seed)
    z, errors, draws = defaultdict(list), defaultdict(list), defaultdict(list)
    began = time.perf_counter()
    for i in range(cases):
        at = (None if y is None else y[i], None if theta is None else theta[i])
        truth = problem.log_terms(*at)
        methods = {term: method for term in truth}
        found = estimate_terms(
            problem, *at, methods=methods, proposals=proposals, seed=seed * cases + i
        )
        for term, estimate in found.terms.items():
            error = estimate.log_value - float(truth[term])
            exact = abs(error) < ROUNDING
            z[term].append(0.0 if exact else error / estimate.standard_error)
            errors[term].append(estimate.standard_error)
            draws[term].append(estimate.draws)
    seconds = (time.perf_counter() - began) / cases
    for term, values in z.items():
        print(
            f"{name:<9}  {method:<10}  {start:<6}  {term:<8}  {np.mean(values):+5.2f}  "
            f"{np.std(values):4.2f}  {np.abs(values).max():5.2f}  {np.median(errors[term]):8.1e}  "
            f"{np.max(errors[term]):8.1e}  {np.median(draws[term]):7,.0f}  {seconds:6.2f}",
            flush=True,
        )
    return all(np.abs(values).max() <= LARGEST_Z for values in z.values())


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=amci.problems(), action="append")
    parser.add_argument("--method", choices=tuple(METHODS), action="append")
    parser.add_argument("--start", choices=STARTS, action="append")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "problem    method      start   term      mean z  sd  max |z|  median s.e.  largest  "
        "draws  seconds per case"
    )
    held = [
        report(name, method, start, cases=options.cases, seed=options.seed)
        for name in options.problem or amci.problems()
        for method in options.method or METHODS
        for start in options.start or STARTS
    ]
    print(f"all |z| <= {LARGEST_Z:g}: {'holds' if all(held) else 'FAILS'}")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
