"""Proposals from elsewhere: torch's distributions, zuko's flows and sbi's posteriors."""

import math

import normflows as nf
import numpy as np
import pytest
import torch
import torch.distributions as td
from torch.distributions.transforms import AffineTransform

import amci_core as amci
from amci_core.flows import AtContext, Proposals

TAIL = amci.problem("tail-1d")
ROOT_HALF = math.sqrt(0.5)
# p(x | y) = N(y / 2, 1 / 2), and q1 is normal.
GROWTH = amci.model(
    name="growth",
    prior=td.Normal(0.0, 1.0),
    likelihood=lambda x: td.Normal(x, 1.0),
    f=lambda x, theta: (theta * x).exp(),
    theta=td.Uniform(0.0, 3.0),
)


def generator():
    return torch.Generator().manual_seed(0)


def same(distribution):
    """The same distribution at all y and theta."""
    return lambda y, theta: distribution.expand((*y.shape[:-1], *distribution.batch_shape))


def beyond(theta, rate=6.0):
    excess = td.Exponential(torch.full_like(theta, rate))
    return td.TransformedDistribution(excess, AffineTransform(theta, 1.0))


def wide(y, theta):
    return td.Normal(y / 2, 0.8)


def taken(*, q1=lambda y, theta: beyond(theta), q2=wide, problem=TAIL):
    return Proposals.from_distributions(problem, q1_plus=q1, q2=q2)


