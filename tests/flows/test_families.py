"""Facts that hold for every family of proposals: a new family is one line of FLOWS."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch.distributions import Pareto, Uniform

import amci_core as amci
from amci_core.flows import FAMILIES, Trainable, families

TAIL, TAIL_5D, PEAK = (amci.problem(name) for name in ("tail-1d", "tail-5d", "peak"))
GAIN, CANCER = amci.problem("gain-loss"), amci.problem("cancer")
BETWEEN, BEYOND = (
    amci.model(name="product", prior=prior, theta=Uniform(0.5, 2.0), f="x * theta")
    for prior in (Uniform(1.0, 3.0), Pareto(2.0, 3.0))
)
NETWORK = {"hidden": (16, 16), "activation": "silu"}
SPLINES = {"bins": 8, **NETWORK}
COUPLED = {"layers": 3, "hidden": 16, "bins": 8}
UNIT = [{"kind": "unit", "centre": 0.5, "scale": 0.3}] * 2
LINES = [{"kind": "line", "centre": 0.5, "scale": 2.0}, {"kind": "line"}]
MIXED = [{"kind": "positive", "centre": 6.2, "scale": 0.2}, {"kind": "probability"}]
TUMOUR = [{"kind": "response", "centre": -4.0, "scale": 3.0}, {"kind": "positive"}]
CUT = [{"kind": "cut", "centre": 0.5, "scale": 0.3}] * 2
HALF_LINE, SOFT = ([{"kind": kind, "scale": 0.5}] for kind in ("half-line", "soft-half-line"))


def family(name, problem, **arguments):
    return problem, partial(FAMILIES[name], problem, **arguments)


def spline(problem, coordinates):
    return family("autoregressive-spline", problem, coordinates=coordinates, **SPLINES)


FLOWS: dict[str, tuple[amci.Problem, Callable[[], Trainable]]] = {
    "gaussian": family("gaussian", TAIL, reads_theta=True, **NETWORK),
    "gaussian, affine in y": family(
        "gaussian", TAIL, reads_theta=False, hidden=(), activation="relu"
    ),
    "gaussian, 5-D": family("gaussian", TAIL_5D, reads_theta=True, **NETWORK),
    "half-line": spline(TAIL, HALF_LINE),
    "half-line, vanishing": spline(GAIN, SOFT),
    "half-line, below": spline(GAIN.with_negated_f(), SOFT),
    "half-line, cut": spline(TAIL.complement(), [{"kind": "cut-half-line"}]),
    "complement of an orthant": family("complement-gaussian", TAIL_5D.complement(), **NETWORK),
    "radial, as q1": family("radial", TAIL, reads_theta=True, layers=10, shift=True, **NETWORK),
    "radial, as q2": family(
        "radial", TAIL, reads_theta=False, layers=2, shift=False, hidden=(16,), activation="relu"
    ),
    "masked": family(
        "masked-autoregressive",
        TAIL_5D,
        reads_theta=True,
        layers=3,
        hidden=16,
        activation="relu",
    ),
    "gamma-beta": family("gamma-beta", CANCER, size=500.0, spread=100.0, **NETWORK),
    "above a threshold": spline(TAIL_5D, [HALF_LINE[0] | {"unit": u} for u in (1, 0.5, 1, 2, 1)]),
    "unit square": spline(PEAK, UNIT),
    "plane": spline(PEAK, LINES),
    "plane, affine": family(
        "autoregressive-spline",
        PEAK,
        coordinates=LINES,
        bins=4,
        hidden=(),
        activation="relu",
    ),
    "positive, probability": spline(PEAK, MIXED),
    "response, positive": spline(CANCER, TUMOUR),
    "cut at both ends": spline(PEAK, CUT),
    "range with two ends": spline(BETWEEN, [{"kind": "range"}]),
    "range with one end": spline(BEYOND, [{"kind": "range"}]),
    "composed": family("composed-spline", PEAK, coordinates=MIXED, **SPLINES),
    "composed, along the radius": family(
        "composed-spline", TAIL_5D, coordinates=[{"kind": "line"}] * 5, radial=True, **SPLINES
    ),
    "layered": family(
        "layered-spline", TAIL_5D, coordinates=[{"kind": "line"}] * 5, width=12, **SPLINES
    ),
    "of normflows, above a threshold": family(
        "neural-spline", TAIL_5D, coordinates=HALF_LINE * 5, **COUPLED
    ),
    "of normflows": family("neural-spline", PEAK, coordinates=MIXED, **COUPLED),
    "of normflows, cut": family("neural-spline", PEAK, coordinates=CUT, **COUPLED),
    "defensive": family(
        "defensive-spline",
        PEAK,
        coordinates=UNIT,
        defensive={"coordinates": UNIT, **SPLINES},
        **SPLINES,
    ),
}
every_flow = pytest.mark.parametrize("name", FLOWS)
# A map of base samples that jumps, between components or pieces, has no inverse.
JUMPS = ("gamma-beta", "defensive", "complement of an orthant")
maps = pytest.mark.parametrize("name", [n for n in FLOWS if n not in JUMPS])


def randomised(name: str, seed: int = 0) -> Trainable:
    """A proposal whose parameters are of order one everywhere, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    proposal = FLOWS[name][1]().double()
    with torch.no_grad():
        for parameter in proposal.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=generator)
        if name == "defensive":
            proposal.weight.network[-1].bias.fill_(0.5)  # shares of about a half
            proposal.weight.network[-1].weight.mul_(0.1)
    return proposal


