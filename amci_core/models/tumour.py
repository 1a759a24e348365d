r"""How a tumour grows and shrinks under treatment: the equations, solved for many patients."""

from __future__ import annotations

__all__ = ["LARGEST", "TABLE_ENDS", "sizes", "solve", "trajectory"]

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebpts1, chebvander
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

# Points solved at once: enough to hide the cost of a call, few enough to stay in the cache.
CHUNK = 8192

# DOP853 is stable for steps up to about 6 / rate on the negative axis; this leaves a margin.
STABLE_STEP = 4.8
# Upper bounds of the initial sizes that share their steps up to the first day, and the numbers of
# steps between the two days. A point's class depends on the point alone.
SIZE_CLASSES = (*(1500.0 * 4.0**j for j in range(5)), LARGEST)
STEP_CLASSES = tuple(math.ceil(16 * 1.15**j) for j in range(40))

# Initial sizes that the table covers, and its coordinate: atan((log c0 - CENTRE) / WIDTH), which
# spends its resolution where growth changes to decline. The table is a polynomial of degree below
# DEGREE in it and in epsilon, where log c5 needs no more than FIRST_DEGREE.
TABLE_ENDS = (1e-6, 1e4)
CENTRE, WIDTH = 6.0, 7.0
LOW, HIGH = (math.atan((math.log(end) - CENTRE) / WIDTH) for end in TABLE_ENDS)
DEGREE, FIRST_DEGREE = 32, 12

# Points looked up at once: few enough to stay in the cache.
LOOKED_UP = 2048

# At rest both sides of eq. (cancer-ode) are zero, and log c = LOG_REST - REST_RATE epsilon.
LOG_REST = 1.5 * math.log(PHI / PSI)
REST_RATE = 1.5 / LAMBDA


def sizes(c0: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor]:
    r"""Returns the tumour's log size after 5 and after 100 days of treatment, from a table.

    The table holds the Chebyshev coefficients, in both variables, of log c5, and of log c100 less
    the log size at rest. `solve` makes it when it is first needed, in less than a second, and
    serves initial sizes outside of `TABLE_ENDS`. Results carry no gradient.

    References:
        Trefethen, Approximation Theory and Approximation Practice, 2013 (chapters 3 and 4).

    Arguments:
        c0: Initial sizes in (0, 10^6], float32 or float64, (*).
        epsilon: Responses to the treatment within [0, 1], per day; broadcasts with c0.

    Returns:
        log c5 and log c100, (*). Their error, and so the relative error of the sizes, is below
        1e-8 in float64 within `TABLE_ENDS`, and a few rounding errors in float32.

    Raises:
        ValueError: c0 or epsilon is outside its range or not a number.
    """
    c0, epsilon = _checked(c0, epsilon)
    # The shape (2, n), for log c5 and log c100.
    size, response = c0.reshape(-1), epsilon.reshape(-1)
    beyond = (size < TABLE_ENDS[0]) | (size > TABLE_ENDS[1])
    place = (2 * torch.atan((size.log() - CENTRE) / WIDTH) - (LOW + HIGH)) / (HIGH - LOW)
    # Rounding may leave the ends just outside of [-1, 1].
    where = torch.stack([place, 2 * response - 1]).clamp_(-1, 1)
    table = _coefficients().to(where)
    found = torch.cat([_look_up(table, part) for part in where.split(LOOKED_UP, 1)], 1)
    found[1] += LOG_REST - REST_RATE * response
    if beyond.any():
        found[:, beyond] = torch.stack(solve(size[beyond], response[beyond]))
    log_c5, log_c100 = found.view(2, *c0.shape)
    return log_c5, log_c100


def _look_up(table: Tensor, where: Tensor) -> Tensor:
    """The sums of two Chebyshev series, (2, n), at coordinates (2, n) within [-1, 1]."""
    # T[k] is the polynomial of degree k; T_{m + j} = 2 T_m T_j - T_{m - j} doubles their number.
    T = where.new_empty(DEGREE, *where.shape)
    T[0], T[1] = 1, where
    m = 1
    while (n := min(m, DEGREE - 1 - m)) > 0:
        following = torch.mul(T[1 : n + 1], 2 * T[m], out=T[m + 1 : m + n + 1])
        following -= T[m - n : m].flip(0)
        m += n
    of_size, of_response = T.unbind(1)
    first, last = (table @ of_size).split([FIRST_DEGREE, DEGREE])
    first *= of_response[:FIRST_DEGREE]
    last *= of_response
    return torch.stack([first.sum(0), last.sum(0)])


