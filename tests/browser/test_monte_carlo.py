"""Error curves, computed behind the page's back: their handle, and beside another visitor."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

# More than anybody waits for.
ENDLESS = 10_000


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


def progress(visit):
    """Runs so far, from the line above the curves."""
    found = re.match(r"([\d,]+) of [\d,]+ runs", visit.status("errors"))
    return int(found[1].replace(",", "")) if found else 0


def another_visitor_is_not_blocked(busy, other):
    runs = progress(busy)
    before = other.data("densities", "target")
    other.move("Threshold θ", 1)
    other.wait_for_other("densities", "target", before)
    other.wait_for_end(20)
    # Long before the busy one is through, which goes on meanwhile.
    assert progress(busy) < ENDLESS / 2
    while progress(busy) <= runs:
        busy.wait_for_frames()


def curves_can_be_called_off_and_run_again(opened, other):
    opened.press_in("errors", "Cancel")
    opened.wait_for_text("Cancelled")
    # A moment of another visitor's work goes by, in which the curves would have grown.
    stopped = opened.data("errors-amci", "error")
    other.type("Runs", "30")
    other.wait_for_end(30)
    np.testing.assert_array_equal(opened.data("errors-amci", "error"), stopped)
    opened.press_in("errors", "Run")
    opened.wait_for_other("errors-amci", "error", stopped)


def a_moved_control_starts_the_curves_afresh(opened):
    opened.move("Threshold θ", 1)
    opened.wait("() => location.search.includes('theta=1&')")
    opened.type("Runs", "30")
    opened.wait_for_end(30)
    # Nothing is left faded of when the pictures answered another choice.
    faded = "all => all.filter(el => getComputedStyle(el).opacity < 0.5).length"
    assert opened.page.locator("[class*='bk-panel']").evaluate_all(faded) == 0


def test_curves_grow_beside_another_visitor_and_can_be_called_off_and_started(visit):
    opened = visit(f"?runs={ENDLESS}")
    opened.unfold("Draws, runs, seed")
    first = opened.wait_for_data("errors-amci", "error")
    opened.wait_for_other("errors-amci", "error", first)
    other = visit("?runs=20&y=2")
    other.unfold("Draws, runs, seed")
    another_visitor_is_not_blocked(opened, other)
    curves_can_be_called_off_and_run_again(opened, other)
    a_moved_control_starts_the_curves_afresh(opened)
