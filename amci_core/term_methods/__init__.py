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
    "ReferenceValue",
    "TermEstimate",
    "TermMethod",
    "TermsEstimate",
    "estimate_terms",
    "method",
    "reference",
]

from amci_core.flows.density import Density
from amci_core.term_methods.annealed import Annealed
from amci_core.term_methods.base import Importance, Integrand, TermEstimate, TermMethod
from amci_core.term_methods.mu import METHODS, TermsEstimate, estimate_terms, method
from amci_core.term_methods.nested import Nested
from amci_core.term_methods.reference import ReferenceValue, reference
