"""Several means from the same draws: their values, their covariance, and what follows from it."""

import numpy as np
import pytest
from torch.distributions import Normal, Uniform

import amci_core as amci
from amci_core.flows import Proposals

# x ~ N(0, 1), y ~ N(x, 1) at y = 3: the posterior is N(3 / 2, 1 / 2).
MEANS = np.array([1.5, 2.75, 5.625])
GIVEN = {"prior": Normal(0.0, 1.0), "likelihood": lambda x: Normal(x, 1.0)}


@pytest.fixture(scope="module")
def made():
    """Three problems, and proposals for them: the posterior, and densities that are wider."""
    problems = amci.several(f=["x", "x**2", "x**3"], **GIVEN)

    def near(shift):
        return lambda y, theta: Normal(y / 2 + shift, 0.9)

    proposals = [
        Proposals.from_distributions(
            problem,
            q1_plus=near(0.2 * k),
            q1_minus=None if problem.nonnegative else near(-1.0),
            q2=near(0.0),
        )
        for k, problem in enumerate(problems, 1)
    ]
    return problems, proposals


def test_moments_of_a_normal_posterior_within_their_errors(made):
    assert [float(p.truth(3.0)) for p in made[0]] == pytest.approx(MEANS)
    found = amci.estimate_several(*made, y=3.0, draws=4000)
    assert np.all(np.abs(found.value - MEANS) < 4 * found.standard_error)
    np.testing.assert_allclose(found.standard_error, [e.standard_error for e in found.estimates])
    assert all("reliable" in e.verdict.text for e in found.estimates)
    lower, upper = found.interval(0.999)
    assert np.all((lower < MEANS) & (MEANS < upper))
    assert (found.difference(1, 1).value, found.difference(1, 1).standard_error) == (0, 0)
    assert (found.ratio(1, 1).value, found.ratio(1, 1).standard_error) == (1, 0)


def test_the_covariance_is_that_of_many_runs(made):
    runs = 250
    found = amci.estimate_several(*made, y=np.full((runs, 1), 3.0), draws=400)
    covariance = found.covariance.mean(0)
    scale = np.sqrt(np.diag(covariance))
    units = np.outer(scale, scale)
    # The standard error of a covariance, in units of both scales, is sqrt(2 / runs) at most.
    measured = np.cov(found.value.T)
    np.testing.assert_allclose(measured / units, covariance / units, atol=4 * np.sqrt(2 / runs))
    means = MEANS[2] - MEANS[0], MEANS[2] / MEANS[0]
    for one, truth in zip((found.difference(2, 0), found.ratio(2, 0)), means, strict=True):
        spread = pytest.approx(one.value.std(), rel=4 * np.sqrt(0.5 / runs))
        assert one.standard_error.mean() == spread
        low, high = one.interval()
        covered = ((low < truth) & (truth < high)).mean()
        assert covered > 0.95 - 4 * np.sqrt(0.05 * 0.95 / runs)


def test_a_batch_of_cases_has_a_covariance_each_and_a_ratio_to_zero_no_error(made):
    found = amci.estimate_several(*made, y=np.array([[0.02], [3.0]]), draws=400)
    assert (found.value.shape, found.covariance.shape) == ((2, 3), (2, 3, 3))
    near_zero = amci.estimate_several(*made, y=0.02, draws=400)
    assert np.isnan(near_zero.ratio(1, 0).standard_error)
    assert "standard error not known" in str(near_zero.ratio(1, 0))
    assert np.isfinite(near_zero.ratio(0, 1).standard_error)
    # It is the denominator that has to be far from zero, by its own standard error.
    between = amci.estimate_several(*made, y=0.15, draws=400)
    assert 5 * between.standard_error[0] < between.value[0] < 5 * between.standard_error[1]
    assert np.isfinite(between.ratio(1, 0).standard_error)
    assert "95 % interval" in str(near_zero.difference(1, 0))
    for i, j in ((0, 3), (-1, 0), ("x", 0)):
        with pytest.raises(ValueError, match=r"^mean: expected a whole number from 0 to 2"):
            found.ratio(i, j)


def test_means_that_no_draw_determines_have_no_difference():
    problems = amci.several(f=["x > 9", "x > 10", "x"], **GIVEN)
    proposals = [amci.load_proposals(p, variant="defensive") for p in problems]
    found = amci.estimate_several(problems, proposals, y=0.0, draws=400)
    assert np.isnan(found.standard_error[:2]).all()
    assert found.standard_error[2] > 0
    for contrast in (found.difference(0, 1), found.difference(2, 0), found.ratio(0, 2)):
        assert np.isnan(contrast.standard_error)
        assert np.isnan(contrast.interval()).all()
        assert str(contrast).endswith(found.estimates[0].verdict.text)


def test_what_does_not_fit_is_refused_in_a_sentence(made):
    problems, proposals = made
    other = amci.model(prior=Normal(0.0, 2.0), likelihood=GIVEN["likelihood"], f="x", name="other")
    both, draws = [problems[0], other], [proposals[0], Proposals.from_defensive(other)]
    for given, options, message in (
        ((problems, proposals[:2]), {}, "proposals: expected one for each of 3 problems"),
        ((problems, proposals), {"draws": 10}, r"draws: expected at least \d+, two per proposal"),
        ((both, draws), {}, r"problems: other has another p\(x, y\)"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            amci.estimate_several(*given, y=3.0, **options)
    alone = amci.model(prior=Normal(0.0, 1.0), f="x")
    with pytest.raises(ValueError, match=r"^q2: expected proposals with a q2"):
        amci.learn(problems[0], q2=Proposals.from_defensive(alone))


@pytest.mark.slow
def test_one_q2_serves_several_f():
    first, second = amci.several(f=["x > theta", "x < theta"], theta=Uniform(0.0, 2.0), **GIVEN)
    one = Proposals.from_defensive(first)
    other = amci.learn(second, steps=1, q2=one, progress=False)
    assert other.q2 is one.q2
    found = amci.estimate_several([first, second], [one, other], y=1.0, theta=1.0, draws=400)
    # Two probabilities that add up to one.
    assert abs(found.value.sum() - 1) < 5 * np.sqrt(found.covariance.sum())
