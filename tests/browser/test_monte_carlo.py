"""Error curves, sample reuse and the strip of figures: computed behind the page's back."""

import re
import time

import numpy as np
import pytest
from amci_explorer.compute.computations import REUSE_GRID, TOTALS
from playwright.sync_api import expect
from visit import PATIENCE

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

ESTIMATORS = ("amci", "amci-cv", "snis-q2", "snis-qm", "snis-q1")
# More than anybody waits for.
ENDLESS = 10_000
# The case that most of these claims are tried on, and what the core says of it.
CASE = {"draws": 64, "runs": 100, "seed": 7}
ADDRESS = "?y=2&theta=1&variant=paper&card=reuse&" + "&".join(f"{k}={v}" for k, v in CASE.items())


@pytest.fixture(scope="module")
def problem():
    return amci.problem("tail-1d")


@pytest.fixture(scope="module")
def paper():
    return amci.load_proposals("tail-1d", variant="paper")


def progress(visit):
    """Runs so far, from the line above the curves."""
    found = re.match(r"([\d,]+) of [\d,]+ runs", visit.status("errors"))
    return int(found[1].replace(",", ""))


def curves_are_those_of_the_core(opened, problem, paper):
    # The total draws of the estimate that is shown are among them.
    draws = sorted({*TOTALS, 2 * CASE["draws"]})
    settings = {"draws": draws, "runs": CASE["runs"], "seed": CASE["seed"]}
    settings["estimators"] = [*ESTIMATORS, "bound"]
    expected = amci.error_curves(problem, paper, 2.0, 1.0, **settings)
    for name in ESTIMATORS:
        source = f"errors-{name}"
        np.testing.assert_array_equal(opened.data(source, "draws"), draws)
        low, median, high = expected[name].remse_quartiles
        for column, values in [("low", low), ("median", median), ("high", high)]:
            shown = opened.data(source, column)
            np.testing.assert_allclose(shown, 100 * np.sqrt(values), rtol=1e-12)
        shown = opened.data(source, "error")
        np.testing.assert_allclose(shown, 100 * np.sqrt(expected[name].remse), rtol=1e-12)
    bound = 4 * (1 - problem.truth(2.0, 1.0)) ** 2 / np.array(draws)
    shown = opened.data("errors-bound", "error")
    np.testing.assert_allclose(shown, 100 * np.sqrt(bound), rtol=1e-12)


def the_map_of_sample_reuse_is_that_of_the_core(opened, problem, paper):
    opened.wait_for_data("reuse-map-image-remse", "remse")
    grid = REUSE_GRID.tolist()
    expected = amci.reuse_errors(problem, paper, 2.0, 1.0, alphas=grid, betas=grid, **CASE)
    at = "({:z.2f}, {:z.2f})".format(*expected.paper)
    opened.wait_for_text(at.replace("-", "−"))
    image = opened.page.evaluate(
        "name => Array.from(Bokeh.documents[0].get_model_by_name(name).data.remse[0])",
        "reuse-map-image-remse",
    )
    shown = np.reshape(image, (len(REUSE_GRID), len(REUSE_GRID))).T
    np.testing.assert_allclose(shown, np.clip(expected.remse, None, 1e6), rtol=1e-9)
    for name, at in (("smallest error", expected.best), ("u*, the optimum", expected.optimum)):
        if at is not None and expected.mean_along([at[0]], beta=at[1])[1][0]:
            mark = [opened.data(f"reuse-map-mark-{name}", axis)[0] for axis in ("alpha", "beta")]
            np.testing.assert_allclose(mark, np.clip(at, grid[0], grid[-1]))


def alpha_and_beta_move_the_mark_and_what_is_said_about_it(opened):
    before = opened.data("reuse-map-yours-yours", "alpha")
    opened.move("α: share of E₁ from q₁", 0.4)
    assert opened.wait_for_other("reuse-map-yours-yours", "alpha", before) == [0.4]
    opened.wait_for_text("(0.40, 0.00)")
    before = opened.data("reuse-map-yours-yours", "beta")
    opened.move("β: share of E₂ from q₁", -0.1)
    assert opened.wait_for_other("reuse-map-yours-yours", "beta", before) == [-0.1]
    opened.wait_for_text("(0.40, −0.10)")


def errors_can_be_absolute(opened, problem):
    relative = opened.data("errors-snis-q2", "error")
    opened.page.get_by_label("Measure of the error").select_option("MSE")
    absolute = opened.wait_for_other("errors-snis-q2", "error", relative)
    mu = problem.truth(2.0, 1.0)
    np.testing.assert_allclose(absolute, (relative / 100 * mu) ** 2, rtol=1e-12)


