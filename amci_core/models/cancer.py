r"""Planning a cancer treatment (section 5.2 of the paper): how likely is it to succeed?"""

from __future__ import annotations

__all__ = ["TumourTreatment", "sizes", "trajectory"]

import math
from collections.abc import Mapping
from functools import cache, lru_cache

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebpts1, chebvander
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp
from scipy.special import betaincinv, betaln, gammaincinv, gammaln
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import Transform

from amci_core.models.base import Array, Problem, Variable, gauss_legendre

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


# c0 ~ Gamma(25, scale 20), epsilon ~ Beta(5, 10); a measurement has standard deviation 100.
C0_SHAPE, C0_SCALE = 25.0, 20.0
EPSILON_A, EPSILON_B = 5.0, 10.0
NOISE = 100.0

LOG_PRIOR_CONSTANT = float(
    -gammaln(C0_SHAPE) - C0_SHAPE * math.log(C0_SCALE) - betaln(EPSILON_A, EPSILON_B)
)
# The typical range of a measurement.
TYPICAL = (50.0, 1500.0)

# The loss of the paper: half success at 300, from nearly 1 to nearly 0 within a few times 150.
HALF_SUCCESS, SOFTNESS, LEAST = 300.0, 150.0, 1e-8

# The quadrature for the truth: panels of initial sizes, and nodes in a panel and in epsilon. A
# first measurement of 5000 is best explained by a c0 near 40, whose measurements vary widely.
PANEL_EDGES = np.array([0.0, 50, 100, 200, 400, 700, 1000, 1500, 2000, 3000, 4000])
PANEL_NODES, EPSILON_NODES = 20, 192
# Cases done together: more of them leave the cache.
TRUTH_CHUNK = 4
# Second measurements among which the mismatch control's path looks for its end.
PATH_ENDS, PATH_NODES = (200.0, 1500.0), 27

# The response's coordinate: the unit of sizes, and the size beyond which f is below 1e-3 and sizes
# count by their logarithm; then the log-odds that its inverse starts from.
UNIT, LINEAR_UP_TO = SOFTNESS / 2, 3 * HALF_SUCCESS
LOG_ODDS_ENDS, NEWTON_STEPS = (-40.0, 40.0), 4


