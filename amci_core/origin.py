r"""What numbers come from: a problem, proposals with hashes of their weights, and versions."""

from __future__ import annotations

__all__ = ["command", "digest", "origin"]

import hashlib
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from amci_core.flows import Proposals
from amci_core.models import Problem

PACKAGES = ("numpy", "scipy", "torch", "normflows")


def command() -> str:
    """The command that this process was started with."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def origin(problem: Problem, proposals: Proposals) -> dict[str, Any]:
    """What numbers come from: problem, proposals with hashes of their weights, and versions."""
    import amci_core

    own = {"amci-explorer": amci_core.__version__}
    return {
        "problem": problem.name,
        "variant": proposals.variant,
        "weights": _hashes(proposals),
        "versions": own | {name: version(name) for name in PACKAGES},
    }


def _hashes(proposals: Proposals) -> dict[str, str]:
    """SHA-256 of the stored weights, or of those in memory where they come from no file."""
    card = proposals.card.get("configuration", {})
    # A moment of a training has the card of its end.
    stored = card.get("proposals", {}) if card.get("variant") == proposals.variant else {}
    found = {}
    for name in ("q1_plus", "q1_minus", "q2"):
        q = getattr(proposals, name)
        if name in stored:
            found[name] = str(stored[name]["sha256"])
        elif isinstance(q, nn.Module):
            found[name] = digest(*(t.detach().numpy() for t in q.state_dict().values()))
        elif q is not None:
            found[name] = type(q).__name__
    return found


def digest(*arrays: Any) -> str:
    """SHA-256 of the bytes of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
