"""Another f, typed on the page: it is shown when it is right, and stays in the address."""

import numpy as np
import pytest
from playwright.sync_api import expect

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("browser-two"),
]
LABEL, FOLD = "f(x, θ), then Enter", "Your own f"


def field(opened):
    return opened.page.get_by_label(LABEL, exact=True)


def test_what_is_typed_is_shown_and_what_is_wrong_changes_nothing(visit):
    opened = visit("?runs=20&draws=64&theta=1")
    opened.wait_for_end(20)
    own = opened.data("densities", "target")
    opened.unfold(FOLD)
    opened.unfold("Proposals")
    opened.type(LABEL, "abs(x1 - theta1) < 0.5")
    window = opened.wait_for_other("densities", "target", own)
    opened.wait_for_text("No proposals have been trained for this f")
    opened.wait_for_text("reference value")
    opened.wait_for_end(20)
    x = opened.data("densities", "x")
    # A window's density is zero outside of it, and no more than that is.
    inside = window > 1e-6 * window.max()
    assert 0.5 <= x[inside].min() <= x[inside].max() <= 1.5
    # Nothing changes for what is wrong.
    address = opened.page.url
    opened.type(LABEL, "abs(x1 - y) < 0.5")
    expect(field(opened)).to_have_attribute("aria-invalid", "true")
    said = field(opened).evaluate(
        "e => e.getRootNode().getElementById(e.getAttribute('aria-describedby')).textContent"
    )
    assert said == "Column 10: f does not depend on y. Use x, x1, theta, theta1"
    np.testing.assert_array_equal(opened.data("densities", "target"), window)
    assert opened.page.url == address
    # The address leads back to it.
    opened.page.reload()
    opened.wait_until_open()
    np.testing.assert_allclose(opened.wait_for_data("densities", "target"), window)
    opened.unfold(FOLD)
    opened.unfold("Proposals")
    expect(field(opened)).to_have_value("abs(x1 - theta1) < 0.5")
    opened.press("Restore the problem's f")
    opened.wait_for_other("densities", "target", window)
    opened.page.get_by_text("No proposals have been trained").wait_for(state="hidden")
    # An example is picked and undone.
    own = opened.data("densities", "target")
    examples = opened.page.get_by_label("Examples", exact=True)
    examples.select_option(index=1)
    opened.wait_for_other("densities", "target", own)
    expect(field(opened)).not_to_have_value("")
    opened.press("Back")
    expect(field(opened)).to_have_value("")
    opened.wait_for_same_data("densities", "target", own)
