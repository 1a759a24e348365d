"""A case that is kept is drawn faint below another one, and its figures stand beside."""

import csv
import re

import numpy as np
from amci_explorer.compute.computations import BUDGETS
from amci_explorer.shell import page
from amci_explorer.views.layout import HTML
from scipy.stats import norm

import amci_core as amci

QUERY = {"runs": "4", "draws": "16", "variant": "oracle"}


def renderers(view):
    """What a view's pictures draw."""
    shown = view.select(lambda p: hasattr(p, "object") and hasattr(p.object, "renderers"))
    return [each for part in shown for each in part.object.renderers]


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
        problem, proposals, y, 3.0, budgets=sorted({*BUDGETS, 2 * int(QUERY["draws"])}), runs=4
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
        for name, y in (("errors-snis-qm-a", 1.0), ("errors-snis-qm", 1.5)):
            found, drawn = source(explorer.errors.panel, name)
            expected = 100 * np.sqrt(curves(y)["snis-qm"].remse)
            np.testing.assert_allclose(found["error"], expected, rtol=1e-12)
            assert drawn

    in_a_loop(body, QUERY | {"theta": "3"})


def test_figures_of_a_stand_on_a_line_of_their_own(in_a_loop):
    def body(turned):
        tiles = [p.object for p in compared(turned).summary.panel.select(HTML)]
        assert any('words">A: ' in tile and "B / A: " in tile for tile in tiles)
        for tile in tiles:
            for after in tile.split('words">A: ')[1:]:
                # Nothing but A's figure and the ratio comes before the words.
                assert re.match(r"[^<]+?(, B / A: [^<]+)?<br>", after), after

    in_a_loop(body, QUERY | {"theta": "3"})


def test_errors_of_values_far_apart_are_compared_relative_to_these(in_a_loop):
    problem, proposals = amci.problem("tail-1d"), amci.load_proposals("tail-1d")
    of_a, of_b = (
        amci.estimate(problem, proposals, y, 3.0, draws=37, estimator="amci") for y in (1.0, 5.0)
    )
    assert of_b.value > 1000 * of_a.value
    expected = (of_b.standard_error / of_b.value) / (of_a.standard_error / of_a.value)

    def body(turned):
        shown = "".join(p.object for p in compared(turned, y=5.0).summary.panel.select(HTML))
        assert "relative standard error, B / A</th>" in shown
        row = next(each for each in shown.split("<tr>") if "</svg>AMCI<" in each)
        assert f"<td>{float(expected):.2g}</td>" in row

    in_a_loop(body, QUERY | {"theta": "3", "variant": "spline"})


def test_a_table_holds_both_cases(in_a_loop):
    def body(turned):
        explorer = compared(turned)
        (button,) = explorer.errors.panel.select(lambda p: getattr(p, "label", "") == "CSV")
        first, second, *lines = button.callback().read().splitlines()
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
        assert explorer.tabs.card.kept is None
        assert explorer.tabs.card.shown.value is not None

    in_a_loop(body, QUERY | {"card": "reuse"})


def test_another_a_that_cannot_be_computed_leaves_none_and_says_so(in_a_loop):
    def body(turned):
        explorer = compared(turned)
        turned.does = False
        state, card = explorer.state, explorer.errors
        state.set(compared="problem=tail-1d&y=2")
        state.commit()
        assert card.kept is None
        card.end_kept("it takes <b>long</b>")
        (status,) = card.panel.select(lambda p: "data-card" in str(getattr(p, "object", "")))
        assert "A could not be computed: it takes &lt;b&gt;long" in status.object
        (button,) = card.panel.select(lambda p: getattr(p, "label", "") == "Try again")
        assert not button.disabled

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
        assert "y=2&" in explorer.address.object.tags[0]

    in_a_loop(body, {"ui": "min", "draws": "junk", "theta": "1"})
