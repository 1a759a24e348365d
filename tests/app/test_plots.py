"""Pictures as HoloViews objects: their numbers are those of the results."""

import holoviews as hv
import numpy as np
import pytest
from amci_explorer.plots import error_curves
from amci_explorer.plots.labels import LABEL_HEIGHT, apart, width_of
from bokeh.models import GlyphRenderer, Text

import amci_core as amci


@pytest.fixture(scope="module")
def curves():
    return amci.error_curves("tail-1d", None, 1.0, 3.0, budgets=[2, 10, 100], runs=200)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
def test_labels_are_apart_within_the_axis_and_in_order_wherever_curves_end(n, log):
    rng = np.random.default_rng(n)
    low, high, height = 1e-4, 1e2, 300.0
    for _ in range(100):
        places = np.exp(rng.uniform(np.log(low) - 1, np.log(high) + 1, n))
        placed = apart(places, low, high, height=height, log=log)
        ends, at = (np.log(v) if log else np.asarray(v) for v in ((low, high), placed))
        pixels = np.sort(height * (at - ends[0]) / (ends[1] - ends[0]))
        least = min(LABEL_HEIGHT, (height - LABEL_HEIGHT) / max(n - 1, 1))
        assert (np.diff(pixels) >= least - 1e-6).all()
        assert pixels[0] >= -1e-9
        assert pixels[-1] <= height + 1e-9
        assert (np.diff(placed[np.argsort(places)]) >= 0).all()


def test_a_label_with_room_stays_where_its_curve_ends():
    placed = apart([1e-3, 1e-1, 10.0], 1e-4, 1e2, height=300)
    np.testing.assert_allclose(placed, [1e-3, 1e-1, 10.0])


@pytest.mark.parametrize("measure", ["percent", "ReMSE", "MSE"])
def test_error_curves_show_the_errors_of_the_result(curves, measure):
    picture = error_curves(curves, measure=measure)
    for name, label in (("amci", "AMCI"), ("bound", "one-proposal bound")):
        curve = curves[name]
        expected = {
            "percent": 100 * np.sqrt(curve.remse),
            "ReMSE": curve.remse,
            "MSE": curve.mse,
        }[measure]
        (line,) = (e for e in picture if isinstance(e, hv.Curve) and e.label == label)
        np.testing.assert_allclose(line.dimension_values("error"), expected)
        assert line.dimension_values("draws").tolist() == [2, 10, 100]


def test_error_curves_are_firm_where_the_runs_determine_them(curves):
    firm = error_curves(curves).Determined.I
    known = {
        name: curve.determined[1:] & curve.determined[:-1]
        for name, curve in curves.by_name.items()
        if name != "bound"
    }
    assert len(firm) == sum(each.sum() for each in known.values())


def test_the_spread_of_the_runs_is_shown_on_request(curves):
    assert not [e for e in error_curves(curves) if isinstance(e, hv.Area)]
    picture = error_curves(curves, spread=True, measure="ReMSE")
    band = next(e for e in picture if isinstance(e, hv.Area) and e.label == "AMCI")
    low, _, high = curves["amci"].remse_quartiles
    np.testing.assert_allclose(band.dimension_values("low"), low)
    np.testing.assert_allclose(band.dimension_values("high"), high)


@pytest.mark.parametrize("dark", [True, False])
def test_names_stand_beside_the_frame_with_room_for_the_longest(curves, dark):
    drawn = hv.render(error_curves(curves, dark=dark))
    names = next(
        r for r in drawn.renderers if isinstance(r, GlyphRenderer) and isinstance(r.glyph, Text)
    )
    texts = list(names.data_source.data["text"])
    assert "AMCI" in texts
    assert drawn.min_border_right >= width_of(texts) > 7 * max(map(len, texts))
    assert names.level == "overlay"


def test_pictures_compose(curves):
    both = error_curves(curves) + error_curves(curves, measure="MSE")
    assert len(both) == 2
    assert isinstance(error_curves(curves) * hv.HLine(1.0), hv.Overlay)


def test_curves_of_many_cases_are_refused():
    curves = amci.error_curves(
        "tail-1d", None, [[1.0], [2.0]], [[3.0], [3.0]], budgets=[2], runs=2
    )
    with pytest.raises(ValueError, match="single case"):
        error_curves(curves)
