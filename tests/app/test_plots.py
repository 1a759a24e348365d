"""Pictures: their numbers are those of the results."""

import holoviews as hv
import numpy as np
import pandas as pd
import pytest
import torch
from amci_explorer import plots
from amci_explorer.colours import ESTIMATORS
from amci_explorer.numbers import evaluated
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.diagnosis import diagnosis
from amci_explorer.numbers.marks import marks
from amci_explorer.plots.amortization import layer_of
from amci_explorer.plots.errors import ErrorPicture, apart
from amci_explorer.state.case import Case
from amci_explorer.words.curves import value
from bokeh.models import ColorBar, Line, VArea

import amci_core as amci
from amci_core.evaluation.sweep import read_sweep
from amci_core.io import pretrained_root

LINE = ESTIMATORS["amci-cv"].label


@pytest.fixture(scope="module")
def curves():
    return amci.error_curves("tail-1d", None, 1.0, 3.0, draws=[2, 10, 100], runs=200)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_labels_are_apart_within_the_axis_and_in_order_and_one_with_room_at_its_curve(n):
    placed = apart([1e-3, 1e-1, 10.0], 1e-4, 1e2, height=300, heights=[15, 15, 15])
    np.testing.assert_allclose(placed, [1e-3, 1e-1, 10.0])
    rng = np.random.default_rng(n)
    low, high, height = 1e-4, 1e2, 300.0
    for _ in range(100):
        places = np.exp(rng.uniform(np.log(low) - 1, np.log(high) + 1, n))
        heights = rng.uniform(15, 50, n)
        placed = apart(places, low, high, height=height, heights=heights.tolist())
        pixels = height * np.log(placed / low) / np.log(high / low)
        half = heights * min(1, height / heights.sum()) / 2
        order = np.argsort(pixels)
        assert (np.diff(pixels[order]) >= (half[order][1:] + half[order][:-1]) - 1e-6).all()
        assert (pixels - half)[order[0]] >= -1e-6
        assert (pixels + half)[order[-1]] <= height + 1e-6
        assert (np.diff(placed[np.argsort(places)]) >= 0).all()


def data(picture, of):
    return picture.select_one({"name": f"errors-{of}"}).data


@pytest.mark.parametrize(
    ("measure", "error"),
    [
        ("percent", lambda curve: 100 * np.sqrt(curve.remse)),
        ("ReMSE", lambda curve: curve.remse),
        ("MSE", lambda curve: curve.mse),
    ],
)
def test_error_curves_show_the_errors_firm_where_the_runs_determine_them(curves, measure, error):
    drawn = plots.error_curves(curves, measure=measure).object
    for name in ("amci", "bound"):
        shown = data(drawn, name)
        np.testing.assert_allclose(shown["error"], error(curves[name]))
        assert shown["draws"] == [2, 10, 100]
    firm = data(drawn, "amci")["firm"]
    np.testing.assert_array_equal(np.isfinite(firm), curves["amci"].determined)


def visible(drawn, kind=Line):
    shown = (each for each in drawn.renderers if each.visible and isinstance(each.glyph, kind))
    return {each.data_source.name.removeprefix("errors-") for each in shown}


def test_four_lines_are_shown_and_the_others_and_their_spread_on_request(curves):
    drawn = plots.error_curves(curves).object
    assert visible(drawn) == {"snis-q2", "bound", "snis-qm-stratified", "amci"}
    assert not visible(drawn, VArea)
    drawn = plots.error_curves(curves, every=True, spread=True, measure="ReMSE").object
    assert visible(drawn) == {*curves.by_name}
    assert visible(drawn, VArea) == {*curves.by_name} - {"bound"}
    for column, expected in zip(
        ("low", "median", "high"), curves["amci"].remse_quartiles, strict=True
    ):
        np.testing.assert_allclose(data(drawn, "amci")[column], expected)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("height", [260, 400])
