"""Error curves, sample reuse and the strip of figures: computed behind the page's back."""

import numpy as np
import pytest
from playwright.sync_api import expect

import amci_core as amci
from app.store import BUDGETS, REUSE_GRID
from app.summary import number

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ESTIMATORS = ("amci", "snis-q2", "snis-qm", "snis-q1")
ENDLESS = 10_000


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


def curves(problem, y, theta, *, variant="spline", runs, seed=0):
    proposals = amci.load_proposals("tail-1d", variant=variant)
    return amci.error_curves(problem, proposals, y, theta, budgets=BUDGETS, runs=runs, seed=seed)


def runs_shown(visit):
    """Runs so far, from the line below the curves."""
    text = visit.page.get_by_text("runs", exact=False).filter(has_text="left").first.inner_text()
    return int(text.split()[0].replace(",", ""))


def test_curves_are_those_of_the_core(visit, problem):
    opened = visit("?runs=40&seed=7&y=2&theta=2")
    opened.wait_for_end(40)
    expected = curves(problem, 2.0, 2.0, runs=40, seed=7)
    for name in ESTIMATORS:
        source = f"errors-{name}"
        np.testing.assert_array_equal(opened.data(source, "draws"), BUDGETS)
        low, median, high = expected[name].remse_quartiles
        for column, values in [("low", low), ("median", median), ("high", high)]:
            np.testing.assert_allclose(opened.data(source, column), values, rtol=1e-12)
        np.testing.assert_allclose(opened.data(source, "mean"), expected[name].remse, rtol=1e-12)
    bound = 4 * (1 - problem.truth(2.0, 2.0)) ** 2 / np.array(BUDGETS)
    np.testing.assert_allclose(opened.data("errors-bound", "median"), bound, rtol=1e-12)


def test_errors_can_be_absolute(visit, problem):
    opened = visit("?runs=10")
    opened.wait_for_end(10)
    relative = opened.data("errors-snis-q2", "mean")
    opened.press("MSE")
    absolute = opened.wait_for_other("errors-snis-q2", "mean", relative)
    np.testing.assert_allclose(absolute, relative * problem.truth(1.0, 3.0) ** 2, rtol=1e-12)


def test_errors_of_exact_proposals_can_be_drawn_on_logarithmic_axes(visit):
    opened = visit("?runs=20&variant=oracle")
    opened.wait_for_end(20)
    opened.wait_for_text("AMCI is exact to rounding")
    for column in ("low", "median", "high", "mean"):
        assert (opened.data("errors-amci", column) > 0).all()
    ends = opened.page.evaluate(
        "() => { const r = Bokeh.documents[0].get_model_by_name('errors').y_range;"
        " return [r.start, r.end] }"
    )
    assert 0 < ends[0] < ends[1] < 1e6


def test_curves_grow_can_be_called_off_and_run_again(visit):
    opened = visit(f"?runs={ENDLESS}")
    first = opened.wait_for_data("errors-amci", "median")
    opened.wait_for_other("errors-amci", "median", first)
    opened.press("Cancel")
    opened.wait_for_text("cancelled after")
    # A second of another visitor's work goes by, in which the curves would have grown.
    stopped = opened.data("errors-amci", "median")
    other = visit("?runs=30")
    other.wait_for_end(30)
    np.testing.assert_array_equal(opened.data("errors-amci", "median"), stopped)
    opened.press("Run again")
    opened.wait_for_other("errors-amci", "median", stopped)
    opened.press("Cancel")


def test_a_moved_control_starts_the_curves_afresh(visit, problem):
    opened = visit(f"?runs={ENDLESS}")
    opened.wait_for_data("errors-amci", "median")
    old_bound = opened.data("errors-bound", "median")
    opened.move("Threshold θ", 1)
    opened.wait_for_other("errors-bound", "median", old_bound)
    expected = 4 * (1 - problem.truth(1.0, 1.0)) ** 2 / np.array(BUDGETS)
    np.testing.assert_allclose(opened.data("errors-bound", "median"), expected, rtol=1e-12)
    assert runs_shown(opened) < ENDLESS / 2
    opened.type("Runs", "30")
    opened.wait_for_end(30)
    np.testing.assert_allclose(
        opened.data("errors-snis-qm", "mean"),
        curves(problem, 1.0, 1.0, runs=30)["snis-qm"].remse,
        rtol=1e-12,
    )


