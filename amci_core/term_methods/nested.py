r"""Nested sampling of a term, by dynesty.

The integrand is an integral over the unit cube once a map takes the cube to its support: the
quantile map of a `StudentDensity` fitted to draws of the density to start from. The integrand over
that density is bounded even where the draws are too narrow. Whatever the map, the integral is the
same; and since the cube covers the support alone, an indicator leaves no plateau of zeros, which
would cost points to get through.

References:
    Skilling, Nested sampling for general Bayesian computation, Bayesian Analysis 1, 2006.
    Speagle, dynesty: a dynamic nested sampling package for estimating Bayesian posteriors and
    evidences, Monthly Notices of the Royal Astronomical Society 493, 2020.
"""

from __future__ import annotations

__all__ = ["BatchingPool", "Nested"]

import math
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from amci_core.checks import check_count
from amci_core.estimators.draws import Array
from amci_core.flows.density import Density
from amci_core.term_methods.base import Integrand, StudentDensity, TermEstimate

MOST_POINTS = 100_000
# Share of accepted points, in per cent, below which dynesty goes from the cube to ellipsoids: its
# own 10 % needs five times the points.
LEAST_ACCEPTED = 60.0
# The logarithm of zero as dynesty has it, which refuses live points that are all at -inf.
ZERO = -1e300


@dataclass(frozen=True)
class Nested:
    """Estimates a term by nested sampling, with dynesty's static sampler.

    The standard error is dynesty's, about sqrt(H / live) where H is the information in nats that
    leads from the map's density to the integrand's shape.

    Arguments:
        live: Number of live points.
        remaining: Share of the term, on the log scale, that may be left in the live points when
            the run stops; their mean is added.
        pilot: Number of draws that the map onto the support is fitted to.
        batch: Number of points that are evaluated at a time.

    Raises:
        ValueError: an argument is out of range.
    """

    live: int = 500
    remaining: float = 0.05
    pilot: int = 1000
    batch: int = 128

    def __post_init__(self) -> None:
        check_count("live", self.live, low=50, high=MOST_POINTS)
        check_count("pilot", self.pilot, low=50, high=MOST_POINTS)
        check_count("batch", self.batch, low=1, high=1000)
        if not 0 < self.remaining <= 1:
            raise ValueError(f"remaining: expected a share in (0, 1], got {self.remaining!r}")

    def __call__(self, integrand: Integrand, start: Density, *, seed: int) -> TermEstimate:
        from dynesty import NestedSampler  # it takes a second to import

        before = integrand.evaluations
        with torch.inference_mode():
            x, _ = start.draw(self.pilot, torch.Generator().manual_seed(seed))
            density = StudentDensity.fitted(integrand.support, x)

        @torch.inference_mode()
        def log_ratio(u: Array) -> Array:
            x, log_q = density.points(torch.from_numpy(u))
            value: Array = integrand.log_weight(x, log_q).clamp(min=ZERO).numpy()
            return value

        with BatchingPool(log_ratio, self.batch) as pool:
            sampler = NestedSampler(
                pool.value,
                lambda u: u,
                integrand.dim,
                nlive=self.live,
                rstate=np.random.default_rng(seed),
                pool=pool,
                queue_size=self.batch,
                use_pool={"prior_transform": False, "update_bound": False},
                first_update={"min_ncall": self.live, "min_eff": LEAST_ACCEPTED},
            )
            sampler.run_nested(dlogz=self.remaining, print_progress=False)
        log_value, error = (float(sampler.results[key][-1]) for key in ("logz", "logzerr"))
        if log_value < ZERO / 10:
            log_value, error = -math.inf, math.nan
        return TermEstimate(log_value, error, integrand.evaluations - before)


class BatchingPool:
    """A pool of threads for dynesty that batches the evaluations of all its tasks.

    Whenever all running tasks of `map` wait for a `value`, the function is called once with all
    their points: a thousand integrands at once may cost little more than one. The values depend on
    the tasks alone, not on timing.

    Arguments:
        function: From points (n, D) to values (n).
        size: Number of threads, and of points at most.
    """

    def __init__(self, function: Callable[[Array], Array], size: int) -> None:
        self.size = size
        self._function = function
        self._lock = threading.Lock()
        self._points: list[Array] = []
        self._answer: Future[Array] = Future()
        self._unfinished = 0
        self._threads = ThreadPoolExecutor(size)

    def __enter__(self) -> BatchingPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """task(item) for every item, in order."""
        items = list(items)
        self._unfinished = len(items)

        def run(item: Any) -> Any:
            try:
                return task(item)
            finally:
                with self._lock:
                    self._unfinished -= 1
                    self._answer_if_all_wait()

        # A cancelled task would be waited for, so all of them end, also after an error.
        futures = [self._threads.submit(run, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def value(self, point: Array) -> float:
        """The function at a point (D,), to be called from within a task."""
        with self._lock:
            place, answer = len(self._points), self._answer
            self._points.append(point)
            self._answer_if_all_wait()
        return float(answer.result()[place])

    def _answer_if_all_wait(self) -> None:
        if not self._points or len(self._points) < min(self.size, self._unfinished):
            return
        points, answer = np.stack(self._points), self._answer
        self._points, self._answer = [], Future()
        try:
            answer.set_result(self._function(points))
        except Exception as error:
            answer.set_exception(error)
