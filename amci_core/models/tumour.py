r"""How a tumour grows and shrinks under treatment: the equations, solved for many patients."""

from __future__ import annotations

__all__ = ["LARGEST", "sizes", "trajectory"]

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import DOP853, solve_ivp
from torch import Tensor

# The constants of eq. (cancer-ode); rates are per day.
LAMBDA = 0.1923
PHI = 5.85
PSI = 0.00873
K0 = 700.0

FIRST_DAY = 5.0
LAST_DAY = 100.0

# Initial sizes up to this one are solved.
LARGEST = 1e6

# Points solved together: enough to hide the cost of a call, few enough to stay in the cache.
CHUNK = 8192

# DOP853 is stable for steps up to about 6 / rate on the negative axis; this leaves a margin.
STABLE_STEP = 4.8

# Upper bounds of the initial sizes that share their steps up to the first day, and the numbers of
# steps between the two days. A point's class depends on the point alone.
SIZE_CLASSES = (*(1500.0 * 4.0**j for j in range(5)), LARGEST)
STEP_CLASSES = tuple(math.ceil(16 * 1.15**j) for j in range(40))


def sizes(c0: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor]:
    r"""Returns the tumour's log size after 5 and after 100 days of treatment.

    Solves dc/dt = -lambda c log(c / K) - epsilon c, dK/dt = phi c - psi K c^(2/3) from
    (c0, K0 = 700) with explicit Runge-Kutta steps of order 8 whose number depends on the point
    alone, not on the batch. The unknowns are p = c^(1/3) and K: then one logarithm is the only
    expensive operation, and the fast rate is psi c^(2/3), without the initial peak of phi c / K
    that the equations for log K have. Results carry no gradient.

    References:
        Hahnfeldt et al., Tumor development under angiogenic signaling, Cancer Research, 1999.
        Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, 1993 (DOP853).

    Arguments:
        c0: Initial sizes in (0, 10^6], float32 or float64, (*).
        epsilon: Responses to the treatment within [0, 1], per day; broadcasts with c0.

    Returns:
        log c5 and log c100, (*). Their error, and so the relative error of the sizes, is below
        1e-7 in float64 where c0 <= 1500, and a few rounding errors in float32.

    Raises:
        ValueError: c0 or epsilon is outside its range or not a number.
    """
    _check("c0", c0, (c0 > 0) & (c0 <= LARGEST), f"a size in (0, {LARGEST:g}]")
    _check("epsilon", epsilon, (epsilon >= 0) & (epsilon <= 1), "a rate in [0, 1]")
    c0, epsilon = torch.broadcast_tensors(c0.detach(), epsilon.detach())
    dtype = torch.promote_types(c0.dtype, epsilon.dtype)
    response = epsilon.reshape(-1).to(dtype)
    p = c0.reshape(-1).to(dtype).pow(1 / 3)
    state = torch.stack([p, torch.full_like(p, K0)])

    initial = c0.reshape(-1).contiguous()
    early = torch.bucketize(initial, initial.new_tensor(SIZE_CLASSES))
    _advance(state, response, early, [_early_widths(j) for j in range(len(SIZE_CLASSES))])
    log_c5 = 3 * state[0].log()

    # From the first day on the fast rate never exceeds the larger of its value then and the one
    # at the equilibrium, phi exp(-epsilon / lambda).
    rate = torch.maximum(PSI * state[0].square(), PHI * torch.exp(-response / LAMBDA))
    steps = rate * ((LAST_DAY - FIRST_DAY) / STABLE_STEP)
    late = torch.bucketize(steps, steps.new_tensor(STEP_CLASSES))
    _advance(state, response, late, [_late_widths(j) for j in range(len(STEP_CLASSES))])
    log_c100 = 3 * state[0].log()
    return log_c5.reshape(c0.shape), log_c100.reshape(c0.shape)


def _check(name: str, value: Tensor, allowed: Tensor, expected: str) -> None:
    if not allowed.all():
        raise ValueError(f"{name}: expected {expected}, got {value[~allowed][0].item():g}")


@cache
def _early_widths(index: int) -> tuple[float, ...]:
    # K first changes at the rate phi c0 / K0: the larger the tumour, the shorter the first steps.
    size = SIZE_CLASSES[index]
    grading = 2.5 + 0.5 * math.log(size / SIZE_CLASSES[0])
    rate = PSI * size ** (2 / 3)
    n = max(10 + 4 * index, math.ceil(FIRST_DAY * grading * 1.1 * rate / STABLE_STEP))
    edges = FIRST_DAY * np.expm1(grading * np.linspace(0, 1, n + 1)) / np.expm1(grading)
    return tuple(np.diff(edges).tolist())


@cache
def _late_widths(index: int) -> tuple[float, ...]:
    n = STEP_CLASSES[index]
    return ((LAST_DAY - FIRST_DAY) / n,) * n


