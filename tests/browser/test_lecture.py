"""The lecture: draws one by one, and links to steps of the tour on a dark phone."""

import pytest
from cards import choose

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-one")]


def test_draws_come_one_by_one_and_take_no_round_trip(visit):
    opened = visit("?runs=50&seed=3&card=play")
    page, player = opened.page, opened.page.locator(".draws-player")
    opened.wait_for_data("play-all", "draw")
    player.get_by_role("button", name="Next frame").click()
    player.get_by_role("button", name="Next frame").click()
    opened.wait_for_text("After 2:")
    assert len(opened.data("play-shown", "draw")) == 2
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
    assert len(opened.data("play-shown", "draw")) == 500
    # Other draws begin at the start.
    opened.move("Threshold θ", 2)
    opened.wait_for_text("No draws yet.")
    opened.wait_for_end(50)
    # Another problem shifts little.
    begun = opened.now()
    choose(opened, "Problem", "Gain and loss")
    opened.wait("() => location.search.includes('gain-loss')")
    opened.wait_for_end(50)
    assert opened.shifted(begun) < 0.05


def test_links_to_steps_open_them_on_a_dark_phone_without_a_complaint(visit):
    opened = visit("?tour=two-integrals", width=390, height=844, scheme="dark")
    opened.page.get_by_text("How many of 5,000 posterior draws").click()
    opened.wait_for_text("About one: the tail holds")
    for step, number in (("learning", 7), ("your-f", 13)):
        opened.go(f"{opened.page.url.partition('?')[0]}?tour={step}")
        opened.wait_for_text(f"Step {number} of 13")
        opened.wait("() => Bokeh.documents[0].is_idle")
        alerts = opened.page.get_by_role("alert").all()
        assert [each.inner_text() for each in alerts if each.is_visible()] == []
        # The server is not busy with it: another step comes at once.
        opened.press("Previous")
        opened.wait_for_text(f"Step {number - 1} of 13")
        # Pictures of a card that goes are named after the f that comes: the server hears of none.
        opened.press("Next")
        opened.wait_for_text(f"Step {number} of 13")
        opened.wait("() => Bokeh.documents[0].is_idle")
        opened.wait_for_frames(10)
