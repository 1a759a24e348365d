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

QUERY = {"runs": "4", "draws": "16", "variant": "oracle", "theta": "3", "card": "reuse"}


def source(view, name):
    """The data of that name in a view's pictures, and whether any of it is drawn."""
    shown = [pane.object for pane in view.select(pn.pane.Bokeh) if pane.object is not None]
    figures = [each for layout in shown for each in layout.select({"type": figure})]
    found = [r for of in figures for r in of.renderers if r.data_source.name == name]
    return found[0].data_source.data, any(each.visible for each in found)


def percent(y):
    """The errors of one estimator at a case."""
    proposals = amci.load_proposals("tail-1d", variant="oracle")
    curves = amci.error_curves("tail-1d", proposals, y, 3.0, draws=sorted({*TOTALS, 32}), runs=4)
    return 100 * np.sqrt(curves["snis-qm-stratified"].remse)


def test_both_cases_are_shown_until_one_is_let_go_of(in_a_loop):
    def body(turned):
        turned.does = True
        explorer, state = turned.explorer, turned.explorer.state
        state.move(y=1.0)
        state.commit()
        state.compare()
        state.move(y=1.5)
        state.commit()
        kept, drawn = source(explorer.densities.panel, "densities-a")
        own, _ = source(explorer.densities.panel, "densities")
        assert drawn
        for found, y in ((kept, 1.0), (own, 1.5)):
            # The posterior of x ~ N(0, 1), y ~ N(x, 1).
            expected = norm(y / 2, np.sqrt(0.5)).pdf(found["x"])
            np.testing.assert_allclose(found["q2"], expected, rtol=1e-6)
        own, _ = source(explorer.errors.panel, "errors-snis-qm-stratified")
        kept, _ = source(explorer.errors.panel, "errors-a")
        of_a = kept["ys"][kept["colour"].index(ESTIMATORS["snis-qm-stratified"].light)]
        np.testing.assert_allclose(own["error"], percent(1.5), rtol=1e-12)
        np.testing.assert_allclose(of_a, percent(1.0), rtol=1e-12)

        first, second, *lines = explorer.errors.details.csv.callback().read().splitlines()
        assert first.startswith("# A: ")
        assert "y=1&" in first
        assert second.startswith("# B: ")
        assert "y=1.5&" in second
        assert {line["case"] for line in csv.DictReader(lines)} == {"A", "B"}

        # A card that cannot show two has the page's case.
        assert explorer.tabs.card.reference is None
        assert explorer.tabs.card.shown.value is not None

        text = explorer.summary._table
        assert text.object.count("One run of every estimator") == 2
        state.compare(here=False)
        state.commit()
        assert text.object.count("One run of every estimator") == 1
        assert not source(explorer.errors.panel, "errors-a")[0]["ys"]

    in_a_loop(body, QUERY)


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
