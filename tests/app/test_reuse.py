"""The card of sample reuse: what it says of the optima, and its point that is dragged."""

import re

import numpy as np
import pytest
from amci_explorer.compute.computations import REUSE_GRID
from amci_explorer.compute.results import Result, Results
from amci_explorer.state.case import Case
from amci_explorer.text import number
from amci_explorer.views.reuse import ReuseCard
from bokeh.events import Pan, PanEnd, Tap

import amci_core as amci


def errors(y=2.0, theta=1.0, *, grid=REUSE_GRID, draws=500, **more):
    given = {"alphas": list(grid), "betas": list(grid), "draws": draws, "runs": 100, **more}
    return amci.reuse_errors("tail-1d", "paper", y, theta, **given)


@pytest.fixture(scope="module")
def found():
    return errors()


def show(card, found):
    card.take(Result(card.asked(card.state), found, 0.0, complete=True))


def shown(found, y=2.0, theta=1.0, draws=500):
    """The card with a result."""
    state = Case("tail-1d")
    state.move(y=y, theta=theta)
    state.set(variant="paper", draws=draws, runs=100)
    card = ReuseCard(state, Results())
    card.open()
    show(card, found)
    return card


def test_what_is_said_of_the_optima_is_what_the_runs_show(found):
    said = re.sub("<[^>]*>", " ", shown(found).text.object)
    # From the runs' own means, without any formula of the core: the error at (alpha, beta).
    (a1, a2), (b1, b2) = found.means[:, 0].T, found.means[:, 1].T

    def remse(at):
        alpha, beta = at
        ratio = (alpha * a1 + (1 - alpha) * b1) / (beta * a2 + (1 - beta) * b2)
        return np.square(ratio - 1).mean()

    points = {
        "yours": (1.0, 0.0),
        "smallest of the map": found.best,
        "α*, β* of the paper": found.paper,
        "u*, the optimum": found.optimum,
    }
    for name, at in points.items():
        pair = f"({at[0]:z.2f}, {at[1]:z.2f})".replace("-", "−")
        assert f"{name}  {pair}  {number(remse(at), 2)}" in said
    # By search, the optimum's error over all pairs of shares.
    grid = np.linspace(-0.5, 1.5, 21)
    least = min(remse((alpha, beta)) for alpha in grid for beta in grid)
    assert remse(found.optimum) < 1.2 * least
    best = [int(n) for n in re.search(r": (\d+) from q₁ for AMCI, (\d+)", said).groups()]
    assert best == list(found.best_splits)


def test_the_optimum_of_thin_tailed_proposals_is_marked_where_it_helps():
    found = errors(3.0, 0.1, grid=[0, 1], draws=64)
    card = shown(found, 3.0, 0.1, draws=64)
    marks = {each.label: each for each in card.map.shown if each.group == "Mark"}
    for label in ("α*, β* of the paper", "u*, the optimum"):
        assert marks[label].dimension_values("alpha")[0] == pytest.approx(0.86, abs=0.05)
    (at_optimum,), _ = found.mean_along([found.optimum[0]], beta=found.optimum[1])
    assert at_optimum < found.remse[1, 0]


def test_the_point_is_clicked_or_dragged_and_draws_in_pairs_leave_nothing_to_split(found):
    card = shown(found)
    card.map.get_root()
    picture, state = card.map.figure, card.state

    def happens(kind, x, y):
        for act in picture._event_callbacks[kind.event_name]:
            act(kind(picture, x=x, y=y))
        return card.map.source("yours-yours").data

    assert happens(Tap, 0.403, -0.1) == {"alpha": [0.4], "beta": [-0.1]}
    assert happens(Pan, 0.6, 0.2) == {"alpha": [0.6], "beta": [0.2]}
    assert (state.alpha, state.beta) == (0.6, 0.2)
    assert happens(PanEnd, 9.0, 0.3) == {"alpha": [1.5], "beta": [0.3]}
    state.set(common=True, share=0.3)
    assert dict(card.asked(state).options) == {"share": 0.5, "common": True}
    show(card, errors(common=True))
    assert "from q₁ for AMCI" not in card.text.object
