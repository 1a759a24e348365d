"""The first screen: question, answer, two pictures and a line; short, legible and whole."""

import numpy as np
import pytest
from amci_explorer.problems.presets import PRESETS
from visit import RUNS

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
# With most handles, and with most panels.
FIRST = ("tail-5d", "gain-loss")
ALL = [*FIRST, *(pytest.param(n, marks=pytest.mark.slow) for n in PRESETS if n not in FIRST)]
# The last is a window of 1280 pixels at 200 %.
NARROW = [(390, 844), (768, 1024), (640, 360)]


def places(opened, *parts):
    """Left, top, right and bottom of parts of the page."""
    found = []
    for part in map(opened.page.locator, parts):
        # Words are put in anew whenever they change.
        while not (seen := part.evaluate_all(PLACES)):
            part.first.wait_for()
        found += seen
    return np.array(found)


@pytest.mark.parametrize("problem", ALL)
def test_it_fits_a_small_desk_in_few_words_none_of_them_tiny(at, problem):
    opened = at(f"&problem={problem}", width=1280, height=720)
    opened.wait_for_end(RUNS)
    opened.watch_shifts()
    assert opened.shifted(by_itself=True) < 0.1
    texts = opened.page.evaluate(TEXTS)
    words = [word for text, _ in texts for word in text.split() if any(map(str.isalpha, word))]
    assert len(words) <= 150, words
    assert [each for each in texts if each[1] < 13] == []
    cards = places(opened, ".part-densities", ".part-errors")
    np.testing.assert_allclose(cards[0, 1::2], cards[1, 1::2], atol=1)
    parts = (".part-headline", HANDLES, CANVAS.format("densities"), CANVAS.format("errors"))
    shown = places(opened, *parts, ".part-summary")
    assert shown[:, :2].min() >= 0
    assert shown[:, 2].max() <= 1280
    assert shown[:, 3].max() <= 720


@pytest.mark.parametrize(
    ("problem", "size"),
    [
        ("tail-1d", NARROW[0]),
        ("tail-5d", NARROW[2]),
        ("peak", NARROW[1]),
        *(pytest.param(n, size, marks=pytest.mark.slow) for n in PRESETS for size in NARROW),
    ],
)
def test_in_one_column_words_come_first_and_both_pictures_are_whole(at, problem, size):
    width, height = size
    opened = at(f"&problem={problem}", width=width, height=height)
    opened.wait_for_end(RUNS)
    opened.watch_shifts()
    assert opened.shifted(by_itself=True) < 0.1
    bar = places(opened, HANDLES)[:, 1].min()
    words = places(opened, ".part-headline .headline")
    densities, errors = (places(opened, CANVAS.format(part)) for part in ("densities", "errors"))
    assert words[:, 3].max() <= bar
    assert words[:, 3].max() <= densities[:, 1].min()
    assert densities[:, 3].max() <= errors[:, 1].min()
    for shown in (densities, errors):
        assert shown[:, 0].min() >= 0
        assert shown[:, 2].max() <= width
        # Each picture can be seen as a whole, above the bar with the handles.
        assert (shown[:, 3] - shown[:, 1]).max() <= bar
