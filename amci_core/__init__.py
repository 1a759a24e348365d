r"""Amortized Monte Carlo integration: E[f(x; theta)] under p(x | y), for every y and theta.

Names are imported at their first use, so that `import amci_core` and `amci --help` do not wait
for PyTorch.

Example:
    >>> import amci_core as amci
    >>> e = amci.estimate("tail-1d", y=1.0, theta=3.0, draws=128)
    >>> truth = amci.problem("tail-1d").truth(1.0, 3.0)
    >>> bool(abs(e.value / truth - 1) < 1e-3), str(e.verdict.level)
    (True, 'reliable')
"""

from __future__ import annotations

__all__ = [
    "__version__",
    "amortization_map",
    "check",
    "diagnose",
    "error_curves",
    "estimate",
    "estimate_several",
    "estimate_to",
    "evaluate",
    "learn",
    "load_history",
    "load_problem",
    "load_proposals",
    "model",
    "problem",
    "problems",
    "reference_value",
    "reuse_errors",
    "save_proposals",
    "several",
    "stream_amortization_map",
    "stream_error_curves",
    "stream_reuse_errors",
    "tables",
    "with_target",
]

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amci_core.amortization import amortization_map, stream_amortization_map
    from amci_core.checking import check
    from amci_core.estimation import (
        diagnose,
        estimate,
        estimate_several,
        estimate_to,
    )
    from amci_core.estimators import tables
    from amci_core.evaluation import (
        error_curves,
        evaluate,
        reuse_errors,
        stream_error_curves,
        stream_reuse_errors,
    )
    from amci_core.models import load_problem, model, problem, problems, several
    from amci_core.proposals import load_history, load_proposals, save_proposals
    from amci_core.reference import reference_value
    from amci_core.target import with_target
    from amci_core.training.learn import learn

__version__ = "0.2.0"

_HOMES = {
    "amortization": ("amortization_map", "stream_amortization_map"),
    "checking": ("check",),
    "evaluation": (
        "error_curves",
        "evaluate",
        "reuse_errors",
        "stream_error_curves",
        "stream_reuse_errors",
    ),
    "estimation": ("diagnose", "estimate", "estimate_several", "estimate_to"),
    "estimators": ("tables",),
    "models": ("load_problem", "model", "problem", "problems", "several"),
    "proposals": ("load_proposals", "load_history", "save_proposals"),
    "target": ("with_target",),
    "reference": ("reference_value",),
    "training": ("learn",),
}
_MODULES = (*_HOMES, "diagnostics", "flows")


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
