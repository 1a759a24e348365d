"""Presets, reset, addresses, downloads, themes, small screens, and what goes wrong."""

import csv
import json
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from app.presets import PRESETS

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

Y, THETA = "Observation y", "Threshold θ"
# Top, left and bottom of every card, from the first to the last.
CARDS = """() => {
    const found = []
    const search = root => {
        for (const node of root.querySelectorAll("*")) {
            if (node.tagName === "H2") {
                const card = node.getRootNode().host.parentNode.host.parentNode.host
                const {top, left, bottom} = card.getBoundingClientRect()
                found.push([top, left, bottom])
            }
            if (node.shadowRoot) search(node.shadowRoot)
        }
    }
    search(document)
    return found
}"""
SHARES = {"alpha": "α: share of E₁ from q₁", "beta": "β: share of E₂ from q₁"}


def test_presets_lead_to_their_point_and_say_what_to_watch(visit):
    opened = visit("?runs=4&y=2.2&theta=1.1")
    for preset in PRESETS["tail-1d"]:
        opened.press(preset.name)
        opened.wait_for_text(preset.watch)
        y, theta = preset.y[0], preset.theta[0]
        opened.wait("at => window.location.search.includes(at)", f"y={y:.4g}&theta={theta:.4g}")
        opened.wait_for_value(Y, y)
        opened.wait_for_value(THETA, theta)
        for name, default in [("alpha", 1), ("beta", 0)]:
            asked = getattr(preset, name)
            opened.wait_for_value(SHARES[name], default if asked is None else asked)
        chosen = opened.page.get_by_role("button", name=preset.variant or "spline", exact=True)
        expect(chosen).to_have_attribute("aria-pressed", "true")


def test_reset_leads_back_to_the_start(visit):
    opened = visit("?y=3&theta=0.5&variant=paper&draws=10&runs=5&seed=9")
    opened.move(SHARES["alpha"], 0.2)
    before = opened.data("densities", "q1")
    opened.press("Reset")
    opened.wait_for_other("densities", "q1", before)
    opened.wait("() => window.location.search == '?y=1&theta=3'")
    for label, value in [(Y, 1), (THETA, 3), (SHARES["alpha"], 1)]:
        opened.wait_for_value(label, value)
    for label, value in [("Draws N = M", "64"), ("Runs", "1000"), ("Seed", "0")]:
        expect(opened.page.get_by_label(label, exact=True)).to_have_value(value)


def test_the_address_is_read_and_kept_without_filling_the_history(visit):
    opened = visit("?y=1&theta=2&variant=paper&runs=4")
    assert (opened.value(Y), opened.value(THETA)) == (1, 2)
    length = opened.page.evaluate("() => window.history.length")
    for theta in (1.5, 1.25, 1.33):
        opened.move(THETA, theta)
        opened.wait(f"() => window.location.search.includes('theta={theta}')")
    assert opened.page.evaluate("() => window.history.length") == length
    assert opened.page.url.endswith("?y=1&theta=1.33&variant=paper&runs=4")


def test_a_quick_hand_is_followed_to_where_it_ends(visit):
    opened = visit("?y=1&theta=0.5&runs=4")
    handle = opened.page.get_by_role("slider", name=THETA)
    handle.focus()
    for _ in range(40):
        opened.page.keyboard.press("ArrowRight")
    opened.wait("() => window.location.search.includes('theta=0.9')")


def test_what_is_wrong_with_an_address_is_said_beside_the_controls(visit):
    opened = visit("?y=99&theta=x&variant=best&draws=0&runs=4")
    for text in (
        "y: expected a number from -4 to 8, got 99",
        "theta: expected a number, got 'x'",
        "expected one of spline, paper, oracle, got 'best'",
        "expected a whole number from 2 to 5,000, got '0'",
    ):
        opened.wait_for_text(text)
    assert (opened.value(Y), opened.value(THETA)) == (1, 3)
    opened.wait_for_end(4)


def test_bad_input_gives_a_message_and_the_page_lives_on(visit):
    opened = visit("?runs=4")
    opened.wait_for_end(4)
    opened.type("Draws N = M", "a few")
    opened.wait_for_text("expected a whole number from 2 to 5,000, got 'a few'")
    opened.type("Draws N = M", "12")
    opened.page.get_by_text("got 'a few'").wait_for(state="detached")
    opened.wait_for_text("of 12")
    opened.type("Runs", "7")
    opened.wait_for_end(7)


def test_what_is_shown_can_be_taken_home(visit):
    opened = visit("?runs=6&draws=10")
    opened.wait_for_end(6)
    files = {}
    for name in ("Error curves, CSV", "Densities, CSV", "Everything, JSON"):
        with opened.page.expect_download() as download:
            opened.press(name)
        files[name] = download.value.path().read_text()
    curves = list(csv.DictReader(files["Error curves, CSV"].splitlines()))
    shown = opened.data("errors-snis-qm", "mean")
    assert [float(c["remse_mean"]) for c in curves if c["estimator"] == "snis-qm"] == list(shown)
    densities = list(csv.DictReader(files["Densities, CSV"].splitlines()))
    assert [float(line["q1"]) for line in densities] == list(opened.data("densities", "q1"))
    everything = json.loads(files["Everything, JSON"])
    assert everything["choice"]["draws"] == 10
    assert everything["error_curves"]["runs"] == 6


def test_a_picture_can_be_saved(visit):
    opened = visit("?runs=4")
    with opened.page.expect_download() as download:
        opened.page.get_by_title("Save as SVG").first.click()
    assert download.value.suggested_filename == "densities-linear.svg"
    assert "<svg" in download.value.path().read_text()[:200]
    opened.page.on("dialog", lambda dialog: dialog.accept("picture"))
    with opened.page.expect_download() as download:
        opened.page.get_by_title("Save", exact=True).first.click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_the_dark_theme_recolours_pictures_and_curves(visit):
    opened = visit("?runs=4")
    colours = """() => {
        const shown = Bokeh.documents[0].get_model_by_name("densities-linear")
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


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (1440, 900)])
def test_opens_well_on_screens_of_all_sizes(visit, width, height):
    opened = visit("?runs=4", width=width, height=height)
    opened.wait_for_end(4)
    controls = opened.slider(Y)
    controls.wait_for(state="visible" if width >= 600 else "hidden")
    # Nothing is wider than its place: the page does not scroll sideways.
    assert opened.sideways() == [0, 0]


def test_controls_can_be_used_from_the_keyboard(visit):
    opened = visit("?runs=4")
    before = opened.data("densities", "target")
    opened.slider(THETA).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.wait_for_other("densities", "target", before)
    assert opened.value(THETA) == pytest.approx(3.01)
    opened.wait("() => window.location.search.includes('theta=3.01')")


def test_pictures_have_words_and_formulas_are_typeset(visit):
    opened = visit("?runs=4")
    opened.wait_for_end(4)
    names = [p.get_attribute("aria-label") or "" for p in opened.page.get_by_role("img").all()]
    for beginning in ("Densities over x.", "Log-ratio", "Median relative", "Relative error over"):
        assert any(name.startswith(beginning) for name in names), beginning
    opened.page.locator("mjx-container").first.wait_for(state="visible")


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (390, 844)])
def test_no_card_lies_on_another(visit, width, height):
    opened = visit("?runs=4", width=width, height=height)
    opened.wait_for_end(4)
    cards = opened.page.evaluate(CARDS)
    assert len(cards) == 4
    for (_, left, bottom), (top, next_left, _) in pairwise(cards):
        assert top >= bottom or next_left > left
