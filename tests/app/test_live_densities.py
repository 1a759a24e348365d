r"""Whose densities the page may compute by itself, and what it is told of them."""

import json

import pytest
from amci_explorer.state.case import Case
from amci_explorer.views.panel import DensityPanel, LivePage


def shown(**chosen):
    """A case, its densities, and what the page is told of them."""
    state = Case()
    assert state.read(chosen) == {}
    panel = DensityPanel(state)
    panel.open()
    [live] = panel.panel.select(LivePage)
    return state, panel, live


def test_a_problem_on_the_line_is_the_pages_which_is_sent_the_case_and_weights_it_asks_for():
    state, panel, live = shown(problem="tail-1d", y="0.5", theta="2")
    assert live.key == "tail-1d/spline"
    assert (live.y, live.theta) == ([0.5], [2.0])
    state.move(theta=[1.5])
    panel.follow({"theta"})
    assert (live.theta, live.weights) == ([1.5], "")
    live.asked = live.key
    stored = json.loads(live.weights)
    assert stored["key"] == "tail-1d/spline"
    assert set(stored["proposals"]) == {"q1_plus", "q2"}
    state.open("gain-loss")
    panel.open()
    assert (live.key, live.weights) == ("gain-loss/spline", "")
    live.asked = "tail-1d/spline"
    assert live.weights == ""
    live.asked = live.key
    assert json.loads(live.weights)["key"] == live.key


@pytest.mark.parametrize(
    "chosen",
    [{"problem": "cancer"}, {"problem": "tail-5d"}]
    + [
        {"problem": "tail-1d"} | other
        for other in ({"variant": "oracle"}, {"snapshot": "0"}, {"f": "x**2"})
    ],
)
def test_what_the_page_cannot_compute_is_the_servers(chosen):
    _, _, live = shown(**chosen)
    assert live.key == ""
    live.asked = "tail-1d/spline"
    assert live.weights == ""
