"""Facts that hold for every family of proposals: a new family is one line of FLOWS."""

import math
from functools import partial

import pytest
import torch
from torch.distributions import Independent, Normal, Pareto, Uniform

import amci_core as amci
from amci_core.flows import FAMILIES, families

NAMES = ("tail-1d", "tail-5d", "peak", "gain-loss", "cancer")
TAIL, TAIL_5D, PEAK, GAIN, CANCER = map(amci.problem, NAMES)
BETWEEN, BEYOND = (
    amci.model(name="product", prior=prior, theta=Uniform(0.5, 2.0), f="x * theta")
    for prior in (Uniform(1.0, 3.0), Pareto(2.0, 3.0))
)
NETWORK = {"hidden": (16, 16), "activation": "silu"}
UNIT = [{"kind": "unit", "centre": 0.5, "scale": 0.3}] * 2
LINES = [{"kind": "line", "centre": 0.5, "scale": 2.0}, {"kind": "line"}]
LINE_5D = [{"kind": "line"}] * 5
MIXED = [{"kind": "positive", "centre": 6.2, "scale": 0.2}, {"kind": "probability"}]
TUMOUR = [{"kind": "response", "centre": -4.0, "scale": 3.0}, {"kind": "positive"}]
CUT = [{"kind": "cut", "centre": 0.5, "scale": 0.3}] * 2
HALF_LINE, SOFT = ([{"kind": kind, "scale": 0.5}] for kind in ("half-line", "soft-half-line"))


def family(name, problem, **arguments):
    return problem, partial(FAMILIES[name], problem, **NETWORK | arguments)


def spline(problem, coordinates, name="autoregressive", **arguments):
    return family(f"{name}-spline", problem, coordinates=coordinates, **{"bins": 8} | arguments)


def coupled(problem, coordinates):
    arguments = {"coordinates": coordinates, "layers": 3, "hidden": 16, "bins": 8}
    return problem, partial(FAMILIES["neural-spline"], problem, **arguments)


# The problem, and a function that makes the proposal.
FLOWS = {
    "gaussian": family("gaussian", TAIL, reads_theta=True),
    "gaussian, affine in y": family("gaussian", TAIL, reads_theta=False, hidden=()),
    "gaussian, 5-D": family("gaussian", TAIL_5D, reads_theta=True),
    "half-line": spline(TAIL, HALF_LINE),
    "half-line, vanishing": spline(GAIN, SOFT),
    "half-line, below": spline(GAIN.with_negated_f(), SOFT),
    "half-line, cut": spline(TAIL.complement(), [{"kind": "cut-half-line"}]),
    "complement of an orthant": family("complement-gaussian", TAIL_5D.complement()),
    "radial, as q1": family("radial", TAIL, reads_theta=True, layers=10, shift=True),
    "radial, as q2": family("radial", TAIL, reads_theta=False, layers=2, shift=False),
    "masked": family("masked-autoregressive", TAIL_5D, reads_theta=True, layers=3, hidden=16),
    "gamma-beta": family("gamma-beta", CANCER, size=500.0, spread=100.0),
    "above a threshold": spline(TAIL_5D, [HALF_LINE[0] | {"unit": u} for u in (1, 0.5, 1, 2, 1)]),
    "unit square": spline(PEAK, UNIT),
    "plane": spline(PEAK, LINES),
    "plane, affine": spline(PEAK, LINES, bins=4, hidden=()),
    "positive, probability": spline(PEAK, MIXED),
    "response, positive": spline(CANCER, TUMOUR),
    "cut at both ends": spline(PEAK, CUT),
    "range with two ends": spline(BETWEEN, [{"kind": "range"}]),
    "range with one end": spline(BEYOND, [{"kind": "range"}]),
    "composed": spline(PEAK, MIXED, "composed"),
    "composed, along the radius": spline(TAIL_5D, LINE_5D, "composed", radial=True),
    "layered": spline(TAIL_5D, LINE_5D, "layered", width=12),
    "of normflows, above a threshold": coupled(TAIL_5D, HALF_LINE * 5),
    "of normflows": coupled(PEAK, MIXED),
    "of normflows, cut": coupled(PEAK, CUT),
    "defensive": spline(
        PEAK, UNIT, "defensive", defensive={"coordinates": UNIT, "bins": 8, **NETWORK}
    ),
}
every_flow = pytest.mark.parametrize("name", FLOWS)
# A map of base samples that jumps, between components or pieces, has no inverse.
JUMPS = ("gamma-beta", "defensive", "complement of an orthant")
maps = pytest.mark.parametrize("name", [n for n in FLOWS if n not in JUMPS])


