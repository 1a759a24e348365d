"""Training on the page: from Start to proposals that are chosen and taken home."""

import re

import pytest
from serving import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]


def test_twenty_seconds_give_proposals_that_the_page_shows(visit):
    opened = visit("?theta=3&runs=100&draws=16&card=train")
    page = opened.page
    start = page.get_by_role("button", name="Start", exact=True)
    start.scroll_into_view_if_needed()
    top = start.bounding_box()["y"]
    before = opened.wait_for_data("densities", "q1")
    opened.press("Start")
    # They are chosen as soon as there are some, and sliders still move.
    page.wait_for_url(re.compile("variant=learnt"), timeout=1000 * PATIENCE)
    opened.wait_for_other("densities", "q1", before)
    # The page stays where it is scrolled, but for a line more or less.
    assert abs(start.bounding_box()["y"] - top) < 40
    opened.move("Threshold θ", 2.5)
    opened.wait_for_value("Threshold θ", 2.5)
    opened.move("Threshold θ", 3)
    # They have the time that they need on a busy machine.
    page.get_by_text("was trained in").first.wait_for(timeout=300_000)
    opened.wait_for_text("held-out cases: at worst")
    for name in ("q1_plus", "q2"):
        best = opened.data(f"learning-{name}", "best")
        # Where a term starts well, as q1 does, there is less to learn.
        assert best[-1] < min(best[0] / 1.5, 0.05)
    opened.wait_for_end(100)
    # All that is left is said without a mark of an earlier result.
    assert "earlier" not in opened.status("errors")
    with page.expect_download() as download:
        opened.press_in("train", "Download")
    assert download.value.suggested_filename.startswith("learnt")
