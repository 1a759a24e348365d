r"""What a long check of proposals after their training says of cases near those it looked at."""

from __future__ import annotations

__all__ = ["evidence"]

from collections.abc import Mapping
from typing import Any

import numpy as np

from amci_core.diagnostics.verdict import EXACT, INEXACT, UNKNOWN, Evidence
from amci_core.estimators.draws import Array

# Relative ESS of every term, in the long check, of proposals of which few draws can say enough.
ALL_BUT_EXACT = 0.8


def evidence(check: Mapping[str, Any], y: Array, theta: Array | None) -> Evidence:
    """What the check says of estimates at y and theta.

    A case takes over what was measured at the checked case that is nearest in y and theta, each
    coordinate in units of its spread over the checked ones. Beyond the checked cases, by more than
    one spread in any coordinate, the check does not answer.

    Arguments:
        check: What `amci_core.training.quality.long_check` returned.
        y: (*, D_y), no columns where there is no y.
        theta: (*, D_theta), or None.
    """
    cases = check["cases"]
    there = np.array([[*(case["y"] or []), *(case["theta"] or [])] for case in cases], float)
    here = y if theta is None else np.concatenate([y, theta], -1)
    scale = np.maximum(there.std(0), 1e-12)
    nearest = np.square((here[..., None, :] - there) / scale).sum(-1).argmin(-1)
    exact = [case["share"] > ALL_BUT_EXACT and case["missed"] == 0 for case in cases]
    within = (here >= there.min(0) - scale) & (here <= there.max(0) + scale)
    answered = np.where(np.array(exact)[nearest, None], EXACT, INEXACT)
    asked = np.where(within.all(-1)[..., None], answered, UNKNOWN)
    return Evidence(asked[..., 0], asked[..., 1])
