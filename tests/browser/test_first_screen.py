"""The first screen: question, answer, two pictures and a line; short, legible and whole."""

from itertools import combinations

import numpy as np
import pytest
from amci_explorer.problems.presets import PRESETS
from cards import choose
from playwright.sync_api import expect
from visit import RUNS, SIDEWAYS

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

HANDLES = ".part-handles input[type=range]"
CANVAS = ".part-{} .bk-Figure"
PLACES = """all => all.map(each => each.getBoundingClientRect())
    .filter(box => box.width * box.height > 0)
    .map(({left, top, right, bottom}) => [left, top, right, bottom])"""
# The texts that a window shows, and how high their letters are, in pixels; pictures aside.
TEXTS = """() => {
    const found = []
    const look = root => {
        for (const el of root.querySelectorAll("*")) {
            if (el.shadowRoot) { look(el.shadowRoot) }
            // Labels for assistive technology alone are a pixel wide.
            if (el.matches("style, script, option") || el.getBoundingClientRect().width <= 1
                || !el.checkVisibility({opacityProperty: true, visibilityProperty: true})) {
                continue
            }
            for (const node of el.childNodes) {
                const range = document.createRange()
                range.selectNode(node)
                const {top, bottom, left, right} = range.getBoundingClientRect()
                const inside = bottom > 0 && top < innerHeight && left < innerWidth
                if (node.nodeType == 3 && node.data.trim() && inside && right > left + 1) {
                    found.push([node.data.trim(), parseFloat(getComputedStyle(el).fontSize)])
                }
            }
        }
    }
    look(document)
    return found
}"""
DESK, PHONE = (1280, 720), (390, 844)
# The last is a window of 1280 pixels at 200 %.
NARROW = [PHONE, (768, 1024), (640, 360)]


def places(opened, *parts):
    """Left, top, right and bottom of parts of the page."""
    found = []
    for part in map(opened.page.locator, parts):
        # Words are put in anew whenever they change.
        while not (seen := part.evaluate_all(PLACES)):
            part.first.wait_for()
        found += seen
    return np.array(found)


def resize(opened, size):
    opened.page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    opened.wait_for_frames(3)


def assert_it_fits_in_few_words_none_of_them_tiny(opened):
    texts = opened.page.evaluate(TEXTS)
    words = [word for text, _ in texts for word in text.split() if any(map(str.isalpha, word))]
    assert len(words) <= 150, words
    assert [each for each in texts if each[1] < 13] == []
    cards = places(opened, ".part-densities", ".part-errors")
    np.testing.assert_allclose(cards[0, 1::2], cards[1, 1::2], atol=1)
    parts = (".part-headline", HANDLES, CANVAS.format("densities"), CANVAS.format("errors"))
    shown = places(opened, *parts, ".part-summary")
    assert shown[:, :2].min() >= 0
    assert shown[:, 2].max() <= DESK[0]
    assert shown[:, 3].max() <= DESK[1]


def assert_words_come_first_and_both_pictures_are_whole(opened, size):
    # Nothing is wider than its place: the page does not scroll sideways.
    opened.wait(f"() => ({SIDEWAYS})().toString() == '0,0'")
    opened.page.evaluate("() => window.scrollTo(0, 0)")
    bar = places(opened, HANDLES)[:, 1].min()
    words = places(opened, ".part-headline .headline")
    densities, errors = (places(opened, CANVAS.format(part)) for part in ("densities", "errors"))
    assert words[:, 3].max() <= bar
    assert words[:, 3].max() <= densities[:, 1].min()
    assert densities[:, 3].max() <= errors[:, 1].min()
    for shown in (densities, errors):
        assert shown[:, 0].min() >= 0
        assert shown[:, 2].max() <= size[0]
        # Each picture can be seen as a whole, above the bar with the handles.
        assert (shown[:, 3] - shown[:, 1]).max() <= bar


def assert_no_card_lies_on_another(opened):
    cards = places(opened, ".part-densities", ".part-errors", ".part-map")
    assert len(cards) == 3
    for one, other in combinations(cards, 2):
        # Apart from left to right, or from top to bottom.
        assert (np.maximum(one, other)[:2] >= np.minimum(one, other)[2:]).any()


def turn_to(opened, name):
    choose(opened, "Problem", amci.problem(name).title)
    opened.wait("name => location.search.includes(`problem=${name}`)", name)
    for preset in PRESETS[name]:
        expect(opened.page.get_by_role("button", name=preset.name, exact=True)).to_be_visible()
    opened.wait_for_end(RUNS)


def test_problems_with_most_handles_and_panels_fit_a_small_desk(at):
    opened = at("&problem=tail-5d", width=DESK[0], height=DESK[1])
    opened.wait_for_end(RUNS)
    assert opened.shifted() < 0.05
    assert_it_fits_in_few_words_none_of_them_tiny(opened)
    turn_to(opened, "gain-loss")
    opened.wait_for_data("densities", "q1_minus")
    assert_it_fits_in_few_words_none_of_them_tiny(opened)
    last = PRESETS["gain-loss"][-1]
    opened.press(last.name)
    opened.wait("at => location.search.includes(at)", f"problem=gain-loss&y={last.link['y']}")
    opened.wait_for_value("Price θ", float(last.link["theta"]))


def test_on_a_phone_words_come_first_handles_stay_in_sight_and_nothing_is_tiny(at):
    opened = at("&problem=cancer", width=PHONE[0], height=PHONE[1])
    opened.wait_for_end(RUNS)
    assert opened.shifted() < 0.05
    assert_words_come_first_and_both_pictures_are_whole(opened, PHONE)
    # No button can do nothing.
    expect(opened.page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    opened.unfold("The problem")
    opened.page.locator("math msub").first.wait_for()
    for place in (".headline", "role=tab[name='Sample reuse']"):
        opened.page.locator(place).first.scroll_into_view_if_needed()
        assert [text for text, size in opened.page.evaluate(TEXTS) if size < 12] == []
        # The two for y are in the bar.
        bottom = places(opened, HANDLES)[:2, 3]
        assert PHONE[1] / 2 < bottom.min() <= bottom.max() <= PHONE[1]


@pytest.mark.slow
def test_every_problem_fits_every_screen(at):
    opened = at("&problem=gain-loss", width=DESK[0], height=DESK[1])
    opened.wait_for_end(RUNS)
    for name in PRESETS:
        if name != "gain-loss":
            turn_to(opened, name)
        assert_it_fits_in_few_words_none_of_them_tiny(opened)
        for size in NARROW:
            resize(opened, size)
            assert_words_come_first_and_both_pictures_are_whole(opened, size)
            # Only what can be seen has been laid out.
            resize(opened, (size[0], 4000))
            assert_no_card_lies_on_another(opened)
        resize(opened, DESK)