def randomised(name):
    """A proposal whose parameters are of order one everywhere, in double precision."""
    proposal, source = FLOWS[name][1]().double(), generator()
    with torch.no_grad():
        for parameter in proposal.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=source)
        if name == "defensive":
            proposal.weight.network[-1].bias.fill_(0.5)  # shares of about a half
            proposal.weight.network[-1].weight.mul_(0.1)
    return proposal


def cases(name, n=3):
    problem = FLOWS[name][0]
    return problem.check(*problem.cases(n, seed=0))


def row(value, k):
    return None if value is None else value[k]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@every_flow
def test_draws_know_their_density_and_cases_do_not_mix(name):
    proposal, (y, theta) = randomised(name), cases(name, 6)
    grid = [None if v is None else v.unflatten(0, (3, 2)) for v in (y, theta)]
    density = proposal(*grid)
    assert density.batch_shape == (3, 2)
    x, log_q = density.draw(50, generator())
    assert x.shape == (3, 2, 50, FLOWS[name][0].x.dim)
    assert torch.isfinite(log_q).all()
    # A probability next to one is rounded to some 1e-16, and its log-odds to much less.
    close(density.log_prob(x), log_q, 1e-4 if "p" in name.split(", ")[-1] else 1e-7)
    log_q = density.log_prob(x)
    for k in range(3):
        close(proposal(y[2 * k], row(theta, 2 * k)).log_prob(x[k, 0]), log_q[k, 0])
    shared = density.log_prob(x[0, 0])
    torch.testing.assert_close(shared, density.log_prob(x[0, 0].expand_as(x)))


@every_flow
def test_points_without_gradients_go_through_in_parts_that_agree(name):
    proposal, at = randomised(name), cases(name)
    whole = proposal(*at).draw(2000, generator())
    with torch.inference_mode():
        in_parts = proposal(*at)
        for found, expected in zip(in_parts.draw(2000, generator()), whole, strict=True):
            close(found, expected, 1e-11)
        close(in_parts.log_prob(whole[0]), proposal(*at).log_prob(whole[0]), 1e-11)


@every_flow
def test_every_parameter_gets_a_gradient(name):
    proposal, at = randomised(name), cases(name, 32)
    density = proposal(*at)
    x, _ = density.draw(8, generator())
    density.log_prob(x.detach()).mean().backward()
    for key, parameter in proposal.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, key
            assert torch.isfinite(parameter.grad).all(), key
            assert (parameter.grad != 0).any(), key


@maps
def test_log_density_is_the_determinant_of_autograd(name):
    proposal, (y, theta) = randomised(name), cases(name)
    density = proposal(y[0], row(theta, 0))
    z = density.base_samples(4, generator())
    _, log_q = density.forward(z)
    gaussian = bool(set(name.split(", ")) & {"gaussian", "masked", "radial", "layered"})
    for point, found in zip(z, log_q, strict=True):
        jacobian = torch.autograd.functional.jacobian(
            lambda p: density.forward(p[None])[0][0], point
        )
        base = torch.distributions.Normal(0, 1).log_prob(point).sum() if gaussian else 0
        close(found, base - torch.linalg.slogdet(jacobian).logabsdet, 1e-7)


@maps
def test_log_densities_have_the_gradient_of_differences(name):
    # Through the inverse maps of all coordinates, all networks and knots.
    proposal, at = randomised(name), cases(name)
    density = proposal(*at)
    x = density.draw(3, generator())[0].detach().requires_grad_()
    (slope,) = torch.autograd.grad(density.log_prob(x).sum(), x)
    step = 1e-6 * (x - x.mean()).abs().clamp(1e-2).detach()
    with torch.no_grad():
        for i in range(x.shape[-1]):
            beside = torch.zeros_like(x)
            beside[..., i] = step[..., i]
            rise = density.log_prob(x + beside) - density.log_prob(x - beside)
            close(slope[..., i], rise / (2 * step[..., i]), 1e-3)


@every_flow
def test_a_mixture_with_a_known_density_integrates_to_one(name):
    # Half of the points come from q, half from another q': the mean of q over their mixture.
    proposal, (y, theta) = randomised(name), cases(name)
    n = 10_000
    with torch.inference_mode():
        density, other = (proposal(y[k], row(theta, k)) for k in (0, 1))
        x = torch.cat([density.draw(n, generator(1))[0], other.draw(n, generator(2))[0]])
        ratio = torch.sigmoid(density.log_prob(x) - other.log_prob(x)) * 2
    error = (ratio.reshape(2, n).var(-1).sum() / (4 * n)) ** 0.5
    # Of two that hardly overlap few points have a ratio between 0 and 2.
    assert abs(ratio.mean() - 1) < 4 * error + 1e-5


