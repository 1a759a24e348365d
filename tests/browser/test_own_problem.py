"""A problem from a file, as `amci new` writes it, served by `panel serve --args`."""

import numpy as np
import pytest
from cards import MAP_IMAGE
from playwright.sync_api import expect
from serving import served_dashboard
from typer.testing import CliRunner
from visit import Visit

from amci_core.cli import app as cli

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser-two")]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of the page with a problem of one's own, and what the server said."""
    folder = tmp_path_factory.mktemp("own")
    mine, broken = folder / "my_problem.py", folder / "broken.py"
    assert CliRunner().invoke(cli, ["new", str(mine)]).exit_code == 0
    broken.write_text("import math\n\nclass Broken(:\n")
    log = folder / "log.txt"
    with served_dashboard(log, plain=True, files=[mine, broken]) as address:
        yield address, log


@pytest.fixture
def visit(browser, served):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    visited = Visit(context, served[0] + "?runs=20&draws=64")
    yield visited
    visited.close()
    assert visited.complaints == []


def test_every_card_is_at_work(visit):
    # It opens with the problem that was served, which is listed beside the others.
    chosen = visit.page.get_by_label("Problem", exact=True).locator("option:checked")
    assert chosen.inner_text() == "my-problem"
    assert np.isfinite(visit.wait_for_data("densities", "target")).any()
    visit.wait_for_end(20)
    visit.wait_for_text("No proposals have been trained for this problem")
    assert np.isfinite(visit.data("errors-amci", "median")).any()
    for tab in ("Sample reuse", "Diagnostics", "Amortization map"):
        visit.page.get_by_role("tab", name=tab).click()
        expect(visit.page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        visit.look_at(tab)
        visit.page.get_by_text("could not be computed").wait_for(state="hidden")
    visit.wait(MAP_IMAGE)


def test_a_file_that_cannot_be_read_is_told_and_the_page_is_alive(visit, served):
    visit.wait_for_text("broken.py cannot be read: line 3")
    said = served[1].read_text()
    assert "AMCI Explorer: broken.py cannot be read: line 3" in said
    assert "Traceback" not in said
    before = visit.wait_for_data("densities", "target")
    visit.move("y", 2.0)
    visit.wait_for_other("densities", "target", before)
