"""The page is accessible: no violation that axe-core knows of, and everything goes by keys."""

import pytest
from axe import violations
from playwright.sync_api import expect
from visit import SIDEWAYS

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

FOCUSED = """() => {
    let found = document.activeElement
    while (found.shadowRoot?.activeElement) { found = found.shadowRoot.activeElement }
    return found
}"""
# The ends of a picture's axes.
ENDS = """name => {
    const {x_range, y_range} = Bokeh.documents[0].get_model_by_name(name)
    return [x_range.start, x_range.end, y_range.start, y_range.end]
}"""


def test_axe_finds_nothing_on_a_phone_in_the_dark_at_any_tab(visit):
    opened = visit("?runs=4&draws=8", width=390, height=844, scheme="dark")
    opened.wait_for_end(4)
    tabs = opened.page.get_by_role("tab")
    for i, name in enumerate(tabs.all_inner_texts()):
        tabs.nth(i).click()
        expect(tabs.nth(i)).to_have_attribute("aria-selected", "true")
        expect(opened.page.get_by_role("tabpanel", name=name)).to_be_visible()
        opened.wait_for_end(4)
        assert violations(opened.page) == [], name
    for fold in opened.page.get_by_role("button", name="Details").all():
        fold.click()
    opened.page.get_by_role("table").first.wait_for(state="visible")
    for fold in ("The problem", "Proposals", "Draws, runs, seed", "Your own f"):
        opened.unfold(fold)
    assert violations(opened.page) == []
    # As a window of 1440 pixels at 200 %, and as one of 1280 at 400 %.
    for width, height in ((720, 450), (320, 256)):
        opened.page.set_viewport_size({"width": width, "height": height})
        opened.wait(f"() => ({SIDEWAYS})().toString() == '0,0'")


def focused(opened):
    """The name or the words of what has the focus."""
    named = f"() => {{ const el = ({FOCUSED})(); return el.ariaLabel ?? el.innerText }}"
    return opened.page.evaluate(named)


def a_picture_is_moved_and_set_back(opened):
    picture = opened.page.get_by_role("application", name="draws from q₁")
    picture.focus()
    start, end, low, high = opened.page.evaluate(ENDS, "densities-q1")
    opened.page.keyboard.press("ArrowRight")
    moved = opened.page.evaluate(ENDS, "densities-q1")
    assert moved == pytest.approx(
        [start + (end - start) / 10, end + (end - start) / 10, low, high]
    )
    opened.page.keyboard.press("+")
    left, right, *_ = opened.page.evaluate(ENDS, "densities-q1")
    assert right - left == pytest.approx(0.8 * (end - start))
    opened.page.keyboard.press("0")
    assert opened.page.evaluate(ENDS, "densities-q1") == [start, end, low, high]


def tab_to(opened, name):
    for _ in range(10):
        if focused(opened) != name:
            opened.page.keyboard.press("Tab")
    assert focused(opened) == name


def its_tools_come_when_they_are_reached(opened):
    # The first are of the panel above, whose axis is the same.
    tools = opened.page.get_by_role("toolbar").nth(1)
    opened.page.get_by_label("Scale", exact=True).focus()
    expect(tools).to_have_css("opacity", "0")
    tab_to(opened, "Save as SVG")
    with opened.page.expect_download() as download:
        opened.page.keyboard.press("Enter")
    assert download.value.suggested_filename == "amci-tail-1d-densities-q2.svg"
    assert "<svg" in download.value.path().read_text()[:200]
    tab_to(opened, "Pan")
    expect(tools).to_have_css("opacity", "1")
    pan = tools.get_by_role("button", name="Pan")
    for pressed in ("true", "false"):
        opened.page.keyboard.press("Space")
        expect(pan).to_have_attribute("aria-pressed", pressed)
    tab_to(opened, "Line of θ in the picture")


def what_has_gone_and_come_back_has_its_roles(opened):
    for name in ("Diagnostics", "Sample reuse"):
        opened.page.get_by_role("tab", name=name).click()
        opened.page.get_by_role("tabpanel", name=name).wait_for(state="visible")
    panel = opened.page.get_by_role("tabpanel", name="Sample reuse")
    expect(panel.get_by_role("toolbar")).to_have_count(1)
    expect(panel.get_by_role("img", name="Relative error over alpha and beta")).to_be_visible()


def a_picture_is_a_table_for_those_who_unfold_it(opened):
    fold = opened.page.get_by_role("button", name="Details").first
    fold.focus()
    opened.page.keyboard.press("Enter")
    table = opened.page.get_by_label("Two proposals, as a table").get_by_role("table")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["x", "target", "posterior", "q1", "q2"]
    )
    before = table.inner_text()
    opened.move("Threshold θ", 1.0)
    expect(table).not_to_have_text(before)
    fold.focus()
    opened.page.keyboard.press("Enter")
    expect(table).not_to_be_visible()
    expect(fold).to_be_focused()


def the_first_stop_leads_past_the_controls(opened):
    opened.page.reload()
    opened.wait_until_open()
    opened.page.get_by_role("button", name="Skip to the pictures").wait_for(state="attached")
    opened.page.keyboard.press("Tab")
    assert focused(opened) == "Skip to the pictures"
    opened.page.keyboard.press("Enter")
    opened.page.keyboard.press("Tab")
    assert focused(opened) == "linear\nlog"


def test_pictures_tools_and_legends_go_by_keys(visit):
    opened = visit("?runs=4&draws=8")
    opened.wait_for_end(4)
    opened.wait("() => Bokeh.documents[0].is_idle")
    a_picture_is_moved_and_set_back(opened)
    its_tools_come_when_they_are_reached(opened)
    what_has_gone_and_come_back_has_its_roles(opened)
    a_picture_is_a_table_for_those_who_unfold_it(opened)
    the_first_stop_leads_past_the_controls(opened)
