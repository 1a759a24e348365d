"""Another f, typed on the page: it is shown when it is right, and stays in the address."""

import numpy as np
import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]
LABEL = "f(x, θ), then Enter"


def test_what_is_typed_is_shown_kept_and_undone_and_what_is_wrong_changes_nothing(visit):
    opened = visit("?runs=20&draws=64&theta=1")
    field = opened.page.get_by_label(LABEL, exact=True)
    own = opened.wait_for_data("densities", "target")
    opened.unfold("Your own f")
    opened.type(LABEL, "abs(x1 - theta1) < 0.5")
    window = opened.wait_for_other("densities", "target", own)
    opened.wait_for_text("reference value")
    opened.wait_for_end(20)
    address = opened.page.url
    opened.type(LABEL, "abs(x1 - y) < 0.5")
    expect(field).to_have_attribute("aria-invalid", "true")
    said = field.evaluate(
        "e => e.getRootNode().getElementById(e.getAttribute('aria-describedby')).textContent"
    )
    assert said == "Column 10: f does not depend on y. Use x, x1, theta, theta1"
    np.testing.assert_array_equal(opened.data("densities", "target"), window)
    assert opened.page.url == address
    # The address leads back to it.
    opened.page.reload()
    opened.wait_until_open()
    np.testing.assert_allclose(opened.wait_for_data("densities", "target"), window)
    opened.unfold("Your own f")
    expect(field).to_have_value("abs(x1 - theta1) < 0.5")
    # An example is picked and undone.
    opened.page.get_by_label("Examples", exact=True).select_option(index=1)
    opened.wait_for_other("densities", "target", window)
    opened.press("Back")
    expect(field).to_have_value("abs(x1 - theta1) < 0.5")
    opened.press("Restore the problem's f")
    opened.wait_for_same_data("densities", "target", own)
