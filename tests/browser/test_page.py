"""Presets, reset, addresses, downloads, themes, small screens, and what goes wrong."""

import csv
import json
from itertools import combinations

import numpy as np
import pytest
from amci_explorer.problems.presets import PRESETS
from cards import open_map
from playwright.sync_api import expect
from visit import SIDEWAYS, Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

Y, THETA = "Observation y", "Threshold θ"
CARDS_OF = {"play": "Draw by draw", "reuse": "Sample reuse", "diagnostics": "Diagnostics"}
SHARES = {"alpha": "α: share of E₁ from q₁", "beta": "β: share of E₂ from q₁"}
# Top, bottom, left and right of every card.
CARDS = """() => {
    const found = []
    const search = root => {
        for (const node of root.querySelectorAll("*")) {
            if (node.tagName === "H2" && node.className !== "part" && !node.closest(".tour")) {
                let card = node.getRootNode().host
                while (!parseFloat(getComputedStyle(card).borderTopLeftRadius)) {
                    card = card.parentNode.host ?? card.parentNode
                }
                const {top, bottom, left, right} = card.getBoundingClientRect()
                found.push([top, bottom, left, right])
            }
            if (node.shadowRoot) search(node.shadowRoot)
        }
    }
    search(document)
    return found
}"""


def presets_lead_to_their_point(opened):
    opened.unfold("The problem")
    opened.unfold("Proposals")
    for preset in PRESETS["tail-1d"]:
        opened.press(preset.name)
        opened.wait_for_text(preset.text)
        y, theta = float(preset.link["y"]), float(preset.link["theta"])
        opened.wait("at => window.location.search.includes(at)", f"y={y:.4g}&theta={theta:.4g}")
        opened.wait_for_value(Y, y)
        opened.wait_for_value(THETA, theta)
        card = preset.link.get("card", "play")
        opened.page.get_by_role("tab", name=CARDS_OF[card], selected=True).wait_for()
        for name, default in [("alpha", 1), ("beta", 0)] if card == "reuse" else []:
            opened.wait_for_value(SHARES[name], float(preset.link.get(name, default)))
        chosen = opened.page.get_by_role(
            "button", name=preset.link.get("variant", "spline"), exact=True
        )
        expect(chosen).to_have_attribute("aria-pressed", "true")


def nothing_jumps_when_a_story_comes_and_goes(opened):
    told = PRESETS["tail-1d"][1]
    opened.press(told.name)
    opened.wait_for_text(told.text)
    opened.wait_for_end(1000)
    opened.watch_shifts()
    opened.move(THETA, 1.0)
    opened.page.get_by_text(told.text).first.wait_for(state="hidden")
    opened.wait_for_end(1000)
    opened.press(told.name)
    opened.wait_for_text(told.text)
    opened.wait_for_end(1000)
    assert opened.shifted() < 0.1


def reset_leads_back_to_the_start(opened):
    opened.press("paper")
    opened.page.get_by_role("tab", name="Sample reuse").click()
    opened.move(THETA, 0.5)
    opened.move(SHARES["alpha"], 0.2)
    opened.wait("() => window.location.search.includes('theta=0.5')")
    before = opened.data("densities", "q1")
    opened.press("Reset")
    opened.wait_for_other("densities", "q1", before)
    opened.wait("() => window.location.search == '?problem=tail-1d&y=1&theta=3'")
    opened.page.get_by_role("tab", name="Sample reuse").click()
    for label, value in [(Y, 1), (THETA, 3), (SHARES["alpha"], 1)]:
        opened.wait_for_value(label, value)
    opened.unfold("Draws, runs, seed")
    for label, value in [("Draws per proposal", "64"), ("Runs", "1000"), ("Seed", "0")]:
        expect(opened.page.get_by_label(label, exact=True)).to_have_value(value)


def controls_can_be_used_from_the_keyboard(opened):
    before = opened.data("densities", "target")
    opened.slider(THETA).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.wait_for_other("densities", "target", before)
    assert opened.value(THETA) == pytest.approx(1.34)
    opened.wait("() => window.location.search.includes('theta=1.34')")


def the_server_has_answered_what_came_before(opened, *, seed):
    """Messages keep their order, so an answer to a later one shows that nothing is under way."""
    opened.unfold("Draws, runs, seed")
    opened.type("Seed", str(seed))
    opened.wait(f"() => window.location.search.endsWith('seed={seed}')")


def a_quick_hand_is_followed_to_where_it_ends(opened):
    opened.move(THETA, 0.5)
    opened.wait("() => window.location.search.includes('theta=0.5')")
    opened.slider(THETA).focus()
    for _ in range(40):
        opened.page.keyboard.press("ArrowRight")
    opened.wait_for_value(THETA, 0.9)
    opened.wait("() => window.location.search.includes('theta=0.9&')")
    the_server_has_answered_what_came_before(opened, seed=11)
    assert opened.value(THETA) == pytest.approx(0.9)


