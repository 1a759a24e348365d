"""The tabs, and the amortization map behind the last of them."""

import csv
import json

import numpy as np
import pytest
from playwright.sync_api import expect

import amci_core as amci
from app.store import MAP_SIZES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

IMAGE = "() => Bokeh.documents[0].get_model_by_name('amortization-image')"
Y, THETA = "Observation y", "Threshold θ"


def open_map(opened):
    opened.page.get_by_role("tab", name="Amortization map").click()
    opened.page.get_by_role("heading", name="Amortization map").wait_for(state="visible")


def wait_for_map(opened):
    """Waits for the whole map; gives what it shows, by row."""
    opened.wait_for_text("cases in")
    return image(opened, "value")


def image(opened, column):
    found = opened.page.evaluate(f"name => Array.from(({IMAGE})().data[name][0])", column)
    found = np.array(found, dtype=float)
    size = round(len(found) ** 0.5)
    return np.reshape(found, (size, size))


def click_on(opened, x, y):
    """Clicks on a point of the map, in its own coordinates."""
    place = opened.page.evaluate(
        """([x, y]) => {
            const map = Bokeh.documents[0].get_model_by_name("amortization-map")
            const view = Bokeh.index.find_one(map)
            view.el.scrollIntoView({block: "center"})
            const {x_scale, y_scale} = view.frame
            const box = view.canvas_view.el.getBoundingClientRect()
            return [box.left + x_scale.compute(x), box.top + y_scale.compute(y)]
        }""",
        [x, y],
    )
    opened.page.mouse.click(*place)


def test_one_card_is_open_at_a_time_and_keys_lead_to_the_next(visit):
    opened = visit("?runs=4")
    opened.wait_for_end(4)
    cards = ("Sample reuse", "Diagnostics", "Amortization map")
    opened.page.get_by_role("tab", name=cards[0]).focus()
    for key, shown in [("ArrowRight", cards[1]), ("ArrowRight", cards[2]), ("Home", cards[0])]:
        opened.page.keyboard.press(key)
        opened.page.keyboard.press("Enter")
        opened.page.get_by_role("heading", name=shown).wait_for(state="visible")
        for other in set(cards) - {shown}:
            opened.page.get_by_role("heading", name=other).wait_for(state="detached")


def test_a_tab_without_sense_is_disabled_and_says_why(visit):
    opened = visit("?problem=peak&runs=4&draws=8")
    opened.wait_for_text("There is no sample reuse for this problem: E₂ is known")
    expect(opened.page.get_by_role("tab", name="Sample reuse")).to_be_disabled()


def test_the_map_is_computed_when_its_tab_is_opened_and_is_that_of_the_core(visit):
    opened = visit("?runs=4&variant=paper")
    opened.wait_for_end(4)
    assert opened.page.evaluate(f"{IMAGE} == null || ({IMAGE})() == null")
    open_map(opened)
    shown = wait_for_map(opened)
    size, draws = MAP_SIZES[1]
    expected = amci.amortization_map(
        amci.problem("tail-1d"),
        amci.load_proposals("tail-1d", variant="paper"),
        size=size,
        draws=draws,
    )
    np.testing.assert_allclose(shown, expected.relative_variance, rtol=1e-6)


def test_a_click_moves_the_case_and_starts_monte_carlo(visit):
    opened = visit("?runs=4")
    opened.wait_for_end(4)
    open_map(opened)
    before = wait_for_map(opened)
    bound = opened.data("errors-bound", "median")
    click_on(opened, 4.0, 1.0)
    opened.wait_for_other("errors-bound", "median", bound)
    opened.wait_for_value(Y, 4.0, within=0.05)
    opened.wait_for_value(THETA, 1.0, within=0.05)
    y, theta = opened.value(Y), opened.value(THETA)
    opened.wait("at => window.location.search.includes(at)", f"y={y:.4g}&theta={theta:.4g}")
    mark = [float(opened.data("amortization-current", name)[0]) for name in ("x", "y")]
    assert mark == pytest.approx([y, theta])
    # The map is of the proposals: the same ones have the same map.
    np.testing.assert_array_equal(image(opened, "value"), before)


def test_other_quantities_can_be_shown_and_taken_home(visit):
    opened = visit("?runs=4")
    open_map(opened)
    wait_for_map(opened)
    opened.page.get_by_role("combobox", name="Shown").click()
    opened.page.get_by_role("menuitem", name="Effective share of draws for E₂").click()
    opened.wait(f"() => ({IMAGE})().data.value[0].every(v => v > 0.9 && v <= 1)")
    shown = image(opened, "value")
    with opened.page.expect_download() as download:
        opened.press("Amortization map, CSV")
    lines = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [float(line["effective_share_E2"]) for line in lines] == pytest.approx(shown.ravel())
    with opened.page.expect_download() as download:
        opened.press("Everything, JSON")
    everything = json.loads(download.value.path().read_text())["amortization_map"]
    assert np.ravel(everything["effective_share"][1]) == pytest.approx(shown.ravel())
    assert everything["proposals"]["variant"] == "spline"


def test_the_map_can_be_called_off_and_run_again(visit):
    opened = visit("?problem=tail-5d&runs=4&draws=8")
    opened.wait_for_end(4)
    open_map(opened)
    opened.wait(f"() => ({IMAGE})()?.data.value.length")
    buttons = opened.page.get_by_role("button", name="Cancel", exact=True)
    buttons.last.click()
    opened.wait_for_text("cancelled after")
    opened.page.get_by_role("button", name="Run again", exact=True).last.click()
    opened.page.get_by_text("cancelled after").wait_for(state="detached")
    # Left alone, it stops.
    opened.page.get_by_role("tab", name="Diagnostics").click()
    opened.page.get_by_role("heading", name="Diagnostics").wait_for(state="visible")
    open_map(opened)
    opened.wait_for_text("s left")


def test_another_plane_keeps_the_other_coordinates(visit):
    opened = visit("?problem=peak&runs=4&draws=8")
    opened.wait_for_end(4)
    open_map(opened)
    opened.page.get_by_role("combobox", name="Upwards").click()
    opened.page.get_by_role("menuitem", name="Sharpness s").click()
    opened.wait(
        "() => Bokeh.documents[0].get_model_by_name('amortization-map')"
        ".left[0].axis_label == 'Sharpness s'"
    )
    wait_for_map(opened)
    click_on(opened, 0.25, 0.75)
    opened.wait_for_value("Centre u₁", 0.25, within=0.02)
    opened.wait_for_value("Sharpness s", 0.75, within=0.02)
    assert opened.value("Centre u₂") == 0.5


def test_on_a_phone_the_map_fits_and_has_no_tools(visit):
    opened = visit("?runs=4", width=390, height=844)
    opened.wait_for_end(4)
    open_map(opened)
    opened.wait(
        "() => Bokeh.documents[0].get_model_by_name('amortization-map').toolbar_location == null"
    )
    assert opened.sideways() == [0, 0]
