"""The dashboard's pictures in a notebook follow their sliders, and the proposals given to them."""

import numpy as np
import panel as pn
import pytest
from amci_explorer.notebook import DensityPicture, diagnosis_picture, error_picture
from amci_explorer.views.slider import Slider
from bokeh.models import ColumnDataSource

import amci_core as amci


def column(shown, source, name):
    """A column of a data source of what is shown."""
    for pane in pn.panel(shown).select(pn.pane.Bokeh):
        found = pane.object.select_one({"type": ColumnDataSource, "name": source})
        if found is not None:
            return np.asarray(found.data[name])
    raise LookupError(source)


def sliders(picture):
    found = pn.panel(picture).select(Slider)
    return {each.label: each for each in found if not each.disabled}


def test_a_slider_moves_the_picture():
    picture = DensityPicture("tail-1d", y=1.0, theta=3.0)
    x, before = (column(picture, "shown-densities", name) for name in ("x", "target"))
    assert (x[before > 1e-6] >= 3.0).all()
    sliders(picture)["Threshold θ"].value = 2.0
    x, after = (column(picture, "shown-densities", name) for name in ("x", "target"))
    assert x[after > 1e-6].min() == pytest.approx(2.0, abs=1e-3)


def test_every_coordinate_has_a_slider():
    assert list(sliders(DensityPicture("cancer"))) == [
        "Size c₀′ at admission",
        "Size c₅′ after 5 days",
    ]
    assert len(sliders(DensityPicture("tail-5d"))) == 10
    assert sliders(DensityPicture("gain-loss", sliders=False)) == {}


def test_it_shows_the_proposals_it_is_given():
    exact = amci.load_proposals("tail-1d", variant="oracle")
    picture = DensityPicture("tail-1d", y=1.0, theta=3.0)
    learnt = column(picture, "shown-densities", "q1")
    picture.look_at(exact)
    shown = column(picture, "shown-densities", "q1")
    assert shown == pytest.approx(column(picture, "shown-densities", "target"))
    assert not np.array_equal(shown, learnt)
    picture.look_at(None)
    assert np.array_equal(column(picture, "shown-densities", "q1"), learnt)


def test_what_is_out_of_range_is_refused():
    with pytest.raises(ValueError, match="theta"):
        DensityPicture("tail-1d", theta=99.0)


def test_curves_are_drawn_as_in_the_dashboard():
    problem, oracle = amci.problem("tail-1d"), amci.load_proposals("tail-1d", variant="oracle")
    curves = amci.error_curves(problem, oracle, 1.0, 3.0, budgets=(2, 8, 32), runs=10)
    picture, note = error_picture(curves)
    (line,) = (each for each in picture.object if each.label == "one-proposal bound")
    expected = 100 * np.sqrt(curves["bound"].remse)
    np.testing.assert_allclose(line.dimension_values("error"), expected)
    assert "SNIS q₁ is off the scale" in note.object


def test_a_diagnosis_has_its_verdict_and_every_terms_weights():
    verdict, picture = diagnosis_picture("tail-1d", y=1.0, theta=3.0)
    assert "Reliable" in verdict.object
    assert len(picture.object) == 5