def cases(name, n=3):
    problem = FLOWS[name][0]
    return problem.check(*problem.cases(n, seed=0))


def row(value, k):
    return None if value is None else value[k]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def close(name):
    # A probability next to one is rounded to some 1e-16, and its log-odds to much less.
    return dict.fromkeys(("rtol", "atol"), 1e-4 if "p" in name.split(", ")[-1] else 1e-7)


@every_flow
def test_draws_have_their_shape_and_know_their_density(name):
    y, theta = cases(name, 6)
    grid = [None if v is None else v.unflatten(0, (3, 2)) for v in (y, theta)]
    density = randomised(name)(*grid)
    assert density.batch_shape == (3, 2)
    x, log_q = density.draw(50, generator())
    assert x.shape == (3, 2, 50, FLOWS[name][0].x.dim)
    assert log_q.shape == (3, 2, 50)
    assert torch.isfinite(log_q).all()
    torch.testing.assert_close(density.log_prob(x), log_q, **close(name))


@every_flow
def test_cases_do_not_mix(name):
    proposal, (y, theta) = randomised(name), cases(name)
    density = proposal(y, theta)
    x, _ = density.draw(7, generator())
    log_q = density.log_prob(x)
    for k in range(3):
        alone = proposal(y[k], row(theta, k))
        torch.testing.assert_close(alone.log_prob(x[k]), log_q[k], rtol=1e-9, atol=1e-9)
    shared = density.log_prob(x[0])
    torch.testing.assert_close(shared, density.log_prob(x[:1].expand_as(x)))