def test_values_stand_at_the_lines_with_names_that_neither_overlap_nor_leave(
    curves, every, height
):
    picture = ErrorPicture(height=height)
    shown = picture.show(curves, 10, every=every)
    # Rows that are not in use lie nowhere.
    labels = pd.DataFrame(data(picture.figure, "labels")).dropna()
    assert value(curves, "bound", 1) == "63 %"
    assert labels.text.str.startswith("63 %").any()
    ends = picture.figure.y_range.start, picture.figure.y_range.end
    pixels = picture.inner_height * np.log(labels.y / ends[0]) / np.log(ends[1] / ends[0])
    rows = np.sort(pixels)[::-1]
    assert len(rows) >= len([n for n in shown if curves[n].mean[-1] < 1e3])
    assert (-np.diff(rows) >= 14.9).all()
    assert rows[0] <= picture.inner_height + 1e-6
    assert rows[-1] >= 14.9
    dots = pd.DataFrame(data(picture.figure, "dots")).dropna()
    assert set(dots["x"]) == {10.0}
    assert np.isclose(dots["y"], 100 * curves["bound"].remse[1] ** 0.5).any()


def test_curves_of_many_cases_are_refused():
    curves = amci.error_curves("tail-1d", None, [[1.0], [2.0]], [[3.0], [3.0]], draws=[2], runs=2)
    with pytest.raises(ValueError, match="single case"):
        plots.error_curves(curves)


def part(picture, group, label=None):
    """The one element of a picture of a group, or with a label."""
    (found,) = (each for each in picture if each.group == group and label in (None, each.label))
    return found


def test_a_reuse_map_shows_the_errors_that_the_runs_determine():
    grid = np.linspace(-0.5, 1.5, 5).tolist()
    of = {"alphas": grid, "betas": grid, "draws": 200, "runs": 60}
    reuse = amci.reuse_errors("tail-1d", "paper", 2.0, 1.0, **of)
    picture = plots.reuse_map(reuse, alpha=0.3, beta=0.1)
    image = part(picture, "Image")
    shown = image.dimension_values("shown", flat=False)
    np.testing.assert_allclose(shown, np.where(reuse.determined, reuse.remse, np.nan).T)
    assert image.dimension_values("remse").tolist() == pytest.approx(reuse.remse.ravel())
    assert part(picture, "Yours").array([0, 1]).tolist() == [[0.3, 0.1]]
    assert part(picture, "Mark", "smallest error").array([0, 1])[0] == pytest.approx(reuse.best)
    hv.render(picture)


@pytest.mark.parametrize("layer", ["variance", "effective-E2", "pareto-E1_plus", "bound"])
def test_a_map_shows_the_layer_that_is_chosen_and_empty_cells_without_a_colour(layer):
    found = amci.amortization_map("tail-1d", None, size=(4, 3), draws=64)
    found.relative_variance[0, 0] = np.nan
    picture = plots.amortization_map(found, layer, at=(1.0, 3.0), labels={"y": "observation"})
    image = part(picture, "Map")
    values = layer_of(found, layer)[0]
    np.testing.assert_allclose(image.dimension_values("value", flat=False), values)
    assert image.kdims[0].label == "observation"
    assert part(picture, "Yours").array([0, 1]).tolist() == [[1.0, 3.0]]
    (bar,) = hv.render(picture).select({"type": ColorBar})
    if layer == "variance":
        assert bar.title == "variance per draw / μ²"
        ends = bar.color_mapper.low, bar.color_mapper.high
        assert ends == pytest.approx((np.nanmin(values), np.nanmax(values)))
    assert bar.color_mapper.nan_color == "rgba(0, 0, 0, 0)"