def resample_draws_anew(opened):
    seed = opened.page.get_by_label("Seed", exact=True)
    before, old = opened.data("errors-snis-qm", "error"), seed.input_value()
    opened.press("Resample")
    opened.wait_for_other("errors-snis-qm", "error", before)
    expect(seed).not_to_have_value(old)


def test_curves_and_sample_reuse_are_those_of_the_core(visit, problem, paper):
    opened = visit(ADDRESS)
    opened.wait_for_end(CASE["runs"])
    curves_are_those_of_the_core(opened, problem, paper)
    opened.look_at("Sample reuse")
    the_map_of_sample_reuse_is_that_of_the_core(opened, problem, paper)
    alpha_and_beta_move_the_mark_and_what_is_said_about_it(opened)
    errors_can_be_absolute(opened, problem)
    opened.unfold("Draws, runs, seed")
    resample_draws_anew(opened)


def named(opened, text):
    """Waits until a value stands at the end of a line."""
    labels = "Bokeh.documents[0].get_model_by_name('errors-labels').data.text"
    opened.wait(f"() => Array.from({labels}).includes('{text}')")


def test_the_handle_of_draws_says_the_errors_where_it_stands(visit):
    opened = visit("?runs=60")
    opened.wait_for_end(60)
    handle = opened.page.get_by_role("slider", name="Number of draws")
    expect(handle).to_have_text("⇄ 128 draws")
    # The bound is 2 (1 − μ) / √T.
    named(opened, "18 %")
    handle.press("ArrowRight")
    expect(handle).to_have_text("⇄ 166 draws")
    named(opened, "16 %")
    box = handle.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    opened.page.mouse.move(*middle)
    opened.page.mouse.down()
    opened.page.mouse.move(middle[0] + 1000, middle[1], steps=4)
    expect(handle).to_have_text("⇄ 10,000 draws")
    named(opened, "2 %")
    opened.page.mouse.up()
    opened.wait("() => location.search.includes('draws=5000')")


def another_visitor_is_not_blocked(busy, other):
    runs = progress(busy)
    before = other.data("densities", "target")
    other.move("Threshold θ", 1)
    other.wait_for_other("densities", "target", before)
    other.wait_for_end(20)
    # Long before the busy one is through, which goes on meanwhile.
    assert progress(busy) < ENDLESS / 2
    deadline = time.monotonic() + PATIENCE
    while progress(busy) <= runs:
        assert time.monotonic() < deadline
        busy.page.wait_for_timeout(100)


def curves_can_be_called_off_and_run_again(opened, other):
    opened.press_in("Relative error", "Cancel")
    opened.wait_for_text("Cancelled")
    # A moment of another visitor's work goes by, in which the curves would have grown.
    stopped = opened.data("errors-amci", "error")
    other.type("Runs", "30")
    other.wait_for_end(30)
    np.testing.assert_array_equal(opened.data("errors-amci", "error"), stopped)
    opened.press_in("Relative error", "Run")
    opened.wait_for_other("errors-amci", "error", stopped)


def a_moved_control_starts_the_curves_afresh(opened, problem):
    old_bound = opened.data("errors-bound", "median")
    opened.move("Threshold θ", 1)
    opened.wait_for_other("errors-bound", "median", old_bound)
    draws = sorted({*TOTALS, 2 * 64})
    expected = 200 * (1 - problem.truth(1.0, 1.0)) / np.sqrt(draws)
    np.testing.assert_allclose(opened.data("errors-bound", "error"), expected, rtol=1e-12)
    assert progress(opened) < ENDLESS / 2
    opened.type("Runs", "30")
    opened.wait_for_end(30)
    # Nothing is left faded of when the pictures answered another choice.
    assert opened.faded() == []
    proposals = amci.load_proposals("tail-1d")
    curves = amci.error_curves(problem, proposals, 1.0, 1.0, draws=draws, runs=30)
    expected = 100 * np.sqrt(curves["snis-qm"].remse)
    np.testing.assert_allclose(opened.data("errors-snis-qm", "error"), expected, rtol=1e-12)


def test_curves_grow_beside_another_visitor_and_can_be_called_off_and_started(visit, problem):
    opened = visit(f"?runs={ENDLESS}")
    opened.unfold("Draws, runs, seed")
    first = opened.wait_for_data("errors-amci", "error")
    opened.wait_for_other("errors-amci", "error", first)
    other = visit("?runs=20&y=2")
    other.unfold("Draws, runs, seed")
    another_visitor_is_not_blocked(opened, other)
    curves_can_be_called_off_and_run_again(opened, other)
    a_moved_control_starts_the_curves_afresh(opened, problem)