class Response(Transform):
    r"""Takes the real line to the open unit interval by u = logit(epsilon) - h(v(epsilon)).

    v is the size at which the tumour comes to rest, h(v) = v / 75 up to v = 900 and logarithmic
    beyond. After 100 days the tumour is nearly at rest, so that log f is about linear in u where f
    falls: the tail of a logistic density. In logit(epsilon) it falls like a double exponential,
    which takes many knots of a spline.
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __init__(self) -> None:
        super().__init__()
        logit = torch.linspace(*LOG_ODDS_ENDS, 4097, dtype=torch.float64)
        self._logit, self._unconstrained = logit, self._to_unconstrained(logit)[0]

    @staticmethod
    def _to_unconstrained(logit: Tensor) -> tuple[Tensor, Tensor]:
        """u, and du / dlogit, from the log-odds of epsilon."""
        epsilon = torch.sigmoid(logit)
        rest = torch.exp(LOG_REST - REST_RATE * epsilon)
        far = rest > LINEAR_UP_TO
        beyond = LINEAR_UP_TO * (1 + (rest / LINEAR_UP_TO).log())
        height = torch.where(far, beyond, rest) / UNIT
        slope = torch.where(far, LINEAR_UP_TO, rest) / UNIT * REST_RATE
        return logit - height, 1 + slope * epsilon * torch.sigmoid(-logit)

    def _call(self, x: Tensor) -> Tensor:
        grid, table = self._logit.to(x), self._unconstrained.to(x)
        right = torch.searchsorted(table, x.contiguous()).clamp(1, len(table) - 1)
        fraction = (x - table[right - 1]) / (table[right] - table[right - 1])
        logit = torch.lerp(grid[right - 1], grid[right], fraction)
        for _ in range(NEWTON_STEPS):
            u, slope = self._to_unconstrained(logit)
            logit = logit - (u - x) / slope
        eps = torch.finfo(x.dtype).eps
        return torch.sigmoid(logit).clamp(eps, 1 - eps)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._to_unconstrained(y.log() - torch.log1p(-y))[0]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        log_y, log_rest = y.log(), torch.log1p(-y)
        return log_y + log_rest - self._to_unconstrained(log_y - log_rest)[1].log()


class TumourTreatment(Problem):
    r"""The probability that a treatment succeeds, given two measurements of a tumour.

    x = (c0, epsilon): the size at admission, c0 ~ Gamma(25, scale 20), and the response to the
    treatment, epsilon ~ Beta(5, 10). The tumour equations lead from x to the sizes c5 and c100
    after 5 and 100 days. y = (c0', c5') are measured with c_t' ~ Gamma(k = c_t^2 / 10000, rate
    c_t / 10000), so that they have mean c_t and standard deviation 100, and f = l(c100) with

        l(c) = (1 - 2e-8) / 2 (tanh(-(c - 300) / 150) + 1) + 1e-8.

    The paper calls l a loss; it is near 1 for a small tumour. There is no theta. The truth comes
    from a quadrature over x, whose nodes need the equations only once for all y: mu to 1e-6 or
    better, E|f - mu|, which has a kink, to half a per cent.

    References:
        Golinski, Wood, Rainforth, Amortized Monte Carlo Integration, 2019, eq. (cancer-ode).
    """

    nonnegative = True
    f_range = (0.0, 1.0)
    coordinate_transforms: Mapping[str, Transform] = {"response": Response()}

    name = "cancer"
    title = "Planning a cancer treatment"
    description = (
        "A tumour is measured at admission and again after five days of treatment.\n"
        "How likely is it that the treatment has made it small after 100 days?"
    )
    formula = (
        r"\mu(y)=\mathbb{E}\!\left[\ell(c_{100})\mid c_0',c_5'\right],\quad "
        r"\ell(c)\approx\tfrac12\!\left(1-\tanh\tfrac{c-300}{150}\right)"
    )
    x = Variable(
        "x", 2, 0.0, math.inf, "the tumour's size c0 at admission and its response epsilon"
    )
    y = Variable(
        "y",
        2,
        1.0,
        5000.0,
        "the sizes c0' and c5' measured at admission and after 5 days",
        typical_range=TYPICAL,
    )
    theta = None

    def log_prior(self, x: Tensor) -> Tensor:
        c0, epsilon = x.unbind(-1)
        log_gamma = (C0_SHAPE - 1) * c0.log() - c0 / C0_SCALE
        log_beta = (EPSILON_A - 1) * epsilon.log() + (EPSILON_B - 1) * torch.log1p(-epsilon)
        value = log_gamma + log_beta + LOG_PRIOR_CONSTANT
        outside = (c0 <= 0) | (c0 == torch.inf) | (epsilon <= 0) | (epsilon >= 1)
        return torch.where(outside, -torch.inf, value)

    def log_likelihood(self, x: Tensor, y: Tensor) -> Tensor:
        # The terms without y first: y has more axes than x where x is shared.
        shape, rate, log_constant = _measured(self._early_sizes(x))
        return log_constant + ((shape - 1) * y.log() - rate * y).sum(-1)

    def f(self, x: Tensor, theta: Tensor | None) -> Tensor:
        return _success(sizes(*_solvable(x))[1])

    def _early_sizes(self, x: Tensor) -> Tensor:
        """c0 and c5, (*, 2)."""
        c0, epsilon = _solvable(x)
        return torch.stack([c0, sizes(c0, epsilon)[0].exp()], -1)

    def sample_prior(self, n: int, generator: torch.Generator) -> Tensor:
        def gamma(shape: float) -> Tensor:
            shapes = torch.full((n,), shape, dtype=torch.float32, device=generator.device)
            return torch._standard_gamma(shapes, generator=generator)

        c0 = C0_SCALE * gamma(C0_SHAPE)
        a, b = gamma(EPSILON_A), gamma(EPSILON_B)
        return torch.stack([c0, a / (a + b)], -1)

    def prior_from_uniform(self, u: Tensor) -> Tensor:
        first, second = np.moveaxis(u.cpu().numpy(), -1, 0)
        c0 = C0_SCALE * gammaincinv(C0_SHAPE, first)
        return torch.as_tensor(np.stack([c0, betaincinv(EPSILON_A, EPSILON_B, second)], -1)).to(u)

    def sample_likelihood(self, x: Tensor, generator: torch.Generator) -> Tensor:
        shape, rate, _ = _measured(self._early_sizes(x))
        draws = torch._standard_gamma(shape, generator=generator) / rate
        # A small tumour may be measured as one too small for a floating point number.
        return draws.clamp(min=torch.finfo(x.dtype).tiny)

    @property
    def support(self) -> Constraint:
        return constraints.stack([constraints.positive, constraints.unit_interval], dim=-1)

    def _log_truth(self, y: Tensor, theta: Tensor | None) -> tuple[Array, Array]:
        log_mu = moments(y)[1]
        return log_mu, np.ones_like(log_mu)

    def _log_mean_absolute_deviation(self, y: Tensor, theta: Tensor | None) -> Array:
        return np.asarray(np.log(moments(y)[2]))

    def _mismatch(self, y: Tensor, theta: Tensor | None) -> Array:
        return np.asarray(moments(y)[3])

    def _log_evidence(self, y: Tensor) -> Array:
        return np.asarray(moments(y)[0])

    def _path(self, y: Tensor, theta: Tensor | None, t: float) -> tuple[Tensor, Tensor | None]:
        # The second measurement, up to the one at which the mismatch is largest: beyond, success
        # is so unlikely that what is left of f hardly varies.
        low, high = TYPICAL[0], _turning_point(float(y[0]))
        return torch.stack([y[0], y.new_tensor(low + t * (high - low))]), None


def moments(y: Tensor, refinement: int = 1) -> Array:
    """log E2, log mu, E|f - mu| and KL(g || p(x | y)) at y (*, 2), by quadrature: (4, *)."""
    log_constant, factors, f = _grid(refinement)
    parts = []
    for part in y.detach().cpu().double().reshape(-1, 2).split(TRUTH_CHUNK):
        log_weight = torch.cat([part.log(), part], -1) @ factors + log_constant
        # The largest weight is 1, so that no exponential overflows.
        largest = log_weight.amax(-1, keepdim=True)
        w = (log_weight - largest).exp_()
        total = w.sum(-1, keepdim=True)
        w /= total
        mu = w @ f
        deviation = (w * (f - mu[:, None]).abs()).sum(-1)
        # KL(g || p(x | y)) = E_g[log f] - log mu, and g = f p(x | y) / mu.
        mismatch = ((w @ (f * f.log())) / mu - mu.log()).clamp(min=0)
        log_E2 = (largest + total.log()).squeeze(-1)
        parts.append(torch.stack([log_E2, mu.log(), deviation, mismatch]))
    return torch.cat(parts, -1).view(4, *y.shape[:-1]).numpy()


@cache
def _grid(refinement: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes of the quadrature over x, with all that does not depend on y.

    A node's log weight for E2 is the first one (nodes) plus the product of the second one
    (4, nodes) with (log c0', log c5', c0', c5'); the third one is f.
    """
    panel, panel_weight = gauss_legendre(PANEL_NODES * refinement)
    half = np.diff(PANEL_EDGES)[:, None] / 2
    c0 = (PANEL_EDGES[:-1, None] + half * (panel + 1)).ravel()
    unit, unit_weight = gauss_legendre(EPSILON_NODES * refinement)
    x = torch.cartesian_prod(torch.from_numpy(c0), torch.from_numpy((unit + 1) / 2))
    weight = torch.from_numpy(np.outer(half * panel_weight, unit_weight / 2).ravel())
    log_c5, log_c100 = sizes(*x.unbind(-1))
    shape, rate, log_constant = _measured(torch.stack([x[:, 0], log_c5.exp()], -1))
    log_constant += weight.log() + TumourTreatment().log_prior(x)
    return log_constant, torch.cat([shape - 1, -rate], -1).T.contiguous(), _success(log_c100)


@lru_cache(maxsize=4096)
def _turning_point(c0: float) -> float:
    """Of a row of second measurements, the one with the largest mismatch."""
    rows = torch.linspace(*PATH_ENDS, PATH_NODES, dtype=torch.float64)
    y = torch.stack([torch.full_like(rows, c0), rows], -1)
    return float(rows[int(moments(y)[3].argmax())])


def _measured(c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shape and rate of the measurements of sizes c (*, 2), and the log density's constant (*)."""
    shape, rate = (c / NOISE).square(), c / NOISE**2
    return shape, rate, (shape * rate.log() - torch.lgamma(shape)).sum(-1)


def _solvable(x: Tensor) -> tuple[Tensor, Tensor]:
    # Points where the prior is zero or too small to matter are moved to the table's nearest ones:
    # it ends in float32 below 10^4.
    return x[..., 0].clamp(*TABLE_ENDS), x[..., 1].clamp(0, 1)


def _success(log_c100: Tensor) -> Tensor:
    # (tanh(-z) + 1) / 2 = sigmoid(-2 z), which keeps its digits where f is tiny.
    z = (log_c100.exp() - HALF_SUCCESS) / SOFTNESS
    return (1 - 2 * LEAST) * torch.sigmoid(-2 * z) + LEAST
