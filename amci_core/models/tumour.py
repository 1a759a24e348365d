r"""How a tumour grows and shrinks under treatment: the equations, solved for many patients."""

from __future__ import annotations

__all__ = ["sizes", "trajectory"]

import math
from functools import cache

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebpts1, chebvander
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from torch import Tensor

# The constants of eq. (cancer-ode); rates are per day.
LAMBDA = 0.1923
PHI = 5.85
PSI = 0.00873
K0 = 700.0

# When the tumour is measured again, and when it should be small.
DAYS = np.array([5.0, 100.0])

# Tolerances of a step for sizes and for trajectories.
FINE, COARSE = 1e-12, 1e-10

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
    the log size at rest, and is made when it is first needed, in less than a second. Initial sizes
    outside of `TABLE_ENDS` are moved to its ends. Results carry no gradient.

    References:
        Trefethen, Approximation Theory and Approximation Practice, 2013 (chapters 3 and 4).

    Arguments:
        c0: Initial sizes above 0, float32 or float64, (*).
        epsilon: Responses to the treatment within [0, 1], per day; broadcasts with c0.

    Returns:
        log c5 and log c100, (*). Their error, and so the relative error of the sizes, is below
        1e-8 in float64, and a few rounding errors in float32.
    """
    c0, epsilon = torch.broadcast_tensors(c0.detach(), epsilon.detach())
    # The shape (2, n), for log c5 and log c100.
    size, response = c0.reshape(-1), epsilon.reshape(-1)
    place = (2 * torch.atan((size.log() - CENTRE) / WIDTH) - (LOW + HIGH)) / (HIGH - LOW)
    where = torch.stack([place, 2 * response - 1]).clamp_(-1, 1)
    table = _coefficients().to(where)
    log_sizes = torch.cat([_look_up(table, part) for part in where.split(LOOKED_UP, 1)], 1)
    log_sizes[1] += LOG_REST - REST_RATE * response
    log_c5, log_c100 = log_sizes.view(2, *c0.shape)
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
    response = (nodes[:, None] + 1) / 2
    log_c5, log_c100 = np.moveaxis(_log_sizes(np.exp(log_c0), response, DAYS), -1, 0)
    # The discrete orthogonality of the polynomials at these nodes.
    transform = chebvander(nodes, DEGREE - 1).T * (2 / DEGREE)
    transform[0] /= 2
    first = transform[:FIRST_DEGREE] @ log_c5 @ transform.T
    last = transform @ (log_c100 - LOG_REST + REST_RATE * response) @ transform.T
    # Not in inference mode, whose tensors are of no use elsewhere.
    with torch.inference_mode(False):
        return torch.from_numpy(np.concatenate([first, last]))


def _log_sizes(
    c0: NDArray[np.float64],
    epsilon: NDArray[np.float64],
    days: NDArray[np.float64],
    tolerance: float = FINE,
) -> NDArray[np.float64]:
    """log c on increasing days (T) from initial sizes and responses (*), by DOP853: (*, T).

    Solves dc/dt = -lambda c log(c / K) - epsilon c, dK/dt = phi c - psi K c^(2/3) from
    (c0, K0 = 700) in u = log c and v = log K.

    References:
        Hahnfeldt et al., Tumor development under angiogenic signaling, Cancer Research, 1999.
        Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, 1993 (DOP853).
    """
    c0, epsilon = np.broadcast_arrays(c0, epsilon)

    def slope(_: float, state: NDArray[np.float64]) -> NDArray[np.float64]:
        u, v = state.reshape(2, -1)
        growth = u - v
        change = PHI * np.exp(growth) - PSI * np.exp(2 * u / 3)
        return np.concatenate([-LAMBDA * growth - epsilon.ravel(), change])

    state = np.concatenate([np.log(c0.ravel()), np.full(c0.size, math.log(K0))])
    # A last day of 0 would leave nothing to solve.
    span = (0.0, max(float(days[-1]), 1e-3))
    solution = solve_ivp(slope, span, state, "DOP853", days, rtol=tolerance, atol=tolerance)
    return np.asarray(solution.y[: c0.size]).reshape(*c0.shape, len(days))


def trajectory(c0: ArrayLike, epsilon: ArrayLike, days: ArrayLike) -> NDArray[np.float64]:
    """Returns the tumour's size on given days.

    Arguments:
        c0: Initial sizes above 0, (*).
        epsilon: Responses to the treatment within [0, 1], per day; broadcasts with c0.
        days: Increasing days >= 0, (T).

    Returns:
        The sizes, (*, T), with a relative error below 1e-6.
    """
    start, response, times = (np.asarray(value, np.float64) for value in (c0, epsilon, days))
    return np.exp(_log_sizes(start, response, times, COARSE))
