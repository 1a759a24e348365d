r"""One term of an estimate, by whichever method: importance sampling, annealing, nested sampling.

A term is the integral of an unnormalised density such as f_plus(x; theta) p(x, y). A method is
anything that is called with the integrand, a density to start from and a seed, and returns (log
value, standard error, draws used): one of `METHODS`, or a function of the user's.
"""

from __future__ import annotations

__all__ = [
    "METHODS",
    "Annealed",
    "Density",
    "Importance",
    "Integrand",
    "Nested",
    "TermEstimate",
    "TermMethod",
    "method",
]

from typing import Any

from amci_core.terms.annealed import Annealed
from amci_core.terms.base import Density, Integrand, TermEstimate, TermMethod
from amci_core.terms.importance import Importance
from amci_core.terms.nested import Nested

METHODS: dict[str, TermMethod] = {
    "importance": Importance(),
    "annealed": Annealed(),
    "nested": Nested(),
}


def method(chosen: Any) -> TermMethod:
    """The method of that name, or the one given.

    Raises:
        ValueError: no method has that name, or it cannot be called.
    """
    if callable(chosen):
        return chosen
    if not isinstance(chosen, str) or chosen not in METHODS:
        raise ValueError(
            f"method: expected a callable or one of {', '.join(METHODS)}, got {chosen!r}"
        )
    return METHODS[chosen]
