"""Addresses, keys, quick hands, files, themes and frames."""

import re

import pytest
from amci_explorer.problems.presets import PRESETS
from playwright.sync_api import expect
from visit import Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

Y, THETA = "Observation y", "Threshold θ"


def a_quick_hand_is_followed_to_where_it_ends(opened):
    opened.move(THETA, 0.5)
    opened.slider(THETA).focus()
    for _ in range(40):
        opened.page.keyboard.press("ArrowRight")
    opened.wait_for_value(THETA, 0.9)
    opened.wait("() => window.location.search.includes('theta=0.9&')")
    # Messages keep their order: after the answer to a later one nothing is under way.
    opened.unfold("Draws, runs, seed")
    opened.type("Seed", "11")
    opened.wait("() => window.location.search.endsWith('seed=11')")
    assert opened.value(THETA) == pytest.approx(0.9)


def nothing_jumps_when_a_story_comes_and_goes(opened):
    told = PRESETS["tail-1d"][1]
    opened.unfold("The problem")
    opened.press(told.name)
    opened.wait_for_text(told.text)
    opened.wait_for_value(Y, float(told.link["y"]))
    opened.wait_for_value(THETA, float(told.link["theta"]))
    opened.wait_for_end(1000)
    begun = opened.now()
    opened.move(THETA, 1.0)
    opened.page.get_by_text(told.text).first.wait_for(state="hidden")
    opened.wait_for_end(1000)
    opened.press(told.name)
    opened.wait_for_text(told.text)
    opened.wait_for_end(1000)
    assert opened.shifted(begun) < 0.1


def test_the_address_is_read_and_kept_while_handles_and_presets_move_it(visit):
    opened = visit("?y=1&theta=2&variant=paper&draws=10&runs=4&seed=9")
    assert (opened.value(Y), opened.value(THETA)) == (1, 2)
    length = opened.page.evaluate("() => window.history.length")
    opened.move(THETA, 1.33)
    opened.wait("() => window.location.search.includes('theta=1.33')")
    assert opened.page.url.endswith(
        "?problem=tail-1d&y=1&theta=1.33&variant=paper&draws=10&runs=4&seed=9"
    )
    a_quick_hand_is_followed_to_where_it_ends(opened)
    nothing_jumps_when_a_story_comes_and_goes(opened)
    assert opened.page.evaluate("() => window.history.length") == length


def a_picture_can_be_saved(opened):
    opened.page.once("dialog", lambda dialog: dialog.accept("picture"))
    with opened.page.expect_download() as download:
        opened.page.get_by_title("Save", exact=True).first.click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def the_dark_theme_recolours_pictures_and_curves(opened):
    colours = """() => {
        const shown = Bokeh.documents[0].get_model_by_name("densities-q1")
        const curve = shown.renderers.find(r => r.name == "q1")
        return [shown.background_fill_color, curve.glyph.line_color.value].toString()
    }"""
    light = opened.page.evaluate(colours)
    opened.page.get_by_label("Toggle theme").click()
    opened.wait(
        f"""light => {{
            const now = ({colours})().split(","), before = light.split(",")
            return now[0] != before[0] && now.at(-1) != before.at(-1)
        }}""",
        light,
    )


def the_logarithmic_picture_takes_the_place_of_the_linear_one(opened):
    shown = "() => Bokeh.documents[0].get_model_by_name('densities-q1')?.y_scale.type"
    scale = opened.page.get_by_label("Scale", exact=True)
    scale.select_option("log")
    opened.wait(f"() => ({shown})() == 'LogScale'")
    opened.move(THETA, 1.0)
    scale.select_option("linear")
    opened.wait(f"() => ({shown})() == 'LinearScale'")


def test_what_is_wrong_is_said_and_pictures_are_saved_recoloured_and_replaced(visit):
    opened = visit("?theta=99&draws=0&runs=4")
    opened.wait_for_text("expected a number from 0 to 5, got '99'")
    opened.wait_for_text("expected a whole number from 2 to 5,000, got '0'")
    opened.type("Draws per proposal", "a few")
    opened.wait_for_text("got 'a few'")
    opened.type("Draws per proposal", "12")
    opened.page.get_by_text("got 'a few'").wait_for(state="detached")
    opened.type("Runs", "7")
    opened.wait_for_end(7)
    expect(opened.page.get_by_role("img", name="12 draws from q₁").first).to_be_visible()
    a_picture_can_be_saved(opened)
    the_dark_theme_recolours_pictures_and_curves(opened)
    the_logarithmic_picture_takes_the_place_of_the_linear_one(opened)


PAINTED = "colour => getComputedStyle(document.body).backgroundColor === colour"
LIGHT, DARK = "rgb(244, 246, 248)", "rgb(18, 23, 28)"
COLOUR = "part => getComputedStyle(part).color"


def test_the_theme_is_the_systems_at_first_and_kept_when_chosen(browser, server):
    query = "?y=1.5&theta=2.5&draws=8&runs=4"
    visited = Visit(browser.new_context(color_scheme="dark"), server + query)
    visited.wait_for_end(4)
    assert visited.page.evaluate(PAINTED, DARK)
    # Nobody has chosen it.
    assert visited.page.evaluate("() => localStorage.getItem('amci-theme')") is None
    # The server draws the next visit in it from the start, and its address says nothing of it.
    visited.page.goto(server + query)
    handle = visited.page.locator(".slider .name").first
    dark = handle.evaluate(COLOUR)
    visited.wait_for_end(4)
    assert handle.evaluate(COLOUR) == dark
    assert "theme" not in visited.page.url
    visited.page.get_by_label("Toggle theme").click()
    visited.wait(PAINTED, LIGHT)
    # The address is that of another theme too.
    visited.page.wait_for_url(re.compile("theme=light"))
    visited.go(server + query)
    visited.wait(PAINTED, LIGHT)
    # Computing starts once the page is ready, and so after the theme is chosen.
    visited.wait_for_end(4)
    assert visited.page.evaluate(PAINTED, LIGHT)
    assert handle.evaluate(COLOUR) != dark
    visited.close()


def test_a_frame_shows_one_picture_and_its_handles(browser, server):
    context = browser.new_context(viewport={"width": 800, "height": 600})
    opened = Visit(context, f"{server}?ui=min&y=2&theta=1", first="densities")
    expect(opened.page.get_by_text("AMCI Explorer", exact=True)).to_be_hidden()
    assert opened.value(THETA) == 1
    before = opened.data("densities", "target")
    opened.move(THETA, 2)
    opened.wait_for_other("densities", "target", before)
    # Nothing else is there, and nothing else is computed.
    expect(opened.page.get_by_role("heading", level=2)).to_have_text(["Two proposals"])
    assert opened.page.evaluate("() => Bokeh.documents[0].get_model_by_name('errors')") is None
    opened.close()
    assert opened.complaints == []