@every_flow
def test_points_without_gradients_go_through_in_parts_that_agree(name):
    proposal, at = randomised(name), cases(name)
    x, log_q = proposal(*at).draw(2000, generator())
    with torch.inference_mode():
        in_parts = proposal(*at)
        found, log_found = in_parts.draw(2000, generator())
        torch.testing.assert_close(found, x, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(log_found, log_q, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(
            in_parts.log_prob(x), proposal(*at).log_prob(x), rtol=1e-11, atol=1e-11
        )


@every_flow
def test_every_parameter_gets_a_gradient(name):
    proposal, at = randomised(name), cases(name, 32)
    density = proposal(*at)
    x, _ = density.draw(8, generator())
    density.log_prob(x.detach()).mean().backward()
    for key, parameter in proposal.named_parameters():
        if not parameter.requires_grad:
            continue
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
    for k in range(4):
        jacobian = torch.autograd.functional.jacobian(
            lambda point: density.forward(point[None])[0][0], z[k]
        )
        base = torch.distributions.Normal(0, 1).log_prob(z[k]).sum() if gaussian else 0
        expected = base - torch.linalg.slogdet(jacobian).logabsdet
        torch.testing.assert_close(log_q[k], expected, rtol=1e-7, atol=1e-7)


@maps
def test_log_densities_have_the_gradient_of_differences(name):
    # Through the inverse maps of all coordinates, all networks and knots.
    proposal, (y, theta) = randomised(name), cases(name)
    density = proposal(y, theta)
    x = density.draw(3, generator())[0].detach().requires_grad_()
    (slope,) = torch.autograd.grad(density.log_prob(x).sum(), x)
    step = 1e-6 * (x - x.mean()).abs().clamp(1e-2)
    with torch.no_grad():
        for i in range(x.shape[-1]):
            beside = torch.zeros_like(x)
            beside[..., i] = step[..., i]
            rise = density.log_prob(x + beside) - density.log_prob(x - beside)
            found = rise / (2 * step[..., i])
            torch.testing.assert_close(slope[..., i], found, rtol=1e-3, atol=1e-3)


@every_flow
def test_a_mixture_with_a_known_density_integrates_to_one(name):
    # Half of the points come from q, half from another q': the mean of q over their mixture.
    proposal, (y, theta) = randomised(name), cases(name)
    n = 20_000
    with torch.inference_mode():
        density, other = proposal(y[0], row(theta, 0)), proposal(y[1], row(theta, 1))
        x = torch.cat([density.draw(n, generator(1))[0], other.draw(n, generator(2))[0]])
        ratio = torch.sigmoid(density.log_prob(x) - other.log_prob(x)) * 2
    error = (ratio.reshape(2, n).var(-1).sum() / (4 * n)) ** 0.5
    assert abs(ratio.mean() - 1) < 4 * error + 1e-12


@every_flow
def test_saving_and_loading_changes_nothing(name, tmp_path):
    proposal, at = randomised(name), cases(name)
    torch.save(proposal.state_dict(), tmp_path / "weights")
    again = FLOWS[name][1]().double()
    again.load_state_dict(torch.load(tmp_path / "weights", weights_only=True))
    x, log_q = proposal(*at).draw(5, generator())
    found, log_found = again(*at).draw(5, generator())
    assert torch.equal(x, found)
    assert torch.equal(log_q, log_found)


@every_flow
def test_building_and_drawing_leave_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    first, at = FLOWS[name][1]().double(), cases(name)
    x, _ = first(*at).draw(5, generator(1))
    assert torch.equal(torch.random.get_rng_state(), before)
    again, _ = FLOWS[name][1]().double()(*at).draw(5, generator(1))
    assert torch.equal(x, again)
    other, _ = first(*at).draw(5, generator(2))
    assert (x != other).all()
    # Without a generator draws come from torch's own.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        drawn, more = (first(*at).draw(5)[0] for _ in range(2))
        torch.manual_seed(1)
        assert torch.equal(first(*at).draw(5)[0], drawn)
    assert (drawn != more).all()


beyond = pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("half-line", [-100.0]),
        ("half-line, vanishing", [-100.0]),
        ("half-line, below", [100.0]),
        ("half-line, cut", [100.0]),
        ("complement of an orthant", [100.0] * 5),
        ("above a threshold", [-1.0] * 5),
        ("unit square", [0.5, 1.5]),
        ("positive, probability", [-1.0, 0.5]),
        ("positive, probability", [500.0, 1.0]),
        ("response, positive", [0.0, 1.0]),
        ("response, positive", [1.0, 1.0]),
        ("range with two ends", [0.5]),
        ("range with two ends", [3.0]),
        ("range with one end", [1.5]),
        ("gamma-beta", [500.0, 1.0]),
        ("gamma-beta", [-1.0, 0.5]),
        ("defensive", [-0.5, 0.5]),
    ],
)


@beyond
def test_densities_vanish_outside_their_support(name, outside):
    proposal, at = randomised(name), cases(name)
    point = torch.tensor([outside], dtype=torch.float64)
    assert (proposal(*at).log_prob(point) == -torch.inf).all()
    x, log_q = proposal(*at).draw(2000, generator())
    assert torch.isfinite(log_q).all()
    assert torch.isfinite(proposal(*at).log_prob(x)).all()


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "sign"), [("half-line", 1), ("half-line, below", -1)])
def test_the_end_of_the_unit_interval_is_no_point_on_the_bound(name, sign, precision):
    proposal = randomised(name).to(precision)
    y, theta = torch.tensor([1.0], dtype=precision), torch.tensor([3.0], dtype=precision)
    x, _ = proposal(y, theta).forward(torch.ones(1, 1, dtype=precision))
    assert (sign * (x - theta) > 0).all()
    assert torch.allclose(x, theta, atol=1e-5)


def test_a_model_in_the_place_of_a_function_that_makes_one_is_refused():
    with pytest.raises(ValueError, match=r"^make: expected a function .*, got Linear$"):
        families.normflows(torch.nn.Linear(2, 2))