def _advance(
    state: Tensor, epsilon: Tensor, classes: Tensor, widths: Sequence[tuple[float, ...]]
) -> None:
    """Moves the states (2, n) in place, each by the step widths of its class.

    Classes go from few steps to many. The points with the most steps come first, so that those
    still under way are always the first ones of a chunk.
    """
    for part in classes.argsort(descending=True).split(CHUNK):
        chunk, response, kinds = state[:, part], epsilon[part], classes[part]
        start = 0
        for index in kinds.unique().tolist():
            m = int((kinds >= index).sum())
            taken = [row[start : len(widths[index])] for row in widths[index:]]
            table = chunk.new_tensor(taken)
            chunk[:, :m] = _integrate(chunk[:, :m], response[:m], table[kinds[:m] - index])
            start = len(widths[index])
        state[:, part] = chunk


def _integrate(state: Tensor, epsilon: Tensor, widths: Tensor) -> Tensor:
    """The states (2, n) after steps of the widths (n, steps)."""
    n = state.shape[1]
    state = state.contiguous()
    stage, scratch = torch.empty_like(state), torch.empty_like(epsilon)
    slopes = state.new_empty(len(DOP853.B), 2, n)
    columns = slopes.view(len(DOP853.B), 2 * n).T
    # Views of the same memory, made once: with few points their making is half of the cost.
    before = [columns[:, :i] for i in range(len(DOP853.A))]
    rows = [state.new_tensor(row[:i].tolist()) for i, row in enumerate(DOP853.A)]
    weights = state.new_tensor(DOP853.B.tolist())
    flat_state, flat_stage = state.view(-1), stage.view(-1)
    of_state, of_stage = state.unbind(), stage.unbind()
    of_slopes = [slope.unbind() for slope in slopes]
    shrinkage = epsilon / 3
    for width in widths.T.contiguous():
        _slope(of_state, shrinkage, of_slopes[0], scratch)
        slopes[0].mul_(width)
        for i in range(1, len(rows)):
            torch.addmv(flat_state, before[i], rows[i], out=flat_stage)
            _slope(of_stage, shrinkage, of_slopes[i], scratch)
            slopes[i].mul_(width)
        flat_state.addmv_(columns, weights)
    return state


def _slope(
    state: tuple[Tensor, ...], shrinkage: Tensor, out: tuple[Tensor, ...], scratch: Tensor
) -> None:
    # p' = -p (lambda log(p^3 / K) + epsilon) / 3 and K' = phi p^3 - psi K p^2.
    p, K = state
    dp, dK = out
    torch.mul(p, p, out=scratch)
    torch.mul(scratch, p, out=dK)
    torch.div(dK, K, out=dp)
    dp.log_().mul_(-LAMBDA / 3).sub_(shrinkage).mul_(p)
    dK.mul_(PHI).addcmul_(scratch, K, value=-PSI)


def trajectory(c0: ArrayLike, epsilon: ArrayLike, days: ArrayLike) -> NDArray[np.float64]:
    """Returns the tumour's size on given days, to draw its course.

    Arguments:
        c0: Initial sizes in (0, 10^6], (*).
        epsilon: Responses to the treatment within [0, 1], per day; broadcasts with c0.
        days: Increasing days >= 0, (T).

    Returns:
        The sizes, (*, T), with a relative error below 1e-6.

    Raises:
        ValueError: an argument is outside its range or not a number.
    """
    start = torch.as_tensor(np.array(c0, np.float64))
    response = torch.as_tensor(np.array(epsilon, np.float64))
    _check("c0", start, (start > 0) & (start <= LARGEST), f"a size in (0, {LARGEST:g}]")
    _check("epsilon", response, (response >= 0) & (response <= 1), "a rate in [0, 1]")
    times = np.asarray(days, np.float64)
    ordered = times.ndim == 1 and times.size > 0 and bool((np.diff(times) > 0).all())
    if not ordered or times[0] < 0 or not math.isfinite(times[-1]):
        raise ValueError(f"days: expected increasing numbers >= 0, got {days!r}")
    c, rate = np.broadcast_arrays(start.numpy(), response.numpy())
    u, eps = np.log(c.ravel()), rate.ravel()

    def slope(_: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        u, v = state.reshape(2, -1)
        growth = -LAMBDA * (u - v) - eps
        return np.concatenate([growth, PHI * np.exp(u - v) - PSI * np.exp(2 * u / 3)])

    state = np.concatenate([u, np.full_like(u, math.log(K0))])
    # A last day of 0 would leave nothing to solve.
    span = (0.0, max(float(times[-1]), 1e-3))
    result = solve_ivp(slope, span, state, "DOP853", t_eval=times, rtol=1e-10, atol=1e-10)
    return np.exp(result.y[: len(u)]).reshape(*c.shape, len(times))
