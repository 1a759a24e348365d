"""A case that is kept is drawn faint below another one, and its figures stand beside."""

import csv

import numpy as np
import panel as pn
from amci_explorer.colours import ESTIMATORS
from amci_explorer.compute.computations import TOTALS
from amci_explorer.shell import page
from bokeh.plotting import figure
from scipy.stats import norm

import amci_core as amci

QUERY = {"runs": "4", "draws": "16", "variant": "oracle"}


def renderers(view):
    """What a view's pictures draw."""
    shown = [pane.object for pane in view.select(pn.pane.Bokeh) if pane.object is not None]
    figures = [each for layout in shown for each in layout.select({"type": figure})]
    return [each for of in figures for each in of.renderers]


def source(view, name):
    """The data of that name in a view's pictures, and whether any of it is drawn."""
    found = [each for each in renderers(view) if each.data_source.name == name]
    return found[0].data_source.data, any(each.visible for each in found)


def compared(turned, *, y=1.5):
    """Keeps the case at y = 1 as A, and goes on to another."""
    turned.does = True
    state = turned.explorer.state
    state.move(y=1.0)
    state.commit()
    state.compare()
    state.move(y=y)
    state.commit()
    return turned.explorer


def curves(y):
    problem = amci.problem("tail-1d")
    proposals = amci.load_proposals("tail-1d", variant="oracle")
    return amci.error_curves(
        problem, proposals, y, 3.0, draws=sorted({*TOTALS, 2 * int(QUERY["draws"])}), runs=4
    )


def test_densities_and_errors_of_both_are_drawn(in_a_loop):
    def body(turned):
        explorer = compared(turned)
        kept, drawn = source(explorer.densities.panel, "densities-a")
        own, _ = source(explorer.densities.panel, "densities")
        for found, y in ((kept, 1.0), (own, 1.5)):
            # The posterior of x ~ N(0, 1), y ~ N(x, 1).
            expected = norm(y / 2, np.sqrt(0.5)).pdf(found["x"])
            np.testing.assert_allclose(found["q2"], expected, rtol=1e-6)
        assert drawn
        own, _ = source(explorer.errors.panel, "errors-snis-qm-stratified")
        kept, _ = source(explorer.errors.panel, "errors-a")
        of_a = kept["ys"][kept["colour"].index(ESTIMATORS["snis-qm-stratified"].light)]
        for found, y in ((own["error"], 1.5), (of_a, 1.0)):
            expected = 100 * np.sqrt(curves(y)["snis-qm-stratified"].remse)
            np.testing.assert_allclose(found, expected, rtol=1e-12)

    in_a_loop(body, QUERY | {"theta": "3"})


def test_figures_of_both_are_shown_until_the_case_is_let_go_of(in_a_loop):
    def body(turned):
        explorer = compared(turned)
        text = explorer.summary._table
        assert text.object.count("One run of every estimator") == 2
        explorer.state.compare(here=False)
        explorer.state.commit()
        assert text.object.count("One run of every estimator") == 1
        assert not source(explorer.errors.panel, "errors-a")[0]["ys"]

    in_a_loop(body, QUERY | {"theta": "3"})


def test_a_table_holds_both_cases(in_a_loop):
    def body(turned):
        explorer = compared(turned)
        first, second, *lines = explorer.errors.csv.callback().read().splitlines()
        assert first.startswith("# A: ")
        assert "y=1&" in first
        assert second.startswith("# B: ")
        assert "y=1.5&" in second
        assert {line["case"] for line in csv.DictReader(lines)} == {"A", "B"}

    in_a_loop(body, QUERY | {"theta": "3"})


def test_other_cards_show_the_pages_case_alone(in_a_loop):
    def body(turned):
        turned.does = True
        explorer, state = turned.explorer, turned.explorer.state
        state.commit()
        state.compare()
        state.move(y=1.25)
        state.commit()
        assert explorer.tabs.card.reference is None
        assert explorer.tabs.card.shown.value is not None

    in_a_loop(body, QUERY | {"card": "reuse"})


def test_one_picture_alone_says_what_is_wrong_and_keeps_its_address(in_a_loop):
    def body(turned):
        explorer = turned.explorer
        shown = page(explorer, turned.document)
        assert "draws: expected" in explorer.alerts[0].object
        for part in (explorer.alerts, explorer.address):
            assert shown.main[0].select(lambda each, part=part: each is part)
        explorer.state.move(y=2.0)
        explorer.state.commit()
        assert "y=2&" in explorer.address.query

    in_a_loop(body, {"ui": "min", "draws": "junk", "theta": "1"})
