"""How a budget is split over proposals, and the bound on what any SNIS makes of it."""

import numpy as np
import pytest
from discrete import signed

import amci_core as amci
from amci_core.estimators import Moments, snis_bound, split_draws, tables
from amci_core.estimators.budget import predicted_variance

MODEL = signed()


def moments() -> Moments:
    return MODEL.moments((1, 1, 1))


def amci_table(_: Moments):
    return tables.amci()


REUSE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("scheme", "table"),
    [("amci", amci_table), ("amci-cv", amci_table), (REUSE, lambda _: REUSE)],
    ids=["amci", "amci-cv", "reuse"],
)
def test_no_split_has_less_variance(scheme, table):
    total = 10_000
    counts = np.array(list(split_draws(moments(), total, estimator=scheme).values()))
    assert counts.sum() == total
    least = float(predicted_variance(moments(), counts, table=table))
    rng = np.random.default_rng(0)
    for share in rng.dirichlet(np.ones(3), size=300):
        other = np.maximum(share * total, 1e-3)
        assert float(predicted_variance(moments(), other, table=table)) > least * (1 - 1e-3)


@pytest.mark.parametrize(("estimator", "proposal"), [("snis-q1", "q1_plus"), ("snis-q2", "q2")])
def test_snis_gives_all_draws_to_its_one_proposal(estimator, proposal):
    assert split_draws(moments(), 1000, estimator=estimator) == {proposal: 1000}


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        ("snis-qm", "estimator: expected amci-cv, amci or a fixed table"),
        ("best", "estimator: expected one of amci-cv, .* or a table, got 'best'"),
    ],
)
def test_bad_arguments_are_named(estimator, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        split_draws(moments(), 100, estimator=estimator)


def test_the_bound_of_an_indicator_has_a_closed_form():
    problem = amci.problem("tail-1d")
    y, theta = problem.cases(50, seed=0)
    draws = np.array([2, 10, 1000])
    mu = problem.truth(y, theta)[:, None]
    relative = snis_bound(problem.mean_absolute_deviation(y, theta), draws) / mu**2
    np.testing.assert_allclose(relative, 4 * (1 - mu) ** 2 / draws, rtol=1e-9)


def test_the_bound_is_the_variance_of_the_best_proposal():
    # With q proportional to p |f - mu|, the SNIS error has variance (E|f - mu|)^2 / T.
    p = np.array([0.2, 0.5, 0.3])
    f = np.array([-1.0, 0.5, 4.0])
    deviation = p @ abs(f - p @ f)
    q = p * abs(f - p @ f) / deviation
    variance = q @ (p / q * (f - p @ f)) ** 2
    assert snis_bound(np.array(deviation), [7])[0] == pytest.approx(variance / 7)
