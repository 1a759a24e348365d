r"""What is computed for a choice, as plain values that a process elsewhere can be sent."""

from __future__ import annotations

__all__ = ["Request"]

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from amci_core.evaluation import ErrorCurves, ReuseErrors
from amci_core.parallel import Stream
from amci_explorer.compute.computations import computations_of
from amci_explorer.problems import registry, session_proposals
from amci_explorer.problems.settings import Settings
from amci_explorer.state.case import CHOICES
from amci_explorer.state.links import write

# Figures that are computed when they are first read: in the worker, and sent along.
CURVE_FIGURES = ("mean", "mean_error", "effective", "quartiles")
REUSE_FIGURES = ("best", "failed", "paper", "optimum", "best_splits")


@dataclass(frozen=True)
class Request:
    """A computation: a method of `Computations` that gives a stream, and its arguments.

    Arguments:
        what: The method's name.
        settings: What it computes for.
        options: Further fields of the state that it depends on, and their values.
    """

    what: str
    settings: Settings
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def link(self) -> dict[str, str]:
        """What it answers, as an address holds it."""
        original, f = registry.split(self.settings.problem)
        found = {"problem": original} | ({"f": f} if f else {})
        for name, value in (*vars(self.settings).items(), *self.options):
            # No draws: that many are the computation's own affair.
            if name in CHOICES and value not in ((), None) and (name != "draws" or value):
                found[name] = write(value)
        return found

    def __str__(self) -> str:
        case = ", ".join(f"{name} = {value}" for name, value in self.link.items())
        return f"{self.what} ({case})"

    def __reduce__(self) -> Any:
        sent = session_proposals.parcel(self.settings.problem, self.settings.variant)
        return _received, (self.what, self.settings, self.options, sent)

    def part(self, number: int) -> tuple[int, Any]:
        """How many parts there are, and the part of that number."""
        stream = _stream(self)
        return stream.count, stream.part(number)

    def result(self, parts: list[Any]) -> Any:
        """The result of the first parts, with the figures that the page shows computed."""
        found = _stream(self).merge(parts)
        if isinstance(found, ErrorCurves):
            for curve in found.by_name.values():
                for name in CURVE_FIGURES:
                    getattr(curve, name)
        for name in REUSE_FIGURES if isinstance(found, ReuseErrors) else ():
            getattr(found, name)
        return found


def _received(what: str, choice: Settings, options: Any, sent: bytes | None) -> Request:
    """A computation as it arrives in another process, with proposals that are missing there."""
    session_proposals.receive(choice.problem, choice.variant, choice.revision, sent)
    return Request(what, choice, options)


# Those of a few sessions at a time.
@lru_cache(16)
def _stream(asked: Request) -> Stream[Any]:
    compute = getattr(computations_of(asked.settings.problem), asked.what)
    stream: Stream[Any] = compute(asked.settings, **dict(asked.options))
    return stream
