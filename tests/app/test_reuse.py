from dataclasses import replace

import numpy as np
import pytest
from amci_explorer.compute.computations import REUSE_GRID
from amci_explorer.compute.results import Result, Results
from amci_explorer.state.state import State
from amci_explorer.views.reuse import ReuseCard
from bokeh.events import Pan, PanEnd, Tap

import amci_core as amci
from amci_core.estimators import relative_variance, tables

SHARES = np.arange(1, 100) / 100


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


def errors(problem, **more):
    return amci.reuse_errors(
        problem,
        amci.load_proposals("tail-1d", variant="paper"),
        2.0,
        1.0,
        alphas=REUSE_GRID.tolist(),
        betas=REUSE_GRID.tolist(),
        draws=500,
        runs=100,
        **more,
    )


@pytest.fixture(scope="module")
def found(problem):
    return errors(problem)


@pytest.fixture
def card():
    state = State("tail-1d")
    state.move(y=2.0, theta=1.0)
    state.set(variant="paper", draws=500, runs=100)
    created = ReuseCard(state, Results())
    created.open()
    return created


def show(card, found):
    card.take(Result(card.asked(card.state), found, 0.0, complete=True))


def marks(card):
    return {mark["label"].split()[2].rstrip(","): mark["value"] for mark in card.share.marks}


def test_the_splits_marked_on_the_slider_are_those_of_least_error(card, found):
    assert not card.share.marks
    show(card, found)
    total = sum(found.counts)
    counts = [np.array([share * total, 0, (1 - share) * total]) for share in SHARES]
    for name, table in (("AMCI", lambda _: tables.reuse(1, 0)), ("u*", tables.optimum)):
        moments = [replace(found.moments, counts=n) for n in counts]
        variance = [float(relative_variance(table(m), m)) for m in moments]
        best = SHARES[int(np.argmin(variance))]
        assert marks(card)[name] == pytest.approx(best, abs=0.0101), name
        assert variance[round(100 * marks(card)[name]) - 1] < 1.001 * min(variance), name


def test_the_optimum_of_thin_tailed_proposals_is_marked_where_it_helps(problem):
    state = State("tail-1d")
    state.move(y=3.0, theta=0.1)
    state.set(variant="paper", draws=64, runs=100)
    card = ReuseCard(state, Results())
    card.open()
    proposals = amci.load_proposals("tail-1d", variant="paper")
    found = amci.reuse_errors(
        problem, proposals, 3.0, 0.1, alphas=[0, 1], betas=[0, 1], draws=64, runs=100
    )
    show(card, found)
    marks = {each.label: each for each in card.map.shown if each.group == "Mark"}
    for label in ("α*, β* of the paper", "u*, the optimum"):
        assert marks[label].dimension_values("alpha")[0] == pytest.approx(0.86, abs=0.05)
    (at_optimum,), _ = found.mean_along([found.optimum[0]], beta=found.optimum[1])
    assert at_optimum < found.remse[1, 0]


def test_a_mark_says_in_words_where_it_is(card, found):
    show(card, found)
    for mark in card.share.marks:
        of_q1 = round(100 * mark["value"])
        assert mark["label"].endswith(f", {of_q1} : {100 - of_q1}")


def test_the_point_of_the_map_is_clicked_or_dragged(card, found):
    show(card, found)
    card.map.get_root()
    shown, state = card.map.figure, card.state

    def happens(kind, x, y):
        for act in shown._event_callbacks[kind.event_name]:
            act(kind(shown, x=x, y=y))
        return card.map.source("yours-yours").data

    assert happens(Tap, 0.403, -0.1) == {"alpha": [0.4], "beta": [-0.1]}
    assert happens(Pan, 0.6, 0.2) == {"alpha": [0.6], "beta": [0.2]}
    assert (state.alpha, state.beta) == (0.6, 0.2)
    assert happens(PanEnd, 9.0, 0.3) == {"alpha": [1.5], "beta": [0.3]}


def test_draws_in_pairs_leave_nothing_to_split(card, found, problem):
    show(card, found)
    card.state.set(common=True, share=0.3)
    assert dict(card.asked(card.state).options) == {"share": 0.5, "common": True}
    show(card, errors(problem, common=True))
    assert not card.share.marks
