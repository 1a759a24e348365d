"""The page without a server, opened from its file."""

import re

import pytest
from amci_explorer.static.folder import write
from amci_explorer.text import number
from axe import violations
from playwright.sync_api import expect
from static_steps import STEPS

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-static")]

Y, THETA, LEVEL = "Observation y", "Threshold θ", "Mismatch"
Q1 = "#line-densities [data-line=q1]"
# Runs of the error curves take the longest, and less than this.
PATIENCE = 30_000
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

    def open_page(hash_="", *, width=1440, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
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
    status = page.locator("#errors-status")
    expect(status).to_contain_text("Medians and quartiles of 200 runs", timeout=PATIENCE)


def wait_for_value(page, label, value):
    """Waits until a handle stands there, to its step."""
    page.wait_for_function(
        "([input, value]) => Math.abs(input.value - value) < 0.006",
        arg=[page.get_by_label(label).element_handle(), value],
    )


def drawn(page, line=Q1):
    return page.locator(line).first.get_attribute("d")


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_handles_move_curves_and_one_another(opened, width, scheme):
    page = opened(width=width, height=844, color_scheme=scheme)
    problem, before = amci.problem("tail-1d"), drawn(page)
    assert before.count("L") > 200
    page.get_by_label(THETA).fill("1.5")
    expect(page.locator(Q1)).not_to_have_attribute("d", before)
    level = float(problem.mismatch(1.0, 1.5))
    wait_for_value(page, LEVEL, level)
    expect(page.get_by_text(f"{number(level)} nats").last).to_be_visible()
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
    assert page.evaluate("() => document.documentElement.dataset.theme") == scheme
    wait_for_curves(page)
    assert drawn(page, "#errors-picture [data-line=amci]").count("L") == 4


def test_the_keyboard_moves_a_handle_and_a_phone_keeps_it_in_sight(opened):
    page = opened(width=390, height=844)
    page.get_by_label(THETA).focus()
    before = drawn(page)
    page.keyboard.press("ArrowRight")
    expect(page.locator(Q1)).not_to_have_attribute("d", before)
    wait_for_value(page, THETA, 3.01)
    for top in (0, 10_000):
        page.evaluate("top => scrollTo(0, top)", top)
        expect(page.get_by_label(THETA)).to_be_in_viewport(ratio=1)
    # The end of the page is not under the handles.
    covered = page.locator("#handles").bounding_box()
    last = page.locator("#estimates").bounding_box()
    assert last["y"] + last["height"] <= covered["y"]


def test_every_problem_is_drawn_with_its_own_handles(opened):
    page = opened()
    page.get_by_label("Gain and loss").check()
    expect(page.locator("#legend")).to_contain_text("q₁⁻ learnt")
    expect(page.locator("[data-line=q1_minus]").first).to_have_attribute("d", re.compile("L"))
    expect(page.locator("#line-densities svg")).to_have_attribute(
        "aria-label", re.compile("The threshold is at 0.4")
    )
    page.get_by_label("Product peak").check()
    lines = "#plane-closer [data-line=q1]"
    expect(page.locator(lines)).to_have_attribute("d", re.compile("L"))
    expect(page.locator(lines)).to_be_visible()
    before = drawn(page, lines)
    page.get_by_label("Sharpness s").fill("0.8")
    expect(page.locator(lines)).not_to_have_attribute("d", before)
    assert page.evaluate("""() => {
        const canvas = document.querySelector("#plane-whole canvas")
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
        return data.some(v => v > 0)
    }""")
    assert page.get_by_label(Y).count() == 0


def test_the_tour_sets_handles_lights_up_parts_and_shows_stored_pictures(opened):
    page = opened()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="A rare event")).to_be_visible()
    expect(page.locator("#densities")).to_have_class(re.compile(r"\blit\b"))
    expect(page.get_by_text("One in 4,900.")).to_be_hidden()
    page.get_by_text("Answer").click()
    expect(page.get_by_text("One in 4,900.")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_label("Sharpness s")).to_have_value("1")
    page.get_by_role("button", name="Next").click()
    picture = page.get_by_role("img", name="Relative error over alpha and beta")
    expect(picture).to_be_visible()
    assert page.evaluate("() => document.getElementById('stored-image').decode()") is None
    expect(page.get_by_label(THETA)).to_have_value("3")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_label(THETA)).to_be_hidden()
    expect(page.get_by_role("img", name="q1 misses")).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("#stored-image")).to_have_attribute("src", "pictures/paper-dark.svg")
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_label(THETA)).to_be_visible()
    page.get_by_label("Product peak").check()
    expect(page.locator("#stored")).to_be_hidden()


def test_an_address_leads_to_its_case_or_to_its_step(opened):
    page = opened("#problem=gain-loss&y=-2&theta=9&step=rare")
    # As near as its handle goes.
    expect(page.get_by_label("Price θ")).to_have_value("3")
    expect(page.get_by_label(Y)).to_have_value("-2")
    expect(page.get_by_role("heading", name="A rare event")).to_be_visible()
    page.evaluate("() => { location.hash = '#step=needle' }")
    expect(page.get_by_label("Centre u₂")).to_have_value("0.7")
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
