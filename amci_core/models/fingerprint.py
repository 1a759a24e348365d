r"""Fingerprints: a problem is identified by the values of its densities and of f at fixed points.

A name may be used twice, and a source changes with every comment and every version of Python.
Values stay: a model that is defined again, in another process, on another machine, in other words
or under another name, has the same fingerprint. Another likelihood, f, prior or constant within
them gives another one.
"""

from __future__ import annotations

__all__ = ["Fingerprint", "signature", "unlike"]

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

if TYPE_CHECKING:
    from amci_core.models.base import Problem, Variable

# For each function a number for each of `SPREADS`, or the name of what it raised.
Fingerprint = dict[str, list[float | str]]
# Points for each spread: how far they reach, in widths of the middle 80 % of draws.
POINTS, SPREADS = 1024, (1.0, 4.0, 16.0)
DRAWS = 1024
# Of these, on the diagonal and off it, those for densities: they may be costly, and are smooth.
FEW = slice(384, 640)


def fingerprint_of(problem: Problem) -> Fingerprint:
    """A problem's f at 3,072 points, its log prior, likelihood and defensive density at 768.

    Half of the points have x on a diagonal, which reaches an f that needs all coordinates to be
    large. Smaller changes have no effect: of the seventh digit of a density, of a threshold of f
    by less than a hundredth of the prior's standard deviation, or a tenth far out. Two f that are
    zero at all points, as on tiny sets in many dimensions, look the same.
    """
    generator = torch.Generator().manual_seed(0)
    x = problem.sample_prior(DRAWS, generator)
    y, theta = problem.sample_likelihood(x, generator), problem.sample_theta(DRAWS, generator)
    variables = problem.x, problem.y, problem.theta
    draws = [x, y, x[:, :0] if theta is None else theta]
    sizes = [drawn.shape[1] for drawn in draws]
    uniform = SobolEngine(sum(sizes)).draw(POINTS, dtype=torch.float64)
    uniform[: POINTS // 2, : sizes[0]] = uniform[: POINTS // 2, :1]
    parts = uniform.split(sizes, 1)
    found: Fingerprint = {}
    for spread in SPREADS:
        x, y, theta = (_spread(*of, spread) for of in zip(variables, draws, parts, strict=True))
        theta, few = (None, None) if problem.theta is None else (theta, theta[FEW])
        calls: dict[str, Any] = {
            **{"f": (x, theta), "log_prior": (x[FEW],), "log_likelihood": (x[FEW], y[FEW])},
            "log_defensive": (x[FEW, None], y[FEW], few),
        }
        for name, arguments in calls.items():
            try:
                with torch.no_grad():
                    value: float | str = signature(getattr(problem, name)(*arguments))
            except Exception as error:  # a user's function, far out
                value = type(error).__name__
            found.setdefault(name, []).append(value)
    return found


def unlike(problem: Problem, name: str, known: Fingerprint | None, *parts: str) -> str:
    """Another problem of that name and fingerprint, for a message; empty if it is this one.

    Arguments:
        problem: This one.
        name: The name of the other, which decides if there is no fingerprint.
        known: Its fingerprint, or None.
        parts: The functions that have to be equal; all by default.
    """
    if known is None:
        return "" if name == problem.name or parts else name
    own = problem.fingerprint
    differ = [part for part in parts or own if known.get(part) != own[part]]
    return f"{name} with another {', '.join(differ)}" if differ else ""


def signature(values: Tensor) -> float:
    """Values of any shape as one number of six digits, on which rounding has no effect."""
    logs = np.arcsinh(values.double().numpy().ravel())
    weights = np.random.default_rng(0).uniform(0.5, 1.5, logs.size)
    return float(f"{weights @ np.nan_to_num(logs, nan=99.0, posinf=50.0, neginf=-50.0):.6g}")


def _spread(variable: Variable | None, draws: Tensor, uniform: Tensor, spread: float) -> Any:
    """Points about the middle of draws (n, D), the same on every machine; none beyond the ends."""
    if variable is None:
        return uniform
    low, centre, high = np.quantile(draws.double().numpy(), [0.1, 0.5, 0.9], axis=0)
    # Draws differ by rounding between machines; these are of a few bits.
    unit = np.ldexp(1.0, np.frexp(high - low)[1] - 3)
    centre, width = (np.rint(v / unit) * unit for v in (centre, high - low + unit))
    near, far = (centre + s * width * (uniform.numpy() - 0.5) for s in (1.0, spread))
    low, high = variable.ends
    return variable.nearest(torch.from_numpy(np.where((low <= far) & (far <= high), far, near)))