def test_the_address_is_read_and_kept_presets_move_it_and_reset_empties_it(visit):
    opened = visit("?y=1&theta=2&variant=paper&draws=10&runs=4&seed=9")
    assert (opened.value(Y), opened.value(THETA)) == (1, 2)
    length = opened.page.evaluate("() => window.history.length")
    for theta in (1.5, 1.25, 1.33):
        opened.move(THETA, theta)
        opened.wait(f"() => window.location.search.includes('theta={theta}')")
    assert opened.page.url.endswith(
        "?problem=tail-1d&y=1&theta=1.33&variant=paper&draws=10&runs=4&seed=9"
    )
    controls_can_be_used_from_the_keyboard(opened)
    a_quick_hand_is_followed_to_where_it_ends(opened)
    presets_lead_to_their_point(opened)
    nothing_jumps_when_a_story_comes_and_goes(opened)
    reset_leads_back_to_the_start(opened)
    assert opened.page.evaluate("() => window.history.length") == length


def bad_input_gives_a_message_and_the_page_lives_on(opened):
    opened.type("Draws per proposal", "a few")
    opened.wait_for_text("expected a whole number from 2 to 5,000, got 'a few'")
    opened.type("Draws per proposal", "12")
    opened.page.get_by_text("got 'a few'").wait_for(state="detached")
    opened.type("Runs", "7")
    opened.wait_for_end(7)


def what_is_wrong_with_an_address_is_said_beside_the_controls(opened):
    for text in (
        "got 'tail-9'",
        "expected a number from -4 to 8, got 'x'",
        "expected a number from 0 to 5, got '99'",
        "expected one of spline, paper, oracle, got 'best'",
        "expected a whole number from 2 to 5,000, got '0'",
    ):
        opened.wait_for_text(text)
    assert (opened.value(Y), opened.value(THETA)) == (1, 5)
    opened.wait_for_end(4)


def pictures_have_words_and_formulas_are_typeset(opened):
    for words in ("10 draws from q₁", "Relative error over 6 runs"):
        expect(opened.page.get_by_role("img", name=words).first).to_be_visible()
    opened.unfold("The problem")
    opened.page.get_by_role("math").first.wait_for(state="visible")


def what_is_shown_can_be_taken_home(opened):
    curves = opened.take_table("Relative error")
    remse = [float(c["remse_mean"]) for c in curves if c["estimator"] == "snis-qm"]
    shown = opened.data("errors-snis-qm", "error")
    np.testing.assert_allclose(shown, 100 * np.sqrt(remse), rtol=1e-12)
    files = {}
    opened.unfold("Share and download")
    for name in ("Densities, CSV", "Everything, JSON"):
        with opened.page.expect_download() as download:
            opened.press(name)
        files[name] = download.value.path().read_text()
    choice, *lines = files["Densities, CSV"].splitlines()
    assert "theta=5" in choice
    densities = list(csv.DictReader(lines))
    assert [float(line["q1"]) for line in densities] == list(opened.data("densities", "q1"))
    everything = json.loads(files["Everything, JSON"])
    assert everything["state"]["draws"] == 10
    assert everything["results"]["errors"]["runs"] == 6


def a_picture_can_be_saved(opened):
    with opened.page.expect_download() as download:
        opened.page.locator(".part-errors").get_by_title("Save as SVG").first.click()
    assert download.value.suggested_filename == "amci-tail-1d-errors.svg"
    assert "<svg" in download.value.path().read_text()[:200]
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
    x, target = (opened.data("densities", name) for name in ("x", "target"))
    assert x[target > 0.01].min() == pytest.approx(1.0, abs=1e-6)


def test_bad_input_is_reported_pictures_have_words_can_be_taken_home_and_change(visit):
    opened = visit("?problem=tail-9&y=x&theta=99&variant=best&draws=0&runs=4")
    what_is_wrong_with_an_address_is_said_beside_the_controls(opened)
    bad_input_gives_a_message_and_the_page_lives_on(opened)
    opened.type("Draws per proposal", "10")
    opened.type("Runs", "6")
    opened.wait_for_end(6)
    pictures_have_words_and_formulas_are_typeset(opened)
    what_is_shown_can_be_taken_home(opened)
    a_picture_can_be_saved(opened)
    the_dark_theme_recolours_pictures_and_curves(opened)
    the_logarithmic_picture_takes_the_place_of_the_linear_one(opened)


def no_card_lies_on_another(opened):
    cards = opened.page.evaluate(CARDS)
    # That behind the tabs comes last.
    assert len(cards) in (2, 3)
    for one, other in combinations(cards, 2):
        (top, bottom, left, right), (its_top, its_bottom, its_left, its_right) = one, other
        below = bottom <= its_top or its_bottom <= top
        assert below or right <= its_left or its_right <= left


# The first size is that of the screen when the page opens.
@pytest.mark.parametrize(
    "sizes", [[(390, 844)], [(768, 1024), (1440, 900)]], ids=["phone", "wide"]
)
def test_opens_well_on_screens_of_all_sizes(visit, sizes):
    (width, height), *_ = sizes
    opened = visit("?problem=gain-loss&runs=4&draws=8", width=width, height=height)
    opened.wait_for_end(4)
    for width, height in sizes:
        opened.page.set_viewport_size({"width": width, "height": height})
        place = opened.place_of(Y)
        assert 0 <= place["y"]
        assert place["y"] + place["height"] <= height
        # Nothing is wider than its place: the page does not scroll sideways.
        opened.wait(f"() => ({SIDEWAYS})().toString() == '0,0'")
        no_card_lies_on_another(opened)
        # Only what can be seen has been laid out.
        opened.page.set_viewport_size({"width": width, "height": 4000})
    if width == 390:
        open_map(opened)
        assert opened.sideways() == [0, 0]


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
