"""Facts about densities over several coordinates: splines coordinate by coordinate, Gaussians."""

from collections.abc import Callable

import pytest
import torch

import amci_core as amci
from amci_core.flows import FAMILIES, Trainable

NETWORK = {"hidden": (16, 16), "activation": "silu"}
SPLINE = FAMILIES["autoregressive-spline"]
TAIL, PEAK = amci.problem("tail-5d"), amci.problem("peak")
LINES = [{"kind": "line", "centre": 0.5, "scale": 2.0}, {"kind": "line"}]
MIXED = [{"kind": "positive", "centre": 6.2, "scale": 0.2}, {"kind": "probability"}]
Made = tuple[amci.models.Problem, Callable[[], Trainable]]
FLOWS: dict[str, Made] = {
    "above a threshold": (
        TAIL,
        lambda: SPLINE(
            TAIL, coordinates=[{"kind": "half-line", "scale": 0.5}] * 5, bins=8, **NETWORK
        ),
    ),
    "gaussian": (
        TAIL,
        lambda: FAMILIES["gaussian"](TAIL, reads_theta=True, **NETWORK),
    ),
    "unit square": (
        PEAK,
        lambda: SPLINE(PEAK, coordinates=[{"kind": "unit"}] * 2, bins=8, **NETWORK),
    ),
    "plane": (PEAK, lambda: SPLINE(PEAK, coordinates=LINES, bins=8, **NETWORK)),
    "positive and probability": (
        PEAK,
        lambda: SPLINE(PEAK, coordinates=MIXED, bins=8, **NETWORK),
    ),
}
every_flow = pytest.mark.parametrize("name", FLOWS)


def randomised(name):
    """A proposal with parameters of order one, its problem, and cases to ask it at."""
    problem, make = FLOWS[name]
    generator = torch.Generator().manual_seed(3)
    proposal = make().double()
    with torch.no_grad():
        for parameter in proposal.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            parameter.normal_(std=fan_in**-0.5, generator=generator)
    return problem, proposal, problem.check(*problem.cases(3, seed=0))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@every_flow
def test_draws_know_their_density(name):
    problem, proposal, cases = randomised(name)
    density = proposal(*cases)
    x, log_q = density.draw(200, seeded())
    assert x.shape == (3, 200, problem.x.dim)
    # A probability next to one is rounded to some 1e-16, and its log-odds to much less.
    close = 1e-4 if "probability" in name else 1e-7
    torch.testing.assert_close(density.log_prob(x), log_q, rtol=close, atol=close)


@every_flow
def test_cases_do_not_mix(name):
    _, proposal, (y, theta) = randomised(name)
    x, _ = proposal(y, theta).draw(5, seeded())
    log_q = proposal(y, theta).log_prob(x)
    for k in range(3):
        alone = proposal(y[k], theta[k]).log_prob(x[k])
        torch.testing.assert_close(alone, log_q[k], rtol=1e-7, atol=1e-7)


@every_flow
def test_log_density_is_the_determinant_of_autograd(name):
    problem, proposal, (y, theta) = randomised(name)
    density = proposal(y[0], theta[0])
    z = density.noise(4, seeded())

    def points(z):
        return density.transport(z[None])[0][0]

    _, log_q = density.transport(z)
    gaussian = name == "gaussian"
    for k in range(4):
        jacobian = torch.autograd.functional.jacobian(points, z[k])
        base = torch.distributions.Normal(0, 1).log_prob(z[k]).sum() if gaussian else 0
        expected = base - torch.linalg.slogdet(jacobian).logabsdet
        torch.testing.assert_close(log_q[k], expected, rtol=1e-7, atol=1e-7)
    assert problem.x.dim == z.shape[-1]


@every_flow
def test_a_mixture_with_a_known_density_integrates_to_one(name):
    # Half of the points come from q, half from another q': the mean of q over their mixture.
    _, proposal, (y, theta) = randomised(name)
    other = proposal(y[1], theta[1])
    density = proposal(y[0], theta[0])
    n = 20_000
    x = torch.cat([density.draw(n, seeded(1))[0], other.draw(n, seeded(2))[0]])
    ratio = torch.sigmoid(density.log_prob(x) - other.log_prob(x)) * 2
    error = ratio.std() / (2 * n) ** 0.5
    assert abs(ratio.mean() - 1) < 4 * error


@every_flow
def test_every_parameter_gets_a_gradient(name):
    _, proposal, cases = randomised(name)
    x, _ = proposal(*cases).draw(64, seeded())
    proposal(*cases).log_prob(x.detach()).mean().backward()
    for parameter in proposal.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert (parameter.grad != 0).any()


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("above a threshold", [-1.0] * 5),
        ("unit square", [0.5, 1.5]),
        ("positive and probability", [-1.0, 0.5]),
        ("positive and probability", [500.0, 1.0]),
    ],
)
def test_densities_vanish_outside_their_support(name, outside):
    _, proposal, cases = randomised(name)
    point = torch.tensor([outside], dtype=torch.float64)
    assert (proposal(*cases).log_prob(point) == -torch.inf).all()
    x, log_q = proposal(*cases).draw(2000, seeded())
    assert torch.isfinite(log_q).all()
    assert torch.isfinite(proposal(*cases).log_prob(x)).all()


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        ([{"kind": "unit"}], "coordinates: expected 2 for peak, got 1"),
        ([{"kind": "unit"}, {"kind": "circle"}], "kind: expected one of half-line, .* 'circle'"),
    ],
)
def test_coordinates_that_do_not_fit_are_refused(coordinates, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        SPLINE(PEAK, coordinates=coordinates, bins=8, **NETWORK)
