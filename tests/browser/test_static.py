"""The page without a server, opened from its file."""

import numpy as np
import pytest
import torch
from amci_explorer.static.folder import write
from axe import violations
from playwright.sync_api import expect
from static_steps import STEPS

import amci_core as amci

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser-static")]

Y, THETA, LEVEL = "Observation y", "Threshold θ", "Mismatch"
# Runs of the error curves take the longest, and less than this.
PATIENCE = 60_000
COLUMN = """([source, name]) => {
    const models = Bokeh.documents.map(each => each.get_model_by_name(source))
    const column = models.findLast(each => each != null)?.data[name]
    return column == null ? [] : Array.from(column)
}"""
SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"


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


def drawn(page, name):
    """A column of the densities that the page shows."""
    page.wait_for_function(f"given => ({COLUMN})(given).length > 0", arg=["densities", name])
    return page.evaluate(COLUMN, ["densities", name])


def wait_for_curves(page):
    expect(page.get_by_text("1000 of 1000 runs")).to_be_visible(timeout=PATIENCE)


def test_handles_move_curves_and_one_another(opened):
    page = opened(width=390, height=768, color_scheme="dark")
    problem, before = amci.problem("tail-1d"), drawn(page, "q1")
    page.get_by_label(THETA).fill("1.5")
    page.wait_for_function(
        f"before => String(({COLUMN})(['densities', 'q1'])) != before",
        arg=",".join(map(str, before)),
    )
    expect(page.get_by_text(f"{float(problem.mismatch(1.0, 1.5)):.2f} nats")).to_be_visible()
    # The numbers are the core's.
    x, q1 = (np.array(drawn(page, name)) for name in ("x", "q1"))
    proposal = amci.load_proposals(problem).q1_plus
    exact = proposal(torch.tensor([1.0]), torch.tensor([1.5])).log_prob(torch.tensor(x)[:, None])
    np.testing.assert_allclose(q1, exact.exp().clamp(min=1e-30).detach().numpy(), rtol=1e-6)
    page.get_by_label(LEVEL).fill("5")
    theta = float(problem.at_mismatch(5.0, 1.0, 1.5)[1][0])
    page.wait_for_function(
        "theta => Math.abs(new URLSearchParams(location.hash).get('theta') - theta) < 0.01",
        arg=theta,
    )
    assert page.evaluate(SIDEWAYS) <= 0
    wait_for_curves(page)
    for index, draws in (("2", 100), ("4", 1000)):
        page.get_by_role("slider", name="Draws").fill(index)
        said = f"Relative error with {draws} draws: AMCI"
        expect(page.get_by_role("img", name=said)).to_be_visible()
    # The bound is 2 (1 − μ) / √T.
    bound = 200 * (1 - float(problem.truth(1.0, theta))) / 1000**0.5
    labels = page.evaluate(COLUMN, ["errors-labels", "text"])
    assert f"{bound:.2g} %" in labels
    expect(page.get_by_label(THETA)).to_be_in_viewport(ratio=1)
    assert violations(page) == []


@pytest.mark.slow
def test_an_address_and_a_step_of_the_tour_lead_to_their_case(opened):
    page = opened("#problem=gain-loss&y=-2&theta=9")
    # As near as its handle goes.
    expect(page.get_by_label("Price θ")).to_have_value("3")
    expect(page.get_by_label(Y)).to_have_value("-2")
    page.get_by_text("A rare event").click()
    page.get_by_role("link", name="Show it").click()
    expect(page.get_by_label(THETA)).to_have_value("3")
    page.get_by_label("Problem").select_option("Gain and loss")
    expect(page.get_by_label("Price θ")).to_be_visible()
    assert violations(page) == []
