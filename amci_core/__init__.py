r"""Amortized Monte Carlo integration: E[f(x; theta)] under p(x | y), for every y and theta.

Names are imported at their first use, so that `import amci_core` and `amci --help` do not wait
for PyTorch.

Example:
    >>> import amci_core as amci
    >>> problem = amci.problem("tail-1d")
    >>> proposals = amci.load_proposals("tail-1d", variant="oracle")
    >>> e = amci.estimate(problem, proposals, y=1.0, theta=3.0, draws=64, seed=0)
    >>> round(float(e.value / problem.truth(1.0, 3.0)), 9)
    1.0
"""

from __future__ import annotations

__all__ = [
    "__version__",
    "amortization_map",
    "error_curves",
    "estimate",
    "estimate_terms",
    "estimate_to",
    "evaluate",
    "load_proposals",
    "load_snapshots",
    "pilot_moments",
    "problem",
    "problems",
    "reuse_errors",
    "save_proposals",
    "split_budget",
    "stream_amortization_map",
    "stream_error_curves",
    "stream_reuse_errors",
    "tables",
]

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amci_core.estimators import split_budget, tables
    from amci_core.evaluation import (
        amortization_map,
        error_curves,
        estimate,
        estimate_terms,
        estimate_to,
        evaluate,
        pilot_moments,
        reuse_errors,
        stream_amortization_map,
        stream_error_curves,
        stream_reuse_errors,
    )
    from amci_core.models import problem, problems
    from amci_core.pretrained import load_proposals, load_snapshots, save_proposals

__version__ = "0.1.0"

_HOMES = {
    "amortization_map": "evaluation",
    "error_curves": "evaluation",
    "estimate": "evaluation",
    "estimate_terms": "evaluation",
    "estimate_to": "evaluation",
    "evaluate": "evaluation",
    "load_proposals": "pretrained",
    "load_snapshots": "pretrained",
    "pilot_moments": "evaluation",
    "problem": "models",
    "problems": "models",
    "reuse_errors": "evaluation",
    "save_proposals": "pretrained",
    "split_budget": "estimators",
    "stream_amortization_map": "evaluation",
    "stream_error_curves": "evaluation",
    "stream_reuse_errors": "evaluation",
    "tables": "estimators",
}
_MODULES = (
    "diagnostics",
    "estimators",
    "evaluation",
    "flows",
    "models",
    "pretrained",
    "terms",
    "training",
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
