"""Names, values and errors are shown as text, whatever they hold."""

from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from serving import served_dashboard
from visit import Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]

ATTACK = "<img src=nowhere onerror=window.attacked=true>"
# Our page, of a problem whose every word is an attack; an exception with one is told of as well.
APP = f"""
import runpy
from dataclasses import replace

import panel as pn

import amci_core as amci

ATTACK = {ATTACK!r}
problem = amci.problem("tail-1d")
problem.title, problem.description = ATTACK, "described: " + ATTACK
for name in ("x", "y", "theta"):
    words = {{"meaning": "meant: " + ATTACK, "unit": ATTACK}}
    setattr(problem, name, replace(getattr(problem, name), **words))
runpy.run_path("app/dashboard.py")
report = pn.config.exception_handler
pn.state.onload(lambda: report(ValueError("failed: " + ATTACK)))
"""
# What an address can hold, each said to be wrong beside its control.
NAMES = ("problem", "variant", "y", "draws", "card")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    script = folder / "dashboard.py"
    script.write_text(APP)
    with served_dashboard(folder / "log.txt", app=str(script)) as address:
        yield address


def test_an_image_with_a_script_is_text_everywhere(browser, attacked):
    query = "&".join(f"{name}={quote(ATTACK)}" for name in NAMES)
    visited = Visit(browser.new_context(), f"{attacked}?{query}")
    visited.wait_for_text("failed: <img")
    visited.unfold("The problem")
    visited.wait_for_text("described: <img")
    expect(visited.page.get_by_text("got '<img")).to_have_count(len(NAMES))
    assert not visited.page.evaluate("() => window.attacked")
    visited.close()