@pytest.mark.parametrize(
    ("name", "variant", "y", "theta"),
    [
        ("gain-loss", "spline", 1.0, 0.4),
        ("tail-1d", "paper", -4.0, 5.0),
        ("tail-1d", "oracle", 1.0, 3.0),
    ],
)
def test_diagnostics_show_weights_tails_and_the_estimate_in_per_cent_even_of_a_tiny_mu(
    name, variant, y, theta
):
    problem, proposals = amci.problem(name), amci.load_proposals(name, variant=variant)
    found = diagnosis(CaseDraws(problem, proposals, y, theta, draws=64, seed=0))
    *histograms, way = plots.diagnostics(problem, proposals, y, theta, draws=64)
    for term, histogram in zip(found.terms, histograms, strict=True):
        bars = next(each for each in histogram if isinstance(each, hv.Rectangles))
        assert bars.dimension_values("draws").tolist() == term.heights.tolist()
        shown, plus = hv.render(histogram), "⁺" if name == "gain-loss" else ""
        called = {"E1_plus": f"E₁{plus}", "E1_minus": "E₁⁻", "E2": "E₂"}[term.name]
        assert f"weight of {called} " in shown.xaxis.axis_label
        entries = [item.label.value for legend in shown.legend for item in legend.items]
        assert ("fitted Pareto tail" in entries) == (len(term.tail) > 0)
        assert len(term.tail) > 0 or variant != "paper"
    line = part(way, "Curve", LINE).dimension_values("value")
    off = 100 * (found.along.value - found.mu.value) / abs(found.mu.value)
    np.testing.assert_allclose(line, off, atol=1e-9)
    shown = hv.render(way)
    assert shown.y_range.start < min(off[-1], 0) <= max(off[-1], 0) < shown.y_range.end
    assert shown.yaxis.axis_label == "estimate − truth, in % of it"


def test_an_evaluation_shows_stored_medians_bands_over_runs_and_single_cases():
    found = evaluated.stored(evaluated.chosen(Case("tail-1d").settings))
    picture = plots.evaluation(found)
    stored = amci.load_proposals("tail-1d").card["evaluation"]["estimators"]["amci"]
    line, band = part(picture, "Curve", "AMCI"), part(picture, "Bands", "AMCI")
    np.testing.assert_allclose(line.dimension_values("error"), stored["remse_median"])
    for end, key in (("low", "runs_q25"), ("high", "runs_q75")):
        np.testing.assert_allclose(band.dimension_values(end), stored[key])
    _, rows = read_sweep(pretrained_root() / "tail-1d/spline/cases.parquet")
    errors = rows["remse"][rows["estimator"] == "amci"].to_numpy().reshape(-1, 4)
    cases = [each["error"] for each in part(picture, "Cases").data]
    np.testing.assert_array_equal(cases, errors)


@pytest.mark.parametrize(
    ("name", "variant", "y", "theta", "said"),
    [
        ("tail-1d", "spline", 1.0, 3.0, ["0 above θ", "all above θ"]),
        # Far from its target a proposal is not said to match it.
        ("tail-1d", "paper", -4.0, 5.0, ["0 above θ", "should match f"]),
        ("gain-loss", "spline", 1.0, 0.4, ["43 above θ, 21 below", "all above θ", "all below θ"]),
        ("tail-5d", "spline", (0.5,) * 5, (1.0,) * 5, ["0 above θ", "all above θ"]),
        ("cancer", "spline", (600.0, 250.0), None, ["count for E₁", "count for E₂"]),
        ("peak", "spline", None, (0.3, 0.7, 0.4), ["count for E₁", "Close-up"]),
    ],
)
def test_captions_count_what_the_draws_do(name, variant, y, theta, said):
    proposals = amci.load_proposals(name, variant=variant)
    layout = plots.densities(amci.problem(name), proposals, y, theta)
    order = [f"caption-{n}" for n in ("q2", "q1", "q1_minus", "close-up")]
    captions = [layout.select_one({"name": name}) for name in order]
    for caption, words in zip([c for c in captions if c is not None], said, strict=True):
        assert words in caption.text
    if name == "tail-1d":
        assert len(layout.select_one({"name": "densities-draws"}).data["q2"]) == 64


def test_draws_count_for_the_other_integral_as_their_weights_say():
    problem, proposals = amci.problem("cancer"), amci.load_proposals("cancer")
    y, _ = problem.check((600.0, 250.0))
    drawn = marks(problem, proposals, y, None, draws=64, seed=0)
    for name, proposal in (("q2", proposals.q2), ("q1", proposals.q1_plus)):
        x = torch.from_numpy(drawn.x[name])
        with torch.inference_mode():
            log_w = problem.log_joint(x, y) - proposal(y, None).log_prob(x)
        if name == "q2":
            log_w = log_w + problem.f(x, None).log()
        effective = 1 / log_w.softmax(0).square().sum()
        term = "E₁" if name == "q2" else "E₂"
        assert drawn.said[name] == f"{round(float(effective))} count for {term}"
