"""Weighted draws of the posterior, and ArviZ's view of them and of estimates."""

import sys

import numpy as np
import pytest
from imperfect import imperfect
from scipy.special import logsumexp

import amci_core as amci

Y = 1.0  # of tail-1d, where p(x | y) = N(y / 2, 1 / 2)


@pytest.fixture(params=["arviz_base", "arviz"])
def library(request, monkeypatch):
    """One of the two libraries alone, if it is installed."""
    pytest.importorskip(request.param)
    if request.param == "arviz":
        monkeypatch.setitem(sys.modules, "arviz_base", None)
    return request.param


@pytest.mark.parametrize(
    "proposals", [amci.load_proposals("tail-1d", variant="oracle"), imperfect()]
)
def test_weighted_draws_follow_the_posterior(proposals):
    draws = proposals.sample(Y, 4000)
    x, w = draws.x[:, 0], draws.weights
    mean = w @ x
    error = np.sqrt(np.square(w) @ np.square(x - mean))
    assert abs(mean - Y / 2) < 4 * error
    square = np.square(x - Y / 2)
    assert abs(w @ square - 0.5) < 4 * np.sqrt(np.square(w) @ np.square(square - 0.5))
    log_evidence = logsumexp(draws.log_weights) - np.log(len(w))
    known = amci.problem("tail-1d").log_terms(Y, 3.0)["E2"]
    assert abs(log_evidence - known) < 4 / np.sqrt(draws.ess) + 1e-9


def test_without_q2_the_prior_draws_and_one_observation_is_asked_for():
    peak = amci.load_proposals("peak").sample(None, 500)
    assert peak.ess == pytest.approx(500)  # there is no y: the prior is the posterior
    prior = amci.Proposals.from_defensive(amci.problem("tail-1d")).sample(Y, 2000)
    mean = prior.weights @ prior.x[:, 0]
    assert abs(mean - Y / 2) < 4 * np.sqrt(0.5 / prior.ess)
    assert np.array_equal(
        prior.x, amci.load_proposals("tail-1d", variant="defensive").sample(Y, 2000).x
    )
    with pytest.raises(ValueError, match="y: expected one observation, got"):
        amci.load_proposals("tail-1d").sample([[1.0], [2.0]])


def test_the_summary_of_resampled_draws_has_the_weighted_mean_and_its_error(library):
    draws = imperfect().sample(Y, 4000)
    x, w = draws.x[:, 0], draws.weights
    error = np.sqrt(np.square(w) @ np.square(x - w @ x))
    data = draws.to_arviz()
    if library == "arviz":
        row = pytest.importorskip("arviz").summary(data, round_to="none").iloc[0]
    else:
        from arviz_stats import summary

        row = summary(data, round_to="none").iloc[0]
    assert abs(row["mean"] - w @ x) < error
    assert row["mcse_mean"] == pytest.approx(error, rel=0.3)
    weighted = data["weighted_posterior"]
    assert np.array_equal(np.ravel(weighted["log_weight"]), draws.log_weights)


ESTIMATES = {
    "with q1_complement": ("tail-1d", Y, 1.5, "amci-cv"),
    "of both signs": ("gain-loss", 1.0, 0.4, "amci"),
    "with a known evidence": ("peak", None, None, "amci-cv"),
    "by q2 alone": ("tail-1d", Y, 1.5, "snis-q2"),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_an_estimate_is_the_same_from_its_inference_data(name, library):
    problem, y, theta, estimator = ESTIMATES[name]
    theta = amci.problem(problem).typical_case()[1] if theta is None else theta
    e = amci.estimate(problem, y=y, theta=theta, draws=2000, estimator=estimator)
    data = e.to_arviz()
    same = amci.estimate_from_draws(data).estimates[estimator]
    assert same.value == e.value
    assert same.standard_error == pytest.approx(e.standard_error, rel=1e-6)
    f = np.ravel(data["posterior"]["f"])
    assert abs(f.mean() - e.value) < 5 * f.std() / np.sqrt(len(f)) + 5 * e.standard_error


def test_what_cannot_be_made_says_what_to_do(monkeypatch):
    several = amci.estimate("tail-1d", y=Y, theta=[[1.0], [2.0]], draws=200)
    with pytest.raises(ValueError, match="to_arviz: expected one case, got"):
        several.to_arviz()
    for library in ("arviz_base", "arviz"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match="pip install arviz-base"):
        amci.load_proposals("tail-1d").sample(Y, 10).to_arviz()
