"""Error curves, sample reuse and the strip of figures: computed behind the page's back."""

import json
import re
import time

import numpy as np
import pytest
from amci_explorer.compute.computations import REUSE_GRID, TOTALS
from amci_explorer.text import number
from playwright.sync_api import expect
from visit import PATIENCE

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

ESTIMATORS = ("amci", "amci-cv", "snis-q2", "snis-qm", "snis-q1")
# More than anybody waits for.
ENDLESS = 10_000
SPLIT = "N : M"
# The case that most of these claims are tried on, and what the core says of it.
CASE = {"draws": 64, "runs": 100, "seed": 7}
ADDRESS = "?y=2&theta=1&variant=paper&card=reuse&" + "&".join(f"{k}={v}" for k, v in CASE.items())
# Left, right, top and bottom of parts of the one slider that has marks, in pixels.
PARTS = """
    () => {
        const found = {}
        const look = root => {
            for (const el of root.querySelectorAll("*")) {
                if (el.shadowRoot) { look(el.shadowRoot) }
                if (!el.classList?.contains("track") || !el.querySelector("span")) { continue }
                const box = part => {
                    const {left, right, top, bottom} = part.getBoundingClientRect()
                    return {left, right, top, bottom, text: part.textContent}
                }
                const input = el.querySelector("input"), whole = box(input)
                // Half a thumb is left on either side; it is 24 pixels high.
                const rail = {left: whole.left + 12, right: whole.right - 12,
                              top: whole.top + 1, bottom: whole.bottom - 1}
                const along = (input.value - input.min) / (input.max - input.min)
                const at = rail.left + along * (rail.right - rail.left)
                Object.assign(found, {
                    rail: [rail],
                    mark: [...el.querySelectorAll(".marks > div")].map(box),
                    markLabel: [...el.querySelectorAll("span")].map(box),
                    thumb: [{left: at, right: at}],
                })
            }
        }
        look(document)
        return JSON.stringify(found)
    }
"""


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


def the_strip_shows_the_estimates_of_the_core(opened, problem, paper):
    row = opened.page.get_by_role("row").filter(has_text="AMCI").first
    row.wait_for()
    each = dict.fromkeys(("q1_plus", "q2"), CASE["draws"])
    settings = {"draws": each, "seed": CASE["seed"], "estimator": "amci"}
    found = amci.estimate(problem, paper, 2.0, 1.0, **settings)
    cells = row.get_by_role("cell").all_inner_texts()
    assert float(cells[1]) == pytest.approx(float(found.value), rel=1e-3)
    # Of so few draws of the paper's q1 the standard error is not judged.
    assert cells[2] == "not judged"
    row = opened.page.get_by_role("row").filter(has_text="SNIS q₂").first
    settings |= {"estimator": "snis-q2", "draws": found.draws}
    found = amci.estimate(problem, paper, 2.0, 1.0, **settings)
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[2] == number(float(found.standard_error), 2)


def the_map_of_sample_reuse_is_that_of_the_core(opened, problem, paper):
    opened.wait_for_data("reuse-map-image-remse", "remse")
    grid = REUSE_GRID.tolist()
    expected = amci.reuse_errors(problem, paper, 2.0, 1.0, alphas=grid, betas=grid, **CASE)
    opened.wait_for_text(f"({expected.paper[0]:.3f}, {expected.paper[1]:.3f})")
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
    opened.wait_for_text("at your (α, β) = (0.40, 0.00)")
    before = opened.data("reuse-map-yours-yours", "beta")
    opened.move("β: share of E₂ from q₁", -0.1)
    assert opened.wait_for_other("reuse-map-yours-yours", "beta", before) == [-0.1]
    opened.wait_for_text("at your (α, β) = (0.40, -0.10)")


def parts(opened):
    """The parts of the marked slider, once it has its marks."""
    opened.wait(f"() => ({PARTS})() !== '{{}}'")
    return json.loads(opened.page.evaluate(PARTS))


def middle(part):
    return (part["left"] + part["right"]) / 2


def share_of_q1(label):
    """Draws of q1 in a hundred, from a label such as "best for AMCI, 40:60"."""
    return int(label["text"].split(",")[1].split(":")[0])


def the_best_splits_are_marked_where_the_handle_would_stand(opened):
    opened.wait_for_text("best for u*")
    found = parts(opened)
    (rail,) = found["rail"]
    assert [label["text"].split(",")[0] for label in found["markLabel"]] == [
        "best for AMCI",
        "best for u*",
    ]
    for mark, label in zip(found["mark"], found["markLabel"], strict=True):
        along = (share_of_q1(label) - 1) / 98
        # The words are rounded to a per cent, the mark is not.
        width = rail["right"] - rail["left"]
        assert middle(mark) == pytest.approx(
            rail["left"] + along * width, abs=0.6 + 0.5 / 98 * width
        )
        assert rail["left"] <= label["left"] <= middle(mark) <= label["right"] <= rail["right"]
    upper, lower = found["markLabel"]
    assert upper["bottom"] <= rail["top"] < rail["bottom"] <= lower["top"]


def errors_can_be_absolute(opened, problem):
    relative = opened.data("errors-snis-q2", "error")
    opened.press("MSE")
    absolute = opened.wait_for_other("errors-snis-q2", "error", relative)
    mu = problem.truth(2.0, 1.0)
    np.testing.assert_allclose(absolute, (relative / 100 * mu) ** 2, rtol=1e-12)


def resample_draws_anew(opened):
    seed = opened.page.get_by_label("Seed", exact=True)
    before, old = opened.data("errors-snis-qm", "error"), seed.input_value()
    opened.press("Resample")
    opened.wait_for_other("errors-snis-qm", "error", before)
    expect(seed).not_to_have_value(old)


def the_best_splits_are_marked_on_both_screens(opened):
    for width in (1440, 390):
        opened.page.set_viewport_size({"width": width, "height": 3000})
        the_best_splits_are_marked_where_the_handle_would_stand(opened)


def test_curves_strip_and_sample_reuse_are_those_of_the_core(visit, problem, paper):
    opened = visit(ADDRESS)
    opened.wait_for_end(CASE["runs"])
    curves_are_those_of_the_core(opened, problem, paper)
    the_strip_shows_the_estimates_of_the_core(opened, problem, paper)
    # Nobody has asked for it: it is below the screen.
    assert opened.status("reuse") == ""
    opened.look_at("Sample reuse")
    the_map_of_sample_reuse_is_that_of_the_core(opened, problem, paper)
    alpha_and_beta_move_the_mark_and_what_is_said_about_it(opened)
    errors_can_be_absolute(opened, problem)
    the_best_splits_are_marked_on_both_screens(opened)
    opened.page.set_viewport_size({"width": 1440, "height": 900})
    opened.unfold("Draws, runs, seed")
    resample_draws_anew(opened)


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