FORMS = {
    "event ()": lambda mean: td.Normal(mean.squeeze(-1), ROOT_HALF),
    "event (), batch (*, 1)": lambda mean: td.Normal(mean, ROOT_HALF),
    "event (1,)": lambda mean: td.Independent(td.Normal(mean, ROOT_HALF), 1),
    "multivariate": lambda mean: td.MultivariateNormal(mean, torch.eye(1).double() / 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_exact_proposals_have_no_variance(form):
    normal = FORMS[form]
    made = taken(
        problem=GROWTH,
        q1=lambda y, theta: normal((y + theta) / 2),
        q2=lambda y, theta: normal(y / 2),
    )
    y, theta = np.array([[1.0], [-2.0], [0.5]]), np.array([[0.1], [3.0], [1.0]])
    for case in ((y, theta), (1.0, 2.0)):
        found = amci.estimate(GROWTH, made, *case, draws=68)
        exact = np.exp(np.multiply(*case) / 2 + np.square(case[1]) / 4)
        np.testing.assert_allclose(found.value, np.squeeze(exact), rtol=1e-12)
        assert np.all(found.verdict.level == "reliable")


def test_draws_follow_the_seed_and_leave_the_global_generator_alone():
    made, state = taken(), torch.random.get_rng_state()
    first, again, other = (
        float(amci.estimate(TAIL, made, 1.0, 3.0, seed=seed).value) for seed in (5, 5, 6)
    )
    assert torch.equal(torch.random.get_rng_state(), state)
    assert first == again != other


LOW, HIGH = torch.tensor(1.0).double(), torch.tensor(2.0).double()
# Points within are 1.5 or 0.5.
BOUNDED = {
    "uniform": lambda **v: td.Uniform(LOW, HIGH, **v),
    "exponential": lambda **v: td.Exponential(LOW, **v),
    "beta": lambda **v: td.Beta(HIGH, LOW, **v),
    "shifted": lambda **v: td.TransformedDistribution(
        td.Exponential(LOW, **v), AffineTransform(HIGH - 3, 1.0), **v
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_outside_the_support_the_density_is_zero(name):
    within = 1.5 if name == "uniform" else 0.5
    expected = BOUNDED[name]().log_prob(torch.tensor(within).double())
    one, other = (same(BOUNDED[name](validate_args=checks)) for checks in (True, False))
    made = taken(q1=one, q2=other)
    for q in (made.q1_plus, made.q2):
        found = q(*TAIL.check(1.0, 3.0)).log_prob(torch.tensor([[-5.0], [within]]).double())
        assert found[0] == -math.inf
        torch.testing.assert_close(found[1], expected)


def test_in_several_dimensions_one_coordinate_outside_is_enough():
    tail = amci.problem("tail-2d")
    made = taken(
        problem=tail,
        q1=lambda y, theta: td.Independent(td.Uniform(theta, theta + 1), 1),
        q2=lambda y, theta: td.Independent(td.Normal(y / 2, 1.0), 1),
    )
    q1 = made.q1_plus(*tail.check(np.zeros(2), np.ones(2)))
    x = torch.tensor([[1.5, 1.5], [1.5, 2.5]]).double()
    assert q1.log_prob(x).tolist() == [0, -math.inf]


class Shifted:
    """A normal distribution whose log density is off by a constant."""

    def __init__(self, mean, constant):
        self.normal, self.constant = td.Independent(td.Normal(mean, 1.0), 1), constant

    def sample(self, shape):
        return self.normal.sample(shape)

    def log_prob(self, x):
        return self.normal.log_prob(x) + self.constant


def no_batch(y, theta):
    return td.MultivariateNormal(torch.zeros(5), torch.eye(5))


WRONG = {
    "no function": (3.0, r"expected a function of y and theta, such as .*, got 3\.0"),
    "a class": (td.Normal, "got <class .*Normal"),
    "a function of y alone": (lambda y: td.Normal(y, 1.0), "such as lambda y, theta: flow"),
    "a model": (torch.nn.Linear(5, 5), "such as lambda y, theta: flow"),
    "no distribution": (lambda y, theta: 3.0, "object has no attribute 'sample'"),
    "no batch": (no_batch, r"expected sample\(\(1,\)\) of shape \(1, 3, 5\).*got \(1, 5\)"),
    "too many dimensions": (
        lambda y, theta: td.Normal(torch.zeros(3, 6), 1.0),
        r"got \(1, 3, 6\)",
    ),
    "coordinates apart": (
        lambda y, theta: td.Normal(y, 1.0),
        r"expected log_prob of shape \(1, 3\), got \(1, 3, 5\). Join coordinates with",
    ),
    "NaN": (lambda y, theta: Shifted(y, constant=math.nan), r"log_prob is NaN at x = \("),
    "float32": (lambda y, theta: torch.nn.Linear(5, 5)(y), "For float32 weights call .double"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_is_refused_by_the_name_of_the_proposal(kind):
    make, why = WRONG[kind]
    with pytest.raises(ValueError, match=rf"(?s)^q1_plus: .*{why}"):
        taken(problem=amci.problem("tail-5d"), q1=make)


def test_a_proposal_that_is_needed_or_is_not_and_a_contradiction_are_named():
    with pytest.raises(ValueError, match=r"q2: .* growth has no known evidence"):
        Proposals.from_distributions(GROWTH, q1_plus=wide)
    with pytest.raises(ValueError, match=r"q1_minus: .* f >= 0"):
        Proposals.from_distributions(TAIL, q1_plus=wide, q1_minus=wide, q2=wide)
    why = r"log_prob: the mean importance weight is 0\.17, .* about 1\.77 nats; at y = \("
    with pytest.raises(ValueError, match=f"^q1_plus: {why}"):
        taken(q1=lambda y, theta: Shifted(theta, constant=math.log(0.17)))


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return make()


@pytest.fixture
def validation():
    """Importing zuko switches the checks of all of torch's distributions off."""
    before = torch.distributions.Distribution._validate_args
    yield
    torch.distributions.Distribution._validate_args = before


def draws_and_their_density(made, expected):
    """Draws of q2 have the density that the outside model gives; so has the estimate its mu."""
    y, theta = TAIL.check([[1.0], [0.0], [0.0]], [[1.5], [0.5], [1.0]])
    with torch.inference_mode():
        x, log_q = made.q2(y, theta).draw(7, generator())
        assert (x.dtype, log_q.dtype) == (torch.float64, torch.float64)
        for i in range(3):
            found = expected(x[i], y[i : i + 1], theta[i : i + 1]).double()
            torch.testing.assert_close(log_q[i], found, rtol=1e-3, atol=1e-3)
    e = amci.estimate(TAIL, made, y, theta, draws=4000)
    assert (abs(e.value - TAIL.truth(y, theta)) < 5 * e.standard_error).all()


def nf_model():
    layer = nf.flows.AutoregressiveRationalQuadraticSpline(
        1, 1, 8, num_context_channels=2, init_identity=False
    )
    base = nf.distributions.DiagGaussian(1, trainable=False)
    return nf.ConditionalNormalizingFlow(base, [layer]).requires_grad_(False)


def test_a_model_of_normflows_is_taken_at_a_context():
    model = seeded(nf_model)

    def at(y, theta):
        return AtContext(model, torch.cat([y, theta], -1))

    def expected(x, y, theta):
        context = torch.cat([y, theta], -1).float()
        return model.log_prob(x.float(), context.expand(len(x), -1))

    draws_and_their_density(taken(q2=at), expected)


def test_a_flow_of_zuko(validation):
    zuko = pytest.importorskip("zuko")
    flow = seeded(lambda: zuko.flows.NSF(1, 1, bins=4, hidden_features=[8]).double())
    made = taken(q2=lambda y, theta: flow(y))
    draws_and_their_density(made, lambda x, y, theta: flow(y[0]).log_prob(x))


def test_a_flow_of_zuko_onto_an_interval_is_zero_beyond_it(validation):
    zuko = pytest.importorskip("zuko")
    unit = zuko.distributions.BoxUniform(torch.zeros(1).double(), torch.ones(1).double())
    onto = zuko.distributions.NormalizingFlow(AffineTransform(-3.0, 0.5), unit)  # to (6, 8)
    density = taken(q1=same(onto)).q1_plus(*TAIL.check(1.0, 3.0))
    found = density.log_prob(torch.tensor([[7.0], [9.0]]).double())
    torch.testing.assert_close(found, torch.tensor([math.log(0.5), -math.inf]).double())


@pytest.mark.slow
def test_a_posterior_of_sbi(validation):
    pytest.importorskip("sbi")
    from sbi.inference.posteriors import DirectPosterior
    from sbi.neural_nets import posterior_nn

    def posterior_of():
        x = torch.randn(500, 1)
        estimator = posterior_nn("mdn")(x, x + torch.randn(500, 1))
        return DirectPosterior(estimator.eval(), td.Normal(torch.zeros(1), torch.ones(1)))

    posterior = seeded(posterior_of)
    draws_and_their_density(
        taken(q2=lambda y, theta: AtContext(posterior, y)),
        lambda x, y, theta: posterior.log_prob(x.float(), x=y.float(), norm_posterior=False),
    )
