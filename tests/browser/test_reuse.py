"""The budget split of sample reuse: a slider with its optimum marked, in the page."""

import json

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SPLIT = "N : M"
# Left, right, top and bottom of parts of the one slider that has marks, in pixels.
PARTS = """
    () => {
        const found = {}
        const look = root => {
            for (const el of root.querySelectorAll("*")) {
                if (el.shadowRoot) { look(el.shadowRoot) }
                if (!el.classList?.contains("MuiSlider-root")) { continue }
                if (!el.querySelector(".MuiSlider-markLabel")) { continue }
                for (const name of ["rail", "mark", "markLabel", "thumb"]) {
                    found[name] = [...el.querySelectorAll(`.MuiSlider-${name}`)].map(part => {
                        const {left, right, top, bottom} = part.getBoundingClientRect()
                        return {left, right, top, bottom, text: part.textContent}
                    })
                }
            }
        }
        look(document)
        return JSON.stringify(found)
    }
"""


def parts(opened):
    return json.loads(opened.page.evaluate(PARTS))


def middle(part):
    return (part["left"] + part["right"]) / 2


@pytest.mark.parametrize("width", [1440, 390])
def test_the_best_splits_are_marked_where_the_handle_would_stand(visit, width):
    opened = visit("?runs=30&draws=16&y=2&theta=1&variant=paper", width=width, height=3000)
    opened.wait_for_end(30)
    opened.wait_for_text("best for u*")
    found = parts(opened)
    (rail,) = found["rail"]
    assert [label["text"].split(",")[0] for label in found["markLabel"]] == [
        "best for AMCI",
        "best for u*",
    ]
    for mark, label in zip(found["mark"], found["markLabel"], strict=True):
        of_q1 = int(label["text"].split(",")[1].split(":")[0])
        along = (of_q1 - 1) / 98
        assert middle(mark) == pytest.approx(
            rail["left"] + along * (rail["right"] - rail["left"]), abs=0.6
        )
        assert rail["left"] <= label["left"] <= middle(mark) <= label["right"] <= rail["right"]
    upper, lower = found["markLabel"]
    assert upper["bottom"] < rail["top"] < rail["bottom"] < lower["top"]
    # By keys alone: the handle stands on the mark then.
    button = opened.page.get_by_role("button", name="Use the best split for AMCI")
    button.focus()
    before = found["thumb"][0]
    opened.page.keyboard.press("Enter")
    of_q1 = int(upper["text"].split(",")[1].split(":")[0])
    opened.wait_for_value(SPLIT, of_q1 / 100)
    assert middle(parts(opened)["thumb"][0]) == pytest.approx(middle(found["mark"][0]), abs=0.6)
    assert before["left"] != parts(opened)["thumb"][0]["left"]
    total = 32
    opened.wait_for_text(f"With N = {round(total * of_q1 / 100)}")
