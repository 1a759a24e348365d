"""Cards and problems with planes: maps are clicked, coordinates are moved and looked at."""

import csv

import pytest
from amci_explorer.problems.presets import PRESETS
from cards import MAP_IMAGE, choose, click_on, open_diagnostics, open_map
from playwright.sync_api import expect
from visit import DATA

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

Y, THETA = "Observation y", "Threshold θ"


def coordinates_move_together_or_one_by_one(opened):
    opened.move("Observation y, all 5", 1)
    opened.wait("() => new URLSearchParams(location.search).get('y') == '1,1,1,1,1'")
    opened.unfold("Each y")
    opened.page.get_by_role("slider", name="Observation y, coordinate 2").wait_for()
    opened.move("Observation y, coordinate 2", 3)
    opened.wait("() => new URLSearchParams(location.search).get('y') == '1,3,1,1,1'")
    opened.wait_for_value("Observation y, all 5", 1.4)


def another_coordinate_and_another_pair_can_be_looked_at(opened):
    for label, name, source, column in (
        ("Coordinate", "x₄", "marginal", "target"),
        ("Pair", "x₂, x₅", "plane-q1-data", "xs"),
    ):
        before = opened.page.evaluate(f"at => JSON.stringify(({DATA})(at))", [source, column])
        choose(opened, label, name)
        opened.wait(
            f"([name, column, old]) => JSON.stringify(({DATA})([name, column])) != old",
            [source, column, before],
        )


def the_map_can_be_called_off_and_run_again(opened):
    open_map(opened)
    opened.press_in("map", "Cancel")
    opened.wait_for_text("Cancelled")
    opened.press_in("map", "Run")
    opened.page.get_by_text("Cancelled").wait_for(state="detached")


def test_five_coordinates_are_moved_and_looked_at_and_another_problem_is_chosen(visit):
    opened = visit("?problem=tail-5d&y=0,1,2,3,1&runs=4&draws=8")
    opened.wait_for_end(4)
    another_coordinate_and_another_pair_can_be_looked_at(opened)
    coordinates_move_together_or_one_by_one(opened)
    the_map_can_be_called_off_and_run_again(opened)
    # A last move that the server puts off does not move the problem that comes next.
    opened.slider("Observation y, all 5").focus()
    for _ in range(5):
        opened.page.keyboard.press("ArrowRight")
    choose(opened, "Problem", "Gain and loss")
    opened.wait("() => location.search.includes('problem=gain-loss')")
    opened.wait_for_end(4)
    link = PRESETS["gain-loss"][0].link
    assert opened.value(Y) == float(link["y"])
    # Three proposals have no (alpha, beta).
    expect(opened.page.get_by_role("tab", name="Sample reuse")).to_be_disabled()


def test_another_plane_of_the_map_keeps_other_coordinates(visit):
    opened = visit("?problem=peak&runs=4&draws=64")
    opened.wait_for_text("No sample reuse for this problem: E₂ is known")
    expect(opened.page.get_by_role("tab", name="Sample reuse")).to_be_disabled()
    open_map(opened)
    choose(opened, "Vertical axis", "Sharpness s")
    opened.wait(
        "() => Bokeh.documents[0].get_model_by_name('amortization-map')?"
        ".left[0].axis_label == 'Sharpness s'"
    )
    opened.wait_for_text("cases in")
    click_on(opened, "amortization-map", 0.25, 0.75)
    opened.wait_for_value("Centre u₁", 0.25, within=0.02)
    opened.wait_for_value("Sharpness s", 0.75, within=0.02)
    assert opened.value("Centre u₂") == float(PRESETS["peak"][0].link["theta"].split(",")[1])


def a_click_moves_the_case(opened, y, theta):
    click_on(opened, "amortization-map", y, theta)
    opened.wait_for_value(Y, y, within=0.05)
    opened.wait_for_value(THETA, theta, within=0.05)
    y, theta = opened.value(Y), opened.value(THETA)
    opened.wait("at => location.search.includes(at)", f"y={y:.6g}&theta={theta:.6g}")
    mark = [opened.data("amortization-map-yours-your case", name)[0] for name in ("y", "theta")]
    assert mark == pytest.approx([y, theta])


def another_quantity_is_shown_and_taken_home(opened):
    first = f"({MAP_IMAGE})()?.data.value[0][0]"
    before = opened.page.evaluate(f"() => {first}")
    choose(opened, "Quantity", "Effective sample size per draw, E₂")
    opened.wait(f"old => ({first} ?? old) != old", before)
    shown = opened.page.evaluate(f"() => [...({MAP_IMAGE})().data.value[0]]")
    opened.press_in("map", "Details")
    with opened.page.expect_download() as download:
        opened.press("Amortization map, CSV")
    _, *lines = download.value.path().read_text().splitlines()
    found = [float(line["relative_ess_E2"]) for line in csv.DictReader(lines)]
    assert found == pytest.approx(shown)


def keys_lead_from_card_to_card_and_one_is_open_at_a_time(opened):
    cards = ("Draw by draw", "Sample reuse", "Diagnostics")
    opened.page.get_by_role("tab", name=cards[0]).focus()
    for key, shown in [("ArrowRight", cards[1]), ("ArrowRight", cards[2]), ("Home", cards[0])]:
        opened.page.keyboard.press(key)
        opened.page.keyboard.press("Enter")
        opened.page.get_by_role("heading", name=shown).wait_for(state="visible")
        for other in set(cards) - {shown}:
            opened.page.get_by_role("heading", name=other).wait_for(state="detached")


def test_the_map_is_clicked_and_tabs_go_by_keys(visit):
    opened = visit("?runs=4&y=2&theta=2&seed=5")
    opened.wait_for_end(4)
    open_map(opened)
    opened.wait_for_text("cases in")
    a_click_moves_the_case(opened, 4.0, 1.0)
    another_quantity_is_shown_and_taken_home(opened)
    keys_lead_from_card_to_card_and_one_is_open_at_a_time(opened)
    open_map(opened)
    a_click_moves_the_case(opened, 2.0, 2.0)
    open_diagnostics(opened)
    opened.page.get_by_role("tab", name="Evaluation").click()
    opened.wait_for_data("evaluation-curve-amci", "draws")
    choose(opened, "Results", "live")
    opened.wait_for_end(20, "evaluation")
