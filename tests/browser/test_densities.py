"""What the sliders do to the densities, and to one another."""

import numpy as np
import pytest
import torch

import amci_core as amci
from app.summary import number

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Y, THETA, LEVEL = "Observation y", "Threshold θ", "Mismatch level, nats"


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


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


def test_opens_at_the_large_mismatch(visit):
    opened = visit()
    assert (opened.value(Y), opened.value(THETA)) == (1, 3)
    assert_densities(opened, 1.0, 3.0, amci.load_proposals("tail-1d").q1_plus)


def test_each_slider_moves_the_densities_and_the_others_follow(visit, problem):
    opened = visit("?runs=4")
    q1 = amci.load_proposals("tail-1d").q1_plus
    y, theta = 1.0, 3.0
    for label, value in [(Y, 2.5), (THETA, 0.5), (LEVEL, 4), (Y, -4), (LEVEL, 20), (THETA, 5)]:
        before = opened.data("densities", "target")
        opened.move(label, value)
        opened.wait_for_other("densities", "target", before)
        if label == LEVEL:
            theta = float(problem.at_mismatch(value, y, theta)[1][0])
        y, theta = (value, theta) if label == Y else (y, value if label == THETA else theta)
        assert_densities(opened, y, theta, q1)
        opened.wait_for_text(f"{number(float(problem.mismatch(y, theta)))} nats")
        assert opened.value(label) == value
        assert opened.value(Y) == y
        opened.wait_for_value(THETA, theta, within=0.006)
        opened.wait_for_value(LEVEL, float(problem.mismatch(y, theta)), within=0.011)


def test_other_proposals_are_shown(visit):
    opened = visit("?runs=4")
    for variant in ("paper", "oracle", "spline"):
        before = opened.data("densities", "q1")
        opened.press(variant)
        opened.wait_for_other("densities", "q1", before)
        q1 = amci.load_proposals("tail-1d", variant=variant).q1_plus
        assert_densities(opened, 1.0, 3.0, q1)


def test_the_logarithmic_picture_takes_the_place_of_the_linear_one(visit):
    opened = visit("?runs=4")
    shown = """() => ["densities-linear", "densities-log"].map(name =>
        Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name(name))?.el.offsetWidth > 0)"""
    opened.wait(f"() => ({shown})().toString() == 'true,false'")
    opened.press("log")
    opened.wait(f"() => ({shown})().toString() == 'false,true'")


def test_frames_of_the_film_are_shown_and_it_plays_to_the_end(visit):
    snapshots = amci.load_snapshots("tail-1d")
    opened = visit("?runs=4")
    trained = opened.data("densities", "q1")
    opened.move("Frame", 0)
    first = opened.wait_for_other("densities", "q1", trained)
    assert_densities(opened, 1.0, 3.0, snapshots[0].proposals.q1_plus)
    opened.wait_for_text(f"Step {snapshots[0].step:,}")
    opened.page.get_by_role("button", name="Play").click()
    opened.wait_for_other("densities", "q1", first)
    opened.wait_for_text(f"Step {snapshots[-1].step:,}")
    assert_densities(opened, 1.0, 3.0, amci.load_proposals("tail-1d").q1_plus)


# Words of a legend beyond the ends of its picture, in pixels, for every legend that can be seen.
BEYOND = """
    () => [...Bokeh.index.query(v => v.model.type == "Figure" && v.el.clientWidth > 0)]
        .flatMap(view => view.model.above
            .filter(model => model.type == "Legend")
            .flatMap(model => Bokeh.index.find_one(model).entries.map(entry => {
                const words = entry.label_el.getBoundingClientRect()
                const canvas = view.canvas_view.el.getBoundingClientRect()
                const beyond = Math.max(canvas.left - words.left, words.right - canvas.right)
                return [view.model.name, entry.label, beyond]
            })))
"""


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_legends_stay_within_their_pictures(visit, width):
    opened = visit("?problem=gain-loss&runs=4", width=width, height=4000)
    opened.wait_for_end(4)
    for scale in ("linear", "log"):
        opened.press(scale)
        name = f"densities-{scale}"
        opened.wait(f"() => ({BEYOND})().filter(([name]) => name == '{name}').length == 6")
        opened.wait(f"() => ({BEYOND})().every(([name, label, beyond]) => beyond <= 0)")
        # Not by one row for each: the picture would have no height left.
        rows = opened.page.evaluate(
            """name => 1 + Math.max(...Bokeh.index.find_one(
                Bokeh.documents[0].get_model_by_name(name).above[0]
            ).entries.map(entry => entry.row))""",
            name,
        )
        assert rows <= 3
