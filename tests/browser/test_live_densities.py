"""Densities live under a handle: the page computes them, and the server confirms them."""

import numpy as np
import pytest
import torch

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

QUERY = "?runs=4&draws=8"
LEVEL = "Mismatch, nats"
# Moves a handle as a hand does.
HAND = """
    const inputs = root => [...root.querySelectorAll("*")].flatMap(
        el => [el, ...(el.shadowRoot ? inputs(el.shadowRoot) : [])])
    const moved = (label, value) => {
        const handle = inputs(document).find(el => el.ariaLabel == label)
        handle.value = value
        handle.dispatchEvent(new Event("input"))
        return () => handle.dispatchEvent(new Event("change"))
    }
"""
# Reads the picture before anybody can have answered.
MOVED = f"""([label, value]) => {{{HAND}
    const page = Bokeh.documents[0]
    const source = page.get_model_by_name("densities")
    window.before = source.data
    const let_go = moved(label, value)
    const {{data}} = source
    window.painted = data
    const bound = page.get_model_by_name("densities-threshold").data.x[0]
    let_go()
    return {{...Object.fromEntries(Object.entries(data).map(([k, v]) => [k, [...v]])),
            bound}}
}}"""
ANSWERED = """source => ![window.before, window.painted].includes(
    Bokeh.documents[0].get_model_by_name(source).data)"""


@pytest.fixture
def opened(visit):
    def open_at(query):
        opened = visit(QUERY + query)
        opened.wait_for_end(4)
        return opened

    return open_at


def log_probs(problem, name, y, theta, x):
    proposals = amci.load_proposals(problem)
    given = [torch.tensor([value], dtype=torch.float64) for value in (y, theta)]
    points = torch.tensor(x, dtype=torch.float64)[:, None]
    return getattr(proposals, name)(*given).log_prob(points).numpy()


@pytest.mark.parametrize(
    ("problem", "label", "theta"),
    [("tail-1d", "Threshold θ", 2.2), ("gain-loss", "Price θ", -0.7)],
)
def test_a_move_is_painted_before_the_server_is_asked(opened, problem, label, theta):
    page = opened(f"&problem={problem}")
    page.reach(label)
    y = page.value("Observation y")
    found = page.page.evaluate(MOVED, [label, theta])
    x = np.array(found["x"])
    for column, name in (("q1", "q1_plus"), ("q2", "q2")):
        expected = np.exp(log_probs(problem, name, y, theta, x))
        np.testing.assert_allclose(np.array(found[column]), np.maximum(expected, 1e-30), 1e-8)
    assert found["bound"] == theta
    # Then the server's own points take their place, at the same case.
    page.wait(ANSWERED, "densities")
    served = page.data("densities", "x")
    expected = np.exp(log_probs(problem, "q1_plus", y, theta, served))
    np.testing.assert_allclose(
        page.data("densities", "q1"), np.maximum(expected, 1e-30), rtol=1e-8
    )


def test_the_mismatch_leads_along_its_path(opened):
    page, label = opened("&problem=tail-1d"), LEVEL
    page.reach(label)
    found = page.page.evaluate(MOVED, [label, 5.0])
    y = torch.tensor([page.value("Observation y")], dtype=torch.float64)
    _, theta = amci.problem("tail-1d").at_mismatch(5.0, y, torch.zeros(1, dtype=torch.float64))
    assert found["bound"] == pytest.approx(float(theta[0]), abs=1e-6)


def test_keys_lead_from_handle_to_handle(opened):
    page, label = opened("&problem=tail-1d"), "Threshold θ"
    page.reach("Observation y")
    page.page.keyboard.press("ArrowRight")
    page.slider(label).focus()
    page.watch_threshold(label)
    for _ in range(10):
        page.page.keyboard.press("ArrowLeft")
        page.wait_for_frames(2)
    seen = page.seen()
    assert len(np.unique(seen[:, 0])) > 5
    np.testing.assert_allclose(seen[:, 1], seen[:, 0], atol=1e-9)


def test_curves_follow_a_handle_before_it_is_let_go(visit):
    opened = visit("?draws=8")
    opened.wait_for_data("errors-amci", "error")
    opened.reach("Threshold θ")
    level, search = opened.value(LEVEL), opened.page.evaluate("() => location.search")
    with opened.dragged(opened.slider("Threshold θ"), by=-0.3):
        # The other handles follow.
        assert opened.value(LEVEL) < level - 1
        mu = amci.problem("tail-1d").truth(1.0, opened.value("Threshold θ"))
        bound = 200 * (1 - float(mu)) / np.sqrt(opened.data("errors-bound", "draws"))
        opened.wait(
            """bound => Math.abs(Bokeh.documents[0].get_model_by_name("errors-bound")
                .data.error[0] / bound - 1) < 1e-9""",
            bound[0],
        )
        assert np.isfinite(opened.data("errors-amci", "error")).sum() > 10
        assert "howing" not in opened.status("errors")
        # Nothing else starts before it is let go.
        assert opened.page.evaluate("() => location.search") == search
    opened.wait("() => !location.search.includes('theta=3')")
    theta = opened.value("Threshold θ")
    opened.wait_for_value(LEVEL, float(amci.problem("tail-1d").mismatch(1.0, theta)), within=0.01)


def test_the_line_in_the_picture_moves_the_case(visit):
    opened = visit("?runs=4&draws=8")
    opened.wait_for_end(4)
    line = opened.page.get_by_role("slider", name="Line of θ")
    opened.reach("Line of θ")
    for _ in range(5):
        opened.page.keyboard.press("ArrowLeft")
    assert opened.value("Threshold θ") == 2.95
    box, mouse = line.bounding_box(), opened.page.mouse
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x - 70, y)
    opened.wait_for_frames(2)
    theta = opened.value("Threshold θ")
    assert theta < 2
    assert opened.data("densities-threshold", "x") == theta
    mouse.up()
    opened.wait(f"() => location.search.includes('theta={theta:g}')")
