r"""Draws one by one: the numbers that are played are those of the core's estimates."""

import numpy as np
import pytest
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.play import MOST, playback

import amci_core as amci
from amci_core.estimators.draws import PROPOSALS


@pytest.mark.parametrize(
    ("name", "y", "theta"), [("gain-loss", 1.0, 0.4), ("peak", None, (0.3, 0.7, 1.0))]
)
def test_on_the_way_stands_the_estimate_of_the_page(name, y, theta):
    problem, proposals = amci.problem(name), amci.load_proposals(name)
    found = playback(CaseDraws(problem, proposals, y, theta, draws=64, seed=3))
    each = {PROPOSALS[j]: 64 for j in proposals.present}
    expected = amci.estimate(problem, proposals, y, theta, draws=each, estimator="amci", seed=3)
    assert found.estimate[63] == pytest.approx(float(expected.value), rel=1e-9)
    assert found.error[63] == pytest.approx(float(expected.standard_error), rel=1e-9)
    assert found.mu.value == pytest.approx(float(problem.truth(y, theta)))
    for lane in found.lanes:
        assert len(lane.x) == MOST
        assert lane.weight.mean() == pytest.approx(1)


@pytest.mark.parametrize("variant", ["spline", "oracle"])
def test_estimates_are_the_ratios_of_what_the_dots_show_and_exact_for_exact_proposals(variant):
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d", variant=variant)
    found = playback(CaseDraws(problem, proposals, 1.0, 0.5, draws=64, seed=1))
    # Each a running mean in units of the last.
    first, second = (np.cumsum(lane.weight) / np.arange(1, MOST + 1) for lane in found.lanes)
    ratios = first / second * found.estimate[-1]
    np.testing.assert_allclose(found.estimate, ratios, rtol=1e-9)
    # SNIS: the share of the posterior's weight above theta.
    x, weight = found.lanes[1].x, found.lanes[1].weight
    share = weight[:100][x[:100] > 0.5].sum() / weight[:100].sum()
    assert found.snis[49] == pytest.approx(share, rel=1e-9)
    if variant == "oracle":
        for lane in found.lanes:
            np.testing.assert_allclose(lane.weight, 1, rtol=1e-9)
        np.testing.assert_allclose(found.estimate, found.mu.value, rtol=1e-9)
