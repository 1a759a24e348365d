"""Problems that keep what they know of the truth to themselves, as most of one's own do."""

import copy

from amci_core.models import Problem, problem

KNOWLEDGE = ("_log_truth", "_log_mean_absolute_deviation", "_mismatch", "_path")


def hidden(name: str) -> Problem:
    """The problem of that name, without its truth, bound and mismatch."""
    known = copy.copy(problem(name))
    forgotten = {method: getattr(Problem, method) for method in KNOWLEDGE}
    known.__class__ = type("Hidden", (type(known),), forgotten)
    return known
