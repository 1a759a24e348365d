"""The Diagnostics tab: weights and verdict of the point shown."""

import numpy as np
import pytest
from cards import computed_diagnosis, open_diagnostics, wait_for_way
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def test_what_is_shown_is_what_the_draws_say_and_follows_the_case(visit):
    opened = visit("?runs=4&y=2&theta=2&seed=5")
    opened.wait_for_end(4)
    open_diagnostics(opened)
    found = computed_diagnosis("tail-1d", 2.0, 2.0, seed=5)
    wait_for_way(opened, found)
    for term in found.terms:
        np.testing.assert_allclose(
            opened.data(f"diagnostics-points-{term.name}", "x"), term.x[:, 0], rtol=1e-12
        )
        np.testing.assert_allclose(
            opened.data(f"diagnostics-bars-{term.name}", "height"), term.heights
        )
        np.testing.assert_allclose(
            opened.data(f"diagnostics-tail-{term.name}", "x"), term.tail, rtol=1e-12
        )
    off = 100 * (found.along.value / found.truth - 1)
    np.testing.assert_allclose(opened.data("diagnostics-way", "value"), off, atol=1e-9)
    verdict = opened.page.get_by_role("status").filter(has_text="1,000 draws from each proposal")
    expect(verdict).to_contain_text("Reliable")
    # Described when all of it is there: a message of its own, after the last numbers.
    alternative = opened.page.get_by_role("img", name="Histogram of 1,000 log weights of E₁")
    expect(alternative).to_have_count(1)
    # When a slider is let go, the draws are those of the new case.
    before = opened.data("diagnostics-points-E1_plus", "x")
    opened.move("Threshold θ", 1.0)
    after = opened.wait_for_other("diagnostics-points-E1_plus", "x", before)
    moved = computed_diagnosis("tail-1d", 2.0, 1.0, seed=5)
    np.testing.assert_allclose(after, moved.terms[0].x[:, 0], rtol=1e-12)
