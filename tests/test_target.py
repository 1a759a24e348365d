"""A shipped problem with an f of one's own: the same posterior, and another integral of it."""

import math
import pickle

import numpy as np
import pytest
from scipy.stats import norm

import amci_core as amci
from amci_core.models.expression import ExpressionError
from amci_core.target import fallback_proposals

TAIL = amci.problem("tail-1d")
AT = 1.0, 1.2
POSTERIOR = norm(0.5, math.sqrt(0.5))  # of x for this y


def of_tail(text, **options):
    made = amci.with_target(TAIL, text, **options)
    return made, fallback_proposals(made, amci.load_proposals("tail-1d"))


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("abs(x1 - theta) < 0.5", POSTERIOR.cdf(1.7) - POSTERIOR.cdf(0.7)),
        ("x1 - theta", 0.5 - 1.2),
        ("exp(theta * x1)", math.exp(1.2 * 0.5 + 1.2**2 / 4)),
    ],
)
def test_estimates_are_right_within_their_errors(text, truth):
    problem, proposals = of_tail(text)
    for estimator in ("amci", "snis-q2"):
        e = amci.estimate(problem, proposals, *AT, draws=4000, estimator=estimator, seed=4)
        assert 0 < e.standard_error < 0.1 * max(abs(truth), 1)
        assert abs(e.value - truth) < 5 * e.standard_error
    found = amci.reference_value(problem, *AT, relative_error=0.01)
    assert abs(found.value - truth) < 5 * found.standard_error


@pytest.mark.parametrize(("text", "unit"), [("1e-200 * x1", 1e-200), ("x1 / 1e-200", 1e200)])
def test_f_may_be_in_any_unit(text, unit):
    found = {}
    for f in ("x1", text):
        problem, proposals = of_tail(f)
        e = amci.estimate(problem, proposals, *AT, draws=400, seed=4)
        truth = amci.reference_value(problem, *AT, draws=20_000)
        curves = amci.error_curves(problem, proposals, *AT, draws=[64], runs=4, truth=truth)
        found[f] = (
            [float(v) for v in (e.value, e.standard_error, truth.value, truth.standard_error)],
            [float(e.relative_standard_error), *curves["amci"].remse, *curves["snis-q2"].remse],
        )
    (plain, relative), (scaled, of_scaled) = found["x1"], found[text]
    assert scaled == pytest.approx([unit * v for v in plain], rel=1e-4, abs=0)
    assert of_scaled == pytest.approx(relative, rel=1e-6)


def test_both_signs_are_expected_if_a_draw_is_negative():
    assert of_tail("x1 > theta")[0].nonnegative
    assert of_tail("x1 + 100")[0].nonnegative
    # Negative in the prior's far tail alone, where y = -8 leads.
    far, proposals = of_tail("x1 + 5")
    assert not far.nonnegative
    e = amci.estimate(far, proposals, -8.0, 1.2, draws=4000)
    assert abs(e.value - 1) < 5 * e.standard_error
    signed, proposals = of_tail("max(x1 - theta, 0) - 0.2")
    assert not signed.nonnegative
    assert proposals.present == (0, 1, 2)
    with pytest.raises(ValueError, match=r"f: expected values >= 0.*got -"):
        of_tail("x1", nonnegative=True)
    # At no draw that is tried, but at one of those that are used.
    claimed, proposals = of_tail("1 - 2 * (x1 > 3.5)", nonnegative=True)
    with pytest.raises(ValueError, match=r"f: expected values >= 0.*got -.*nonnegative=False\)"):
        amci.estimate(claimed, proposals, 8.0, 1.2, draws=1000)


def test_in_several_dimensions_and_without_y():
    five = amci.with_target(amci.problem("tail-5d"), "all(x > theta)")
    proposals = fallback_proposals(five, amci.load_proposals("tail-5d"))
    y, theta = np.zeros(5), np.full(5, 0.2)
    e = amci.estimate(five, proposals, y, theta, draws=5000)
    assert abs(e.value - amci.problem("tail-5d").truth(y, theta)) < 5 * e.standard_error
    peak = amci.with_target(amci.problem("peak"), "x1 * x2")
    proposals = fallback_proposals(peak, amci.load_proposals("peak"))
    assert (proposals.q2, proposals.present) == (None, (0,))
    e = amci.estimate(peak, proposals, theta=[0.5, 0.5, 0.5], draws=5000)
    # x is uniform on [-1, 1]^2.
    low, high = peak.x.low, peak.x.high
    assert abs(e.value - ((low + high) / 2) ** 2) < 5 * e.standard_error


def test_mistakes_and_values_that_are_not_finite_are_told():
    with pytest.raises(ExpressionError, match="f, column 6: unknown z") as refused:
        amci.with_target(TAIL, "x1 > z")
    assert refused.value.column == 6
    with pytest.raises(ValueError, match=r"f: expected a text, got function\. amci_core\.model"):
        amci.with_target(TAIL, lambda x, theta: x > theta)
    with pytest.raises(ValueError, match=r"f: expected finite numbers .* got nan at x = \(-"):
        amci.with_target(TAIL, "log(x1)")
    with pytest.raises(ValueError, match="got proposals for peak"):
        fallback_proposals(amci.with_target(TAIL, "x1"), amci.load_proposals("peak"))


def test_another_f_replaces_the_one_before_and_goes_to_processes():
    first, proposals = of_tail("x1 > theta")
    again = amci.with_target(first, "x1 < theta")
    assert again.original is TAIL
    assert again.name == "tail-1d with f = x1 < theta"
    sent, with_it = pickle.loads(pickle.dumps((first, proposals)))
    expected = amci.estimate(first, proposals, *AT).value
    assert amci.estimate(sent, with_it, *AT).value == expected
