r"""What a long check of proposals says of cases near those that it looked at."""

from __future__ import annotations

__all__ = ["caution"]

from collections.abc import Mapping
from typing import Any

import numpy as np

from amci_core.diagnostics.verdict import LEVELS, Finding
from amci_core.estimators.draws import Array


def caution(check: Mapping[str, Any], y: Array, theta: Array | None) -> list[Finding]:
    """Findings against estimates near checked cases that were not good: one for each level.

    A case takes over what was found at the checked case that is nearest in y and theta, each
    coordinate in units of its spread over the checked ones.

    Arguments:
        check: What `amci_core.training.verdict.checked` found.
        y: (*, D_y), no columns where there is no y.
        theta: (*, D_theta), or None.
    """
    cases = check["cases"]
    there = np.array([[*(case["y"] or []), *(case["theta"] or [])] for case in cases], float)
    here = y if theta is None else np.concatenate([y, theta], -1)
    scale = np.maximum(there.std(0), 1e-12)
    gaps = (here[..., None, :] - there) / scale
    nearest = np.square(gaps).sum(-1).argmin(-1)
    found = np.array([case["level"] for case in cases])[nearest]
    return [
        Finding(
            level,
            found == level,
            "q1: not reliable near here when checked after training with {draws:,.0f} draws; at "
            "the nearest case, ESS was {worth:.3g} of 1,000 draws and {missed:.1%} was missed",
            {
                "draws": np.full(found.shape, float(check["draws"])),
                "worth": np.array([1000 * case["share"] for case in cases])[nearest],
                "missed": np.array([case["missed"] for case in cases])[nearest],
            },
        )
        for level in range(1, len(LEVELS))
    ]