@cache
def _coefficients() -> Tensor:
    """The table: rows by degree in epsilon, first of log c5; columns by degree in c0."""
    nodes = chebpts1(DEGREE)
    log_c0 = CENTRE + WIDTH * np.tan((LOW + HIGH + (HIGH - LOW) * nodes) / 2)
    # Not in inference mode, whose tensors are of no use elsewhere.
    with torch.inference_mode(False):
        response = torch.from_numpy((nodes + 1) / 2)
        log_c5, log_c100 = solve(torch.from_numpy(np.exp(log_c0)), response[:, None], refinement=2)
        log_c100 -= LOG_REST - REST_RATE * response[:, None]
        # The discrete orthogonality of the polynomials at these nodes.
        transform = torch.from_numpy(chebvander(nodes, DEGREE - 1).T) * (2 / DEGREE)
        transform[0] /= 2
        first, last = transform @ log_c5 @ transform.T, transform @ log_c100 @ transform.T
        return torch.cat([first[:FIRST_DEGREE], last])


def _checked(c0: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor]:
    """Both of one shape and type, without gradients."""
    _check("c0", c0, (c0 > 0) & (c0 <= LARGEST), f"a size in (0, {LARGEST:g}]")
    _check("epsilon", epsilon, (epsilon >= 0) & (epsilon <= 1), "a rate in [0, 1]")
    dtype = torch.promote_types(c0.dtype, epsilon.dtype)
    c0, epsilon = torch.broadcast_tensors(c0.detach().to(dtype), epsilon.detach().to(dtype))
    return c0, epsilon


def solve(c0: Tensor, epsilon: Tensor, *, refinement: int = 1) -> tuple[Tensor, Tensor]:
    r"""Returns what `sizes` does, by solving the equations at each point.

    Solves dc/dt = -lambda c log(c / K) - epsilon c, dK/dt = phi c - psi K c^(2/3) from
    (c0, K0 = 700) with explicit Runge-Kutta steps of order 8 whose number depends on the point
    alone, not on the batch. The unknowns are p = c^(1/3) and K: then one logarithm is the only
    expensive operation, and the fast rate is psi c^(2/3), without the initial peak of phi c / K
    that the equations for log K have.

    References:
        Hahnfeldt et al., Tumor development under angiogenic signaling, Cancer Research, 1999.
        Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, 1993 (DOP853).

    Arguments:
        c0: Initial sizes in (0, 10^6], float32 or float64, (*).
        epsilon: Responses to the treatment within [0, 1], per day; broadcasts with c0.
        refinement: How many times more steps to take than usual; the error falls with their
            number to the power of 8.

    Returns:
        log c5 and log c100, (*). Their error, and so the relative error of the sizes, is below
        1e-7 in float64 where c0 <= 1500, and a few rounding errors in float32.

    Raises:
        ValueError: c0 or epsilon is outside its range or not a number.
    """
    c0, epsilon = _checked(c0, epsilon)
    response, initial = epsilon.reshape(-1), c0.reshape(-1).contiguous()
    p = initial.pow(1 / 3)
    state = torch.stack([p, torch.full_like(p, K0)])

    early = torch.bucketize(initial, initial.new_tensor(SIZE_CLASSES))
    _advance(state, response, early, _early_widths(refinement))
    log_c5 = 3 * state[0].log()

    # From the first day on the fast rate never exceeds the larger of its value then and the one
    # at the equilibrium, phi exp(-epsilon / lambda).
    rate = torch.maximum(PSI * state[0].square(), PHI * torch.exp(-response / LAMBDA))
    steps = rate * ((LAST_DAY - FIRST_DAY) / STABLE_STEP)
    late = torch.bucketize(steps, steps.new_tensor(STEP_CLASSES))
    _advance(state, response, late, _late_widths(refinement))
    log_c100 = 3 * state[0].log()
    return log_c5.reshape(c0.shape), log_c100.reshape(c0.shape)


def _check(name: str, value: Tensor, allowed: Tensor, expected: str) -> None:
    if not allowed.all():
        raise ValueError(f"{name}: expected {expected}, got {value[~allowed][0].item():g}")


@cache
def _early_widths(refinement: int) -> list[tuple[float, ...]]:
    widths = []
    for index, size in enumerate(SIZE_CLASSES):
        # K first changes at the rate phi c0 / K0: shorter first steps for a larger tumour.
        grading = 2.5 + 0.5 * math.log(size / SIZE_CLASSES[0])
        rate = PSI * size ** (2 / 3)
        n = max(10 + 4 * index, math.ceil(FIRST_DAY * grading * 1.1 * rate / STABLE_STEP))
        share = np.linspace(0, 1, n * refinement + 1)
        edges = FIRST_DAY * np.expm1(grading * share) / np.expm1(grading)
        widths.append(tuple(np.diff(edges).tolist()))
    return widths


@cache
def _late_widths(refinement: int) -> list[tuple[float, ...]]:
    days = LAST_DAY - FIRST_DAY
    return [(days / (n * refinement),) * (n * refinement) for n in STEP_CLASSES]


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
    return np.asarray(np.exp(result.y[: len(u)]).reshape(*c.shape, len(times)))