def test_a_visitor_is_not_blocked_by_another_ones_computing(visit):
    busy = visit(f"?runs={ENDLESS}")
    busy.wait_for_data("errors-amci", "median")
    other = visit("?runs=20&y=2")
    before = other.data("densities", "target")
    other.move("Threshold θ", 1)
    other.wait_for_other("densities", "target", before)
    other.wait_for_end(20)
    assert runs_shown(busy) < ENDLESS


def test_resample_draws_anew(visit):
    opened = visit("?runs=10")
    opened.wait_for_end(10)
    before = opened.data("errors-snis-qm", "mean")
    opened.press("Resample")
    opened.wait_for_other("errors-snis-qm", "mean", before)
    expect(opened.page.get_by_label("Seed", exact=True)).not_to_have_value("0")


def test_the_strip_shows_the_estimates_of_the_core(visit, problem):
    opened = visit("?runs=4&draws=50&seed=2&variant=paper&y=2&theta=2")
    row = opened.page.get_by_role("row").filter(has_text="AMCI")
    row.wait_for()
    proposals = amci.load_proposals("tail-1d", variant="paper")
    found = amci.estimate(problem, proposals, 2.0, 2.0, draws=50, seed=2)
    cells = row.get_by_role("cell").all_inner_texts()
    assert float(cells[1]) == pytest.approx(float(found.value), rel=1e-3)
    assert cells[2] == number(float(found.standard_error), 2)


def test_a_blind_q2_is_said_to_be_blind(visit):
    opened = visit("?runs=4")
    opened.wait_for_text("q₂ has put no draw of 128 above θ")
    opened.wait_for_text("it answers 0")


def test_the_map_of_sample_reuse_is_that_of_the_core(visit, problem):
    opened = visit("?runs=30&draws=16&y=2&theta=1&variant=paper")
    opened.wait_for_end(30)
    opened.wait_for_data("reuse-best", "alpha")
    expected = amci.reuse_errors(
        problem,
        amci.load_proposals("tail-1d", variant="paper"),
        2.0,
        1.0,
        alphas=REUSE_GRID.tolist(),
        betas=REUSE_GRID.tolist(),
        draws=16,
        runs=30,
    )
    opened.wait_for_text(f"({expected.paper[0]:.3f}, {expected.paper[1]:.3f})")
    image = opened.page.evaluate(
        "() => Array.from(Bokeh.documents[0].get_model_by_name('reuse-image').data.remse[0])"
    )
    shown = np.reshape(image, (len(REUSE_GRID), len(REUSE_GRID))).T
    np.testing.assert_allclose(shown, np.clip(expected.remse, None, 1e6), rtol=1e-9)
    best = [opened.data("reuse-best", name) for name in ("alpha", "beta")]
    assert best == ([[at] for at in expected.best] if expected.best else [[], []])


def test_alpha_and_beta_move_the_mark_and_what_is_said_about_it(visit):
    opened = visit("?runs=10")
    opened.wait_for_end(10)
    before = opened.data("reuse-current", "alpha")
    opened.move("α: share of E₁ from q₁", 0.4)
    assert opened.wait_for_other("reuse-current", "alpha", before) == [0.4]
    opened.wait_for_text("at your (α, β) = (0.40, 0.00)")
    before = opened.data("reuse-current", "beta")
    opened.move("β: share of E₂ from q₁", -0.1)
    assert opened.wait_for_other("reuse-current", "beta", before) == [-0.1]
    opened.wait_for_text("at your (α, β) = (0.40, -0.10)")
