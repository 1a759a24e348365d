import numpy as np
import pytest

import amci_core as amci
from amci_core.estimators import tables
from amci_core.estimators.budget import predicted_variance
from app.store import REUSE_GRID
from app.views.reuse import ReuseView

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
def view():
    asked = []
    created = ReuseView(again=lambda: asked.append(created.share.value))
    created.asked = asked
    return created


def marks(view):
    return {mark["label"].split()[2].rstrip(","): mark["value"] for mark in view.share.marks}


def test_the_splits_marked_on_the_slider_are_those_of_least_error(view, found):
    assert not view.share.marks
    view.show(found)
    view.describe(found)
    total = sum(found.counts)
    counts = [np.array([share * total, 0, (1 - share) * total]) for share in SHARES]
    for name, table in (("AMCI", lambda _: tables.amci()), ("u*", tables.optimum)):
        variance = [float(predicted_variance(found.moments, n, table=table)) for n in counts]
        best = SHARES[int(np.argmin(variance))]
        assert marks(view)[name] == pytest.approx(best, abs=0.0101), name
        assert variance[round(100 * marks(view)[name]) - 1] < 1.001 * min(variance), name


def test_a_mark_says_in_words_where_it_is(view, found):
    view.describe(found)
    for mark in view.share.marks:
        of_q1 = round(100 * mark["value"])
        assert mark["label"].endswith(f", {of_q1} : {100 - of_q1}")
        assert view.share.start <= mark["value"] <= view.share.end


def test_a_button_leads_to_each_best_split_and_asks_for_its_draws(view, found):
    assert all(button.disabled for button in view.take.values())
    view.describe(found)
    for name, button in view.take.items():
        assert not button.disabled
        button.clicks += 1
        assert view.share.value == marks(view)[name] == view.asked[-1]


def test_draws_in_pairs_leave_nothing_to_split(view, found, problem):
    view.describe(found)
    view.describe(errors(problem, common=True))
    assert not view.share.marks
    assert all(button.disabled for button in view.take.values())


def test_another_case_has_no_best_split_before_its_draws(view, found):
    view.describe(found)
    view.forget()
    assert not view.share.marks
    assert all(button.disabled for button in view.take.values())
