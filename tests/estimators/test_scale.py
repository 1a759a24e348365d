"""Units of f and of p(x, y) change no relative result: a mu of 1e-300 is as good as one of 0.1."""

import re
from dataclasses import replace

import numpy as np
import pytest
from discrete import Discrete, signed

from amci_core.estimation import Estimate
from amci_core.estimators import ESTIMATORS, moments, resolve, tables
from amci_core.estimators.estimators import PaperReuse

MODEL = signed()
TABLE = np.array([[0.6, -0.3, 0.2], [0.1, 0.8, 0.3], [0.3, 0.5, 0.5]])


def drawn(estimator, *, total=240, runs=40, seed=0):
    """Draws of every proposal that the estimator needs for this total."""
    counts = estimator.reserve([total], (0, 1, 2))
    draws = MODEL.draws(tuple(counts.tolist()), runs=runs, seed=seed)
    if isinstance(estimator, PaperReuse):
        draws = replace(draws, f=abs(draws.f), signed=False)
    return draws


def estimated(estimator, draws, *, total=240):
    prepared = estimator.running(draws, [total], np.random.default_rng(1))
    return Estimate(prepared, positive=False)


@pytest.mark.parametrize("name", [*ESTIMATORS, "a table"])
@pytest.mark.parametrize(("size", "nats"), [(1e-200, 0.0), (1e200, 0.0), (1e-290, -3000.0)])
def test_no_unit_changes_what_an_estimate_says(name, size, nats):
    estimator = resolve(TABLE if name == "a table" else name)
    draws = drawn(estimator)
    scaled = replace(draws, f=size * draws.f, log_joint=draws.log_joint + nats)
    near, far = estimated(estimator, draws), estimated(estimator, scaled)
    # Logarithms of 3000 nats are known to 3000 rounding errors.
    np.testing.assert_allclose(far.log_value, near.log_value + np.log(size), rtol=1e-10)
    for figure in ("value", "standard_error"):
        expected = getattr(near, figure)
        np.testing.assert_allclose(getattr(far, figure) / size, expected, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(
        far.relative_standard_error, near.standard_error / abs(near.value), rtol=1e-7
    )
    for end, expected in zip(far.interval(), near.interval(), strict=True):
        np.testing.assert_allclose(end / size, expected, rtol=1e-7)
    np.testing.assert_array_equal(far.verdict.codes, near.verdict.codes)
    for term, found in far.diagnostics.items():
        for figure in ("ess", "pooled_ess", "uncovered_mass", "largest_weight"):
            expected = getattr(near.diagnostics[term], figure)
            np.testing.assert_allclose(getattr(found, figure), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("smaller", ["E1_plus", "E1_minus"])
def test_each_term_has_its_own_unit(smaller):
    # One part of f is 1e-200 of the other: mu is the other's, its own error is known as well.
    sign = 1 if smaller == "E1_plus" else -1
    estimator = resolve("amci")
    draws = drawn(estimator)
    uneven = replace(draws, f=np.where(sign * draws.f > 0, 1e-200, 1.0) * draws.f)
    near, far = estimated(estimator, draws), estimated(estimator, uneven)
    for term, found in far.diagnostics.items():
        expected = near.diagnostics[term]
        np.testing.assert_allclose(found.pooled_ess, expected.pooled_ess, rtol=1e-9)
    larger = "E1_minus" if smaller == "E1_plus" else "E1_plus"
    expected = near.terms[larger].log_value - near.terms["E2"].log_value
    np.testing.assert_allclose(far.log_value, expected, rtol=1e-12)
    assert (far.relative_standard_error > 0.01).all()


def test_no_unit_changes_an_optimal_table():
    draws = drawn(resolve("amci"), runs=1)
    scaled = replace(draws, f=1e-290 * draws.f, log_joint=draws.log_joint - 3000)
    near, far = moments(draws), moments(scaled)
    np.testing.assert_allclose(tables.optimum(far), tables.optimum(near), rtol=1e-6)


def test_a_mu_that_no_float_holds_is_shown_with_its_error():
    # mu = 3e-401: 1e-200 of the posterior has f > 0, and f is about 1e-200 there.
    rare = Discrete(
        joint=np.array([0.2, 0.3, 1e-201, 2e-201]),
        f=np.array([0.0, 0.0, 1e-200, 7e-200]),
        q=np.array([[0.0, 0.0, 0.4, 0.6], [0.25] * 4, [0.5, 0.5, 1e-201, 1e-201]]),
    )
    draws = replace(rare.draws((500, 0, 500), runs=1, seed=0), signed=False)
    found = Estimate(resolve("amci").apply(draws), positive=True)
    assert found.value == 0
    error = found.relative_standard_error.item()
    assert 0.01 < error < 0.1
    log_mu = np.log(1e-201) + np.log(1e-200) + np.log(15 / 0.5)
    assert found.log_value.item() == pytest.approx(log_mu, abs=4 * error)
    lines = str(found).splitlines()
    assert re.fullmatch(r"mu = exp\(-9\d\d\.\d+\), standard error 0 \(\d\.\d+ %\)", lines[0])
    assert found.verdict.text == lines[2]
