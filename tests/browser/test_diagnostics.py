"""The Diagnostics tab: weights and verdict of the point shown, for every problem."""

import numpy as np
import pytest
from playwright.sync_api import expect

import amci_core as amci
from amci_core.proposals import available_variants
from app.diagnosis import diagnosis
from app.presets import presets

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PROBLEMS = [name for name in amci.problems() if available_variants(name)]


def open_tab(opened):
    opened.page.get_by_role("tab", name="Diagnostics").click()
    opened.wait_for_data("diagnostics-points-E1_plus", "x")


def computed(name, y, theta, **options):
    problem = amci.problem(name)
    y, theta = problem.check(y, theta)
    given = {"draws": 64, "seed": 0} | options
    *_, last = diagnosis(problem, amci.load_proposals(name), y=y, theta=theta, **given)
    return last


def wait_for_way(opened, found):
    """Waits until the estimate has been followed along all draws."""
    opened.wait(
        """wanted => {
            const source = Bokeh.documents[0].get_model_by_name("diagnostics-way")
            return source != null && Array.from(source.data.draws).at(-1) == wanted
        }""",
        found.draws,
    )


def test_what_is_shown_is_what_the_draws_say(visit):
    opened = visit("?runs=4&y=2&theta=2&seed=5")
    opened.wait_for_end(4)
    open_tab(opened)
    found = computed("tail-1d", 2.0, 2.0, seed=5)
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


def test_the_tab_follows_the_case_when_a_slider_is_let_go(visit):
    opened = visit("?runs=4&y=1&theta=3")
    opened.wait_for_end(4)
    open_tab(opened)
    before = opened.data("diagnostics-points-E1_plus", "x")
    opened.move("Threshold θ", 1.0)
    after = opened.wait_for_other("diagnostics-points-E1_plus", "x", before)
    found = computed("tail-1d", 1.0, 1.0)
    np.testing.assert_allclose(after, found.terms[0].x[:, 0], rtol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_the_terms_that_it_draws_for(visit, name):
    opened = visit(f"?problem={name}&runs=4&draws=8", width=390, height=844)
    opened.wait_for_end(4)
    open_tab(opened)
    problem, preset = amci.problem(name), presets(amci.problem(name))[0]
    found = computed(name, preset.y or None, preset.theta, draws=8)
    wait_for_way(opened, found)
    gauges = opened.page.get_by_text("Pareto k-hat", exact=True)
    expect(gauges).to_have_count(len(found.terms))
    # A picture without a width would keep the page waiting.
    opened.wait("() => Bokeh.documents[0].is_idle")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    if problem.x.dim > 1:
        first = opened.data("diagnostics-points-E1_plus", "x")
        opened.page.get_by_role("combobox", name="Coordinate of x").click()
        opened.page.get_by_role("menuitem").nth(1).click()
        second = opened.wait_for_other("diagnostics-points-E1_plus", "x", first)
        np.testing.assert_allclose(second, found.terms[0].x[:, 1], rtol=1e-12)
