"""Training on the page: from Start to proposals that are chosen and taken home."""

import re

import numpy as np
import pytest
from amci_explorer.compute.computations import TOTALS
from serving import PATIENCE

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("browser-two"),
]

NAME = "learnt"


def wait_for_variant(opened, name):
    """Waits until the page has these proposals chosen: its address says so."""
    opened.page.wait_for_url(re.compile(rf"variant={name}"), timeout=1000 * PATIENCE)


def test_twenty_seconds_give_proposals_that_the_page_shows(visit):
    opened = visit("?theta=3&runs=100&draws=16&card=train")
    page = opened.page
    start = page.get_by_role("button", name="Start", exact=True)
    start.scroll_into_view_if_needed()
    top = start.bounding_box()["y"]
    before = opened.wait_for_data("densities", "q1")
    opened.press("Start")
    # They are chosen as soon as there are some, and sliders still move.
    wait_for_variant(opened, NAME)
    opened.wait_for_other("densities", "q1", before)
    # The page stays where it is scrolled, but for a line more or less.
    assert abs(start.bounding_box()["y"] - top) < 40
    opened.move("Threshold θ", 2.5)
    opened.wait_for_value("Threshold θ", 2.5)
    opened.move("Threshold θ", 3)
    page.get_by_text("was trained in").first.wait_for(timeout=1000 * PATIENCE)
    opened.wait_for_text("held-out cases: at worst")
    for name in ("q1_plus", "q2"):
        best = opened.data(f"learning-{name}", "best")
        assert (np.diff(best) <= 0).all()
        # Where a term starts well, as q1 does, there is less to learn.
        assert best[-1] < min(best[0] / 1.5, 0.05)
    opened.wait_for_end(100)
    # All that is left is said without a mark of an earlier result.
    assert "earlier" not in opened.status("errors")
    at = TOTALS.index(1000) if 1000 in TOTALS else int(np.argmin(np.abs(np.array(TOTALS) - 1e3)))
    error, of_mixture = (opened.data(f"errors-{n}", "median")[at] for n in ("amci", "snis-qm"))
    # Per cent are roots of squared errors.
    assert 30 * error**2 < of_mixture**2
    with page.expect_download() as download:
        opened.press_in("Train", "Download")
    assert download.value.suggested_filename.startswith(NAME)
