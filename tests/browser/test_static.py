"""The page without a server, opened from its file."""

import re

import numpy as np
import pytest
import torch
from amci_explorer.static.folder import write
from amci_explorer.text import number
from axe import violations
from playwright.sync_api import expect
from static_steps import STEPS

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-static")]

Y, THETA, LEVEL = "Observation y", "Threshold θ", "Mismatch"
# Runs of the error curves take the longest, and less than this.
PATIENCE = 60_000
COLUMN = """([source, name]) => {
    const models = Bokeh.documents.map(each => each.get_model_by_name(source))
    const column = models.findLast(each => each != null)?.data[name]
    return column == null ? [] : Array.from(column)
}"""
END = "() => Bokeh.documents[0].get_model_by_name('densities-q1').y_range.end"
SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"
DURATIONS = """() => [...document.querySelectorAll("*")]
    .map(each => getComputedStyle(each)).filter(style => parseFloat(style.transitionDuration) > 0
        || style.animationName != "none" || style.scrollBehavior == "smooth").length"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return (write(tmp_path_factory.mktemp("page") / "made", STEPS) / "index.html").as_uri()


@pytest.fixture
def opened(browser, address):
    """Opens the page; at the end no console may hold an error, and only its files were read."""
    contexts, complaints, requests = [], [], []

    def listen(message):
        if message.type != "info":
            complaints.append(f"{message.type}: {message.text}")

    def open_page(hash_="", *, width=1440, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", listen)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address + hash_)
        return page

    yield open_page
    for context in contexts:
        context.close()
    folder = address.rsplit("/", 1)[0]
    assert complaints == []
    assert [url for url in requests if not url.startswith((folder, "data:", "blob:"))] == []


def wait_for_curves(page):
    expect(page.locator("#errors-status")).to_contain_text("1000 runs, in", timeout=PATIENCE)


def wait_for_value(page, label, value):
    """Waits until a handle stands there, to its step."""
    page.wait_for_function(
        "([input, value]) => Math.abs(input.value - value) < 0.006",
        arg=[page.get_by_label(label).element_handle(), value],
    )


def drawn(page, name="q1", source="densities"):
    """A column of the data that a picture shows."""
    page.wait_for_function(f"given => ({COLUMN})(given).length > 0", arg=[source, name])
    return page.evaluate(COLUMN, [source, name])


def wait_for_change(page, before, name="q1", source="densities"):
    page.wait_for_function(
        f"([source, name, before]) => String(({COLUMN})([source, name])) != String(before)",
        arg=[source, name, before],
    )


@pytest.mark.parametrize(("width", "scheme"), [(1366, "light"), (390, "dark")])
def test_handles_move_curves_and_one_another(opened, width, scheme):
    page = opened(width=width, height=768, color_scheme=scheme)
    problem, before = amci.problem("tail-1d"), drawn(page)
    before_end = page.evaluate(END)
    assert len(before) > 200
    page.get_by_label(THETA).fill("1.5")
    wait_for_change(page, before)
    level = float(problem.mismatch(1.0, 1.5))
    wait_for_value(page, LEVEL, level)
    expect(page.get_by_text(f"{number(level)} nats").last).to_be_visible()
    # The numbers are the core's.
    x, q1 = (np.array(drawn(page, name)) for name in ("x", "q1"))
    proposal = amci.load_proposals(problem).q1_plus
    exact = proposal(torch.tensor([1.0]), torch.tensor([1.5])).log_prob(torch.tensor(x)[:, None])
    np.testing.assert_allclose(q1, exact.exp().clamp(min=1e-30).detach().numpy(), rtol=1e-6)
    assert page.evaluate(END) < before_end
    page.get_by_label(LEVEL).fill("5")
    theta = float(problem.at_mismatch(5.0, 1.0, 1.5)[1][0])
    wait_for_value(page, THETA, theta)
    # What needs no draws is there at once; the run and the address follow.
    expect(page.locator("#tiles")).to_contain_text(number(float(problem.truth(1.0, theta)), 4))
    expect(page.locator("[data-estimator=amci]")).to_be_visible()
    page.wait_for_function(
        "theta => Math.abs(new URLSearchParams(location.hash).get('theta') - theta) < 1e-4",
        arg=theta,
    )
    assert page.evaluate(SIDEWAYS) <= 0
    wait_for_curves(page)
    picture = page.get_by_role("img", name="Error at 1000 total draws, relative to μ: AMCI")
    expect(picture).to_be_visible()


def test_the_keyboard_moves_a_handle_and_a_phone_keeps_it_in_sight(opened):
    page = opened(width=390, height=844)
    page.get_by_label(THETA).focus()
    before = drawn(page)
    page.keyboard.press("ArrowRight")
    wait_for_change(page, before)
    wait_for_value(page, THETA, 3.01)
    expect(page.locator("[data-estimator=amci]")).to_be_visible()
    for top in (0, 10_000):
        page.evaluate("top => scrollTo(0, top)", top)
        expect(page.get_by_label(THETA)).to_be_in_viewport(ratio=1)
    # The end of the page is not under the handles.
    covered = page.locator("#handles").bounding_box()
    last = page.locator("table").bounding_box()
    assert last["y"] + last["height"] <= covered["y"]


def test_every_problem_is_drawn_with_its_own_handles(opened):
    page = opened()
    page.get_by_label("Gain and loss").check()
    expect(page.get_by_label("Price θ")).to_be_visible()
    page.wait_for_function(f"() => ({COLUMN})(['densities', 'q1_minus']).some(v => v > 0.1)")
    expect(page.get_by_role("img", name="θ = 0.4")).to_have_count(2)


def test_the_tour_sets_handles_lights_up_parts_and_shows_stored_pictures(opened):
    page = opened()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="A rare event")).to_be_visible()
    expect(page.locator("#densities")).to_have_class(re.compile(r"\blit\b"))
    expect(page.get_by_text("One in 4,900.")).to_be_hidden()
    page.get_by_text("Answer").click()
    expect(page.get_by_text("One in 4,900.")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#stored").get_by_role("img").first).to_be_visible()
    page.get_by_role("button", name="Next").click()
    picture = page.get_by_role("img", name="Relative error over alpha and beta")
    expect(picture).to_be_visible()
    expect(page.get_by_label(THETA)).to_have_value("3")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_label(THETA)).to_be_hidden()
    expect(page.get_by_role("img", name=re.compile("do not trust", re.I)).first).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.emulate_media(color_scheme="dark")
    expect(page.get_by_role("img", name=re.compile("do not trust", re.I)).first).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_label(THETA)).to_be_visible()
    page.get_by_label("Gain and loss").check()
    expect(page.locator("#stored")).to_be_hidden()


def test_an_address_leads_to_its_case_or_to_its_step(opened):
    page = opened("#problem=gain-loss&y=-2&theta=9&step=rare")
    # As near as its handle goes.
    expect(page.get_by_label("Price θ")).to_have_value("3")
    expect(page.get_by_label(Y)).to_have_value("-2")
    expect(page.get_by_role("heading", name="A rare event")).to_be_visible()
    page.evaluate("() => { location.hash = '#step=needle' }")
    expect(page.get_by_role("heading", name="A needle")).to_be_visible()
    page.evaluate("() => { location.hash = '#problem=tail-5d&y=x&theta=&step=no' }")
    expect(page.get_by_role("heading", name="A tour in 4 steps")).to_be_visible()


def test_nothing_moves_by_itself_where_that_is_not_wanted(opened):
    assert opened().evaluate(DURATIONS) > 0
    assert opened(reduced_motion="reduce").evaluate(DURATIONS) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(opened, scheme):
    for width, step in [(1440, "rare"), (390, "needle"), (1440, "paper")]:
        page = opened(f"#step={step}", width=width, color_scheme=scheme, reduced_motion="reduce")
        assert violations(page) == []
