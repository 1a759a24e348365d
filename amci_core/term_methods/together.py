r"""One call for the points of many threads: for samplers that ask for one value at a time."""

from __future__ import annotations

__all__ = ["Together"]

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any

import numpy as np

from amci_core.estimators.draws import Array


class Together:
    """Threads that wait for each other, so that a function sees all of their points at once.

    Each task of `map` may call `value` as often as it likes. Whenever all tasks under way wait for
    a value, the function is called once with all their points: a thousand integrands at
    once may cost little more than one. The values depend on the tasks alone, not on timing.

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

    def __enter__(self) -> Together:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

        # A task that is cancelled would be waited for, so all of them end, also after an error.
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
