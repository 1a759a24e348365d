"""What the sliders do to the densities, and to one another."""

import numpy as np
import pytest
import torch
from amci_explorer.numbers.play import playback
from amci_explorer.text import number

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

Y, THETA, LEVEL = "Observation y", "Threshold θ", "Mismatch, nats"


def density(proposal, y, theta, x):
    y, theta = amci.problem("tail-1d").check(y, theta)
    with torch.inference_mode():
        return np.exp(proposal(y, theta).log_prob(torch.as_tensor(x)[:, None]).numpy())


def assert_densities(visit, y, theta, q1):
    """The page shows q1, g and the posterior at (y, theta), as the core computes them."""
    x = visit.data("densities", "x")
    exact = amci.load_proposals("tail-1d", variant="oracle")
    for column, proposal in [("target", exact.q1_plus), ("posterior", exact.q2), ("q1", q1)]:
        expected = density(proposal, y, theta, x)
        np.testing.assert_allclose(
            visit.data("densities", column), expected, rtol=1e-9, atol=1e-20, err_msg=column
        )


def other_proposals_are_shown(opened):
    opened.unfold("Proposals")
    for variant in ("paper", "oracle", "spline"):
        before = opened.data("densities", "q1")
        opened.press(variant)
        opened.wait_for_other("densities", "q1", before)
        q1 = amci.load_proposals("tail-1d", variant=variant).q1_plus
        assert_densities(opened, 1.0, 3.0, q1)
        if variant == "oracle":
            errors_of_exact_proposals_are_drawn_on_logarithmic_axes(opened)


def errors_of_exact_proposals_are_drawn_on_logarithmic_axes(opened):
    opened.wait_for_text("exact up to rounding")
    opened.wait_for_end(20)
    for column in ("low", "median", "high", "error"):
        assert (opened.data("errors-amci", column) > 0).all()
    ends = opened.page.evaluate(
        "() => { const r = Bokeh.documents[0].get_model_by_name('errors').y_range;"
        " return [r.start, r.end] }"
    )
    assert 0 < ends[0] < ends[1] < 1e6


def the_film_shows_its_frames_and_plays_to_the_end(opened):
    snapshots = amci.load_history("tail-1d")
    trained = opened.data("densities", "q1")
    opened.unfold("Proposals")
    opened.move("Training history", 0)
    first = opened.wait_for_other("densities", "q1", trained)
    assert_densities(opened, 1.0, 3.0, snapshots[0].proposals.q1_plus)
    opened.wait_for_text(f"step {snapshots[0].step:,}, after")
    opened.page.get_by_role("button", name="Play", exact=True).first.click()
    opened.wait_for_other("densities", "q1", first)
    opened.page.get_by_text("Training history: trained").wait_for(timeout=60_000)
    opened.wait(
        """old => {
            const now = Bokeh.documents[0].get_model_by_name("densities").data.q1
            return now.length == old.length && old.every((value, i) => value == now[i])
        }""",
        trained.tolist(),
    )
    assert_densities(opened, 1.0, 3.0, amci.load_proposals("tail-1d").q1_plus)


def each_slider_moves_the_densities_and_the_others_follow(opened):
    problem, q1 = amci.problem("tail-1d"), amci.load_proposals("tail-1d").q1_plus
    y, theta = 1.0, 3.0
    for label, value in [(Y, 2.5), (THETA, 0.5), (LEVEL, 4), (Y, -4), (LEVEL, 20), (THETA, 5)]:
        before = opened.data("densities", "target")
        opened.move(label, value)
        opened.wait_for_other("densities", "target", before)
        if label == LEVEL:
            # To the digits that the state keeps.
            theta = float(f"{float(problem.at_mismatch(value, y, theta)[1][0]):.6g}")
        y, theta = (value, theta) if label == Y else (y, value if label == THETA else theta)
        assert_densities(opened, y, theta, q1)
        opened.wait_for_text(f"{number(float(problem.mismatch(y, theta)), 2)} nats")
        assert opened.value(label) == value
        assert opened.value(Y) == y
        opened.wait_for_value(THETA, theta, within=0.006)
        opened.wait_for_value(LEVEL, float(problem.mismatch(y, theta)), within=0.011)


def test_densities_follow_the_proposals_the_film_and_every_slider(visit):
    opened = visit("?runs=20")
    # It opens at the large mismatch.
    assert (opened.value(Y), opened.value(THETA)) == (1, 3)
    assert_densities(opened, 1.0, 3.0, amci.load_proposals("tail-1d").q1_plus)
    other_proposals_are_shown(opened)
    the_film_shows_its_frames_and_plays_to_the_end(opened)
    each_slider_moves_the_densities_and_the_others_follow(opened)


def test_draws_are_ticks_that_captions_count_and_follow_the_case(visit):
    opened = visit("?runs=4&draws=16&seed=5")
    problem = amci.problem("tail-1d")

    def drawn(theta):
        proposals = amci.load_proposals(problem)
        lanes = playback(problem, proposals, [1.0], [theta], draws=16, seed=5).lanes
        return {lane.proposal: lane.x[:16] for lane in lanes}

    first = opened.wait_for_data("densities-draws", "q1")
    np.testing.assert_allclose(first, drawn(3.0)["q1_plus"])
    np.testing.assert_allclose(opened.data("densities-draws", "q2"), drawn(3.0)["q2"])
    opened.wait_for_text("16 draws from q₂ match the posterior: 0 above θ")
    opened.move("Threshold θ", 0.5)
    second = opened.wait_for_other("densities-draws", "q1", first)
    np.testing.assert_allclose(second, drawn(0.5)["q1_plus"])
    above = (drawn(0.5)["q2"] > 0.5).sum()
    opened.wait_for_text(f"{'all' if above == 16 else above} above θ")
