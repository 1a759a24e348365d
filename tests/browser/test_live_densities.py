"""Densities live under a handle: the page computes them, and the server confirms them."""

import numpy as np
import pytest
import torch

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

QUERY = "?runs=4&draws=8"
THETA, LEVEL = "Threshold θ", "Mismatch, nats"
# Moves a handle as a hand does, and reads the picture before anybody can have answered.
MOVED = """(handle, value) => {
    const page = Bokeh.documents[0], source = page.get_model_by_name("densities")
    window.before = source.data
    handle.value = value
    handle.dispatchEvent(new Event("input"))
    const data = window.painted = source.data
    const bound = page.get_model_by_name("densities-threshold").data.x[0]
    handle.dispatchEvent(new Event("change"))
    return {...Object.fromEntries(Object.entries(data).map(([k, v]) => [k, [...v]])), bound}
}"""
ANSWERED = """source => ![window.before, window.painted].includes(
    Bokeh.documents[0].get_model_by_name(source).data)"""


def density(problem, name, y, theta, x):
    q = getattr(amci.load_proposals(problem), name)(*amci.problem(problem).check(y, theta))
    with torch.inference_mode():
        found = q.log_prob(torch.tensor(x, dtype=torch.float64)[:, None]).exp().numpy()
    return np.maximum(found, 1e-30)


def test_a_move_is_painted_before_the_server_is_asked(visit):
    opened = visit(QUERY + "&problem=gain-loss")
    opened.wait_for_end(4)
    opened.reach("Price θ")
    y = opened.value("Observation y")
    found = opened.slider("Price θ").evaluate(MOVED, -0.7)
    for column, name in (("q1", "q1_plus"), ("q2", "q2")):
        expected = density("gain-loss", name, y, -0.7, found["x"])
        np.testing.assert_allclose(found[column], expected, 1e-8)
    assert found["bound"] == -0.7
    # Then the server's own points take their place, at the same case.
    opened.wait(ANSWERED, "densities")
    expected = density("gain-loss", "q1_plus", y, -0.7, opened.data("densities", "x"))
    np.testing.assert_allclose(opened.data("densities", "q1"), expected, rtol=1e-8)


def keys_lead_from_handle_to_handle(opened):
    opened.slider("Observation y").focus()
    opened.page.keyboard.press("ArrowRight")
    opened.slider(THETA).focus()
    opened.watch_threshold(THETA)
    for _ in range(10):
        opened.page.keyboard.press("ArrowLeft")
        opened.wait_for_frames(2)
    seen = opened.seen()
    assert len(np.unique(seen[:, 0])) > 5
    np.testing.assert_allclose(seen[:, 1], seen[:, 0], atol=1e-9)


def the_mismatch_leads_along_its_path(opened):
    found = opened.slider(LEVEL).evaluate(MOVED, 5.0)
    _, theta = amci.problem("tail-1d").at_mismatch(5.0, opened.value("Observation y"), 0.0)
    assert found["bound"] == pytest.approx(float(theta[0]), abs=1e-6)


def the_line_in_the_picture_moves_the_case(opened):
    opened.move(THETA, 3)
    opened.wait("() => location.search.includes('theta=3&')")
    line = opened.page.get_by_role("slider", name="Line of θ")
    opened.reach("Line of θ")
    for _ in range(5):
        opened.page.keyboard.press("ArrowLeft")
    assert opened.value(THETA) == 2.95
    box, mouse = line.bounding_box(), opened.page.mouse
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x - 70, y)
    opened.wait_for_frames(2)
    theta = opened.value(THETA)
    assert theta < 2
    assert opened.data("densities-threshold", "x") == theta
    mouse.up()
    opened.wait(f"() => location.search.includes('theta={theta:g}')")


def test_keys_the_mismatch_and_the_line_in_the_picture_move_the_case(visit):
    opened = visit(QUERY)
    opened.wait_for_end(4)
    opened.reach(THETA)
    keys_lead_from_handle_to_handle(opened)
    the_mismatch_leads_along_its_path(opened)
    the_line_in_the_picture_moves_the_case(opened)


def test_curves_follow_a_handle_before_it_is_let_go(visit):
    opened = visit("?draws=8")
    opened.wait_for_data("errors-amci", "error")
    opened.reach(THETA)
    level, address = opened.value(LEVEL), opened.page.url
    with opened.dragged(opened.slider(THETA), by=-0.3):
        # The other handles follow.
        assert opened.value(LEVEL) < level - 1
        mu = amci.problem("tail-1d").truth(1.0, opened.value(THETA))
        bound = 200 * (1 - float(mu)) / np.sqrt(opened.data("errors-bound", "draws"))
        opened.wait(
            """bound => Math.abs(Bokeh.documents[0].get_model_by_name("errors-bound")
                .data.error[0] / bound - 1) < 1e-9""",
            bound[0],
        )
        assert np.isfinite(opened.data("errors-amci", "error")).sum() > 10
        assert "howing" not in opened.status("errors")
        # Nothing else starts before it is let go.
        assert opened.page.url == address
    opened.wait("() => !location.search.includes('theta=3')")
    theta = opened.value(THETA)
    opened.wait_for_value(LEVEL, float(amci.problem("tail-1d").mismatch(1.0, theta)), within=0.01)


def test_proposals_are_chosen_and_their_training_history_is_played(visit):
    opened = visit("?runs=4&draws=8")
    opened.unfold("Proposals")
    trained = opened.wait_for_data("densities", "q1")
    opened.press("oracle")
    opened.wait_for_other("densities", "q1", trained)
    opened.wait_for_text("exact up to rounding")
    opened.press("spline")
    opened.wait_for_same_data("densities", "q1", trained)
    opened.page.get_by_role("button", name="First frame", exact=True).first.click()
    first = opened.wait_for_other("densities", "q1", trained)
    opened.wait_for_text(f"step {amci.load_history('tail-1d')[0].step:,}, after")
    opened.page.get_by_role("button", name="Play", exact=True).first.click()
    opened.wait_for_other("densities", "q1", first)
    opened.wait_for_text("Training history: trained")
    opened.wait_for_same_data("densities", "q1", trained)
