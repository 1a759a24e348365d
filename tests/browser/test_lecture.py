"""The lecture: headline, tour, training history and draws one by one, on a desk and on a phone."""

import re

import pytest
from amci_explorer.problems.presets import PRESETS
from playwright.sync_api import expect

import amci_core as amci
from amci_core.diagnostics.verdict import LEVELS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]

QUERY = "?runs=50&seed=3"
Y, THETA = "Observation y", "Threshold θ"


def played(opened):
    """How many draws are shown, and what is said of them."""
    said = opened.page.locator(".play-words p").inner_text()
    return len(opened.data("play-shown", "draw")), said


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_opening_and_another_problem_shift_little(visit, width, height):
    opened = visit(QUERY, width=width, height=height)
    opened.wait_for_end(50)
    opened.watch_shifts()
    assert opened.shifted(by_itself=True) < 0.05
    opened.page.get_by_label("Problem").select_option("Gain and loss")
    opened.wait_for_end(50)
    assert opened.shifted() < 0.05


def test_the_tour_goes_on_by_buttons_and_keys_on_a_dark_phone_too(visit):
    opened = visit("?tour=two-integrals", width=390, height=844, scheme="dark")
    page = opened.page
    opened.wait_for_text("Step 1 of 13")
    page.get_by_text("How many of 5,000 posterior draws").click()
    opened.wait_for_text("About one: the tail holds")
    opened.press("Next")
    opened.wait_for_text("Step 2 of 13")
    page.keyboard.press("Escape")
    page.evaluate("() => document.activeElement?.blur()")
    page.keyboard.press("ArrowRight")
    opened.wait_for_text("Step 3 of 13")
    opened.wait("() => window.location.search.includes('tour=bound')")
    # A handle keeps its keys.
    opened.slider(Y).focus()
    page.keyboard.press("ArrowRight")
    opened.wait_for_value(Y, 1.01)
    assert page.get_by_text("Step 3 of 13").is_visible()
    opened.press("Leave")
    page.get_by_text("Step 3 of 13").wait_for(state="hidden")
    opened.press("Tour")
    opened.wait_for_text("Step 3 of 13")
    opened.wait_for_value(Y, 1.0)


def test_the_training_history_plays_from_its_start_and_moves_densities_and_errors(visit):
    opened = visit(QUERY)
    opened.wait_for_end(50)
    opened.unfold("Proposals")
    trained = opened.data("densities", "q1")
    errors = opened.data("errors-amci", "median")
    opened.page.get_by_role("button", name="First frame", exact=True).first.click()
    opened.page.get_by_role("button", name="Play", exact=True).first.click()
    opened.wait_for_other("densities", "q1", trained)
    opened.wait_for_other("errors-amci", "median", errors)


def test_draws_come_one_by_one_and_take_no_round_trip(visit):
    opened = visit(QUERY + "&card=play")
    page, player = opened.page, opened.page.locator(".draws-player")
    opened.wait_for_data("play-all", "draw")
    player.get_by_role("button", name="Next frame").click()
    player.get_by_role("button", name="Next frame").click()
    opened.wait_for_text("After 2:")
    count, said = played(opened)
    assert count == 2
    assert "μ ≈" in said
    assert "truth" in said
    opened.wait_for_end(50)
    page.evaluate("""() => {
        window.heard = 0
        const page = Bokeh.documents[0], apply = page.apply_json_patch
        page.apply_json_patch = function(...given) {
            window.heard += 1
            return apply.apply(this, given)
        }
    }""")
    player.get_by_role("button", name="Play", exact=True).click()
    opened.wait_for_text("After 500:")
    assert page.evaluate("() => window.heard") == 0
    assert played(opened)[0] == 500
    # Other draws begin at the start.
    opened.move(THETA, 2)
    opened.wait_for_text("No draws yet.")


def test_every_preset_can_be_opened_and_comes_to_a_sentence(visit):
    opened = visit("?runs=4&draws=8")
    for name, presets in PRESETS.items():
        opened.page.get_by_label("Problem").select_option(amci.problem(name).title)
        for preset in presets:
            opened.press(preset.name)
            expect(opened.page.locator(".headline")).to_have_text(re.compile(r"\?.*\.$"))
            verdict = opened.page.locator(".part-summary .badge")
            expect(verdict).to_have_text(re.compile("|".join(LEVELS), re.IGNORECASE))


@pytest.mark.parametrize("step", ["learning", "your-f"])
def test_a_link_to_a_step_opens_it_without_a_complaint(visit, step):
    opened = visit(f"?tour={step}")
    opened.wait_for_text("of 13.")
    opened.wait("() => Bokeh.documents[0].is_idle")
    alerts = opened.page.get_by_role("alert").all()
    assert [each.inner_text() for each in alerts if each.is_visible()] == []
    assert opened.complaints == []
    # The server is not busy with it: another step comes at once.
    opened.press("Previous")
    opened.wait_for_text("Step 6 of" if step == "learning" else "Step 12 of")
    # Pictures of a card that goes are named after the f that comes: the server hears of none.
    opened.press("Next")
    opened.wait_for_text("Step 7 of" if step == "learning" else "Step 13 of")
    opened.wait("() => Bokeh.documents[0].is_idle")
    opened.wait_for_frames(10)