@every_flow
def test_building_loading_and_drawing_leave_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    first, at = FLOWS[name][1]().double(), cases(name)
    x, log_q = first(*at).draw(5, generator(1))
    again = FLOWS[name][1]().double()
    assert torch.equal(again(*at).draw(5, generator(1))[0], x)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.fill_(0.3)
    again.load_state_dict(first.state_dict())
    assert torch.equal(again(*at).draw(5, generator(1))[1], log_q)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (x != first(*at).draw(5, generator(2))[0]).all()
    # Without a generator draws come from torch's own.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        drawn, more = (first(*at).draw(5)[0] for _ in range(2))
        torch.manual_seed(1)
        assert torch.equal(first(*at).draw(5)[0], drawn)
    assert (drawn != more).all()


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("half-line", [-100.0]),
        ("half-line, vanishing", [-100.0]),
        ("half-line, cut", [100.0]),
        ("complement of an orthant", [100.0] * 5),
        ("above a threshold", [-1.0] * 5),
        ("unit square", [0.5, 1.5]),
        ("positive, probability", [-1.0, 0.5]),
        ("positive, probability", [500.0, 1.0]),
        ("response, positive", [0.0, 1.0]),
        ("range with two ends", [0.5]),
        ("range with two ends", [3.0]),
        ("range with one end", [1.5]),
        ("gamma-beta", [-1.0, 0.5]),
        ("defensive", [-0.5, 0.5]),
    ],
)
def test_densities_vanish_outside_their_support(name, outside):
    density = randomised(name)(*cases(name))
    assert (density.log_prob(torch.tensor([outside]).double()) == -torch.inf).all()
    x, log_q = density.draw(2000, generator())
    assert torch.isfinite(log_q).all()
    assert torch.isfinite(density.log_prob(x)).all()


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "sign"), [("half-line", 1), ("half-line, below", -1)])
def test_the_end_of_the_unit_interval_is_no_point_on_the_bound(name, sign, precision):
    y, theta = torch.tensor([[1.0], [3.0]], dtype=precision)
    density = randomised(name).to(precision)(y, theta)
    x, _ = density.forward(torch.ones(1, 1, dtype=precision))
    assert (sign * (x - theta) > 0).all()
    assert torch.allclose(x, theta, atol=1e-5)


def test_a_model_in_the_place_of_a_function_that_makes_one_is_refused():
    with pytest.raises(ValueError, match=r"^make: expected a function .*, got Linear$"):
        families.normflows(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("form", ["by coordinate", "rotated"])
def test_splines_start_from_the_regression_of_particles(form: str) -> None:
    """Of a linear Gaussian model that is the posterior's mean, whatever the case."""
    noise = 0.5
    problem = amci.model(
        prior=[Normal(1.0, 2.0), Normal(0.0, 1.0)],
        likelihood=lambda x: Independent(
            Normal(torch.stack([x.sum(-1), x[..., 0]], -1), noise), 1
        ),
        f="x1 > 1",
    )
    generator = torch.Generator().manual_seed(0)
    design = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    prior = torch.diag(torch.tensor([0.25, 1.0], dtype=torch.float64))  # precisions
    covariance = torch.linalg.inv(prior + design.T @ design / noise**2)
    y, _ = problem.sample_cases(500, generator)
    shifted = y.double() - design @ torch.tensor([1.0, 0.0], dtype=torch.float64)
    mean = shifted @ (covariance @ design.T / noise**2).T + torch.tensor([1.0, 0.0])
    factor = torch.linalg.cholesky(covariance)
    noise_of_x = torch.randn(500, 32, 2, generator=generator, dtype=torch.float64)
    made = families.forms(problem, reads_theta=False)[form]
    flow = FAMILIES[made["family"]](problem, **made["arguments"]).double()
    flow.start_near(mean[:, None] + noise_of_x @ factor.T, y.double(), None)
    x, _ = flow(y.double(), None).draw(400, generator)
    # Logistic draws: their mean has the deviation of a few more.
    error = ((x.mean(1) - mean) / covariance.diagonal().sqrt()).abs()
    assert error.max() < 6 * 1.3 / math.sqrt(400)
