"""A problem of the user's own, whose truth is not known, is at work on every card."""

import re
from dataclasses import replace
from itertools import chain

import numpy as np
import panel as pn
import pytest
from amci_explorer.colours import ESTIMATORS
from amci_explorer.compute import computations
from amci_explorer.explorer import TABS
from amci_explorer.problems import registry
from amci_explorer.views import evaluation
from amci_explorer.views.train import TrainCard
from bokeh.plotting import figure
from own_problems import EXPONENTIAL, FIRST, SQUARE

import amci_core as amci
from amci_core.flows import Proposals

CASES = {
    "beyond": EXPONENTIAL | {"name": "own-3d", "y": "1,0,-1"},
    "line": SQUARE | {"name": "own-1d", "y": "1"},
    "signed": FIRST | {"name": "own-signed", "y": "0.4,-1"},
}


@pytest.fixture
def opened(new, in_a_loop, monkeypatch):
    """Opens the page at a problem from a file, does its jobs at once, and has it read."""

    def make(read, *, y, **options):
        def body(turned):
            explorer = turned.explorer
            assert explorer.state.problem.name == options["name"]
            turned.does = True
            explorer.state.set(seed=1)
            explorer.state.commit()
            read(explorer)

        new(**options)
        in_a_loop(body, {"problem": options["name"], "y": y, "runs": "8", "draws": "64"})

    monkeypatch.setattr(computations, "TOTALS", (8, 64, 512))
    monkeypatch.setattr(computations, "MAP_SIZES", {})
    monkeypatch.setattr(computations, "SMALL_MAP", (3, 64))
    monkeypatch.setattr(evaluation, "CASES", 2)
    return make


def pictures(part):
    shown = [pane.object for pane in part.select(pn.pane.Bokeh) if pane.object is not None]
    return [each for layout in shown for each in layout.select({"type": figure})]


def texts(part):
    """Every sentence of a part of the page, with those for assistive technology."""
    found = [pane.object for pane in part.select(pn.pane.HTML)]
    for shown in pictures(part):
        found += [axis.axis_label for axis in chain(shown.xaxis, shown.yaxis)]
        found.append(shown.html_attributes["aria-label"])
    return [text for text in found if text]


def without_nan(*parts):
    # A question mark by itself is a number that nobody knows.
    unknown = re.compile(r"\bnan\b|(?<![\w)])\?")
    return not [text for part in parts for text in texts(part) if unknown.search(text)]


@pytest.mark.parametrize(
    "kind",
    ["signed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("beyond", "line"))],
)
def test_every_card_is_at_work(opened, kind):
    problem = CASES[kind]

    def read(explorer):
        state, errors, strip, seen = explorer.state, explorer.errors, explorer.summary, set()
        for name in [tab.name for tab in TABS if tab is not TrainCard]:
            state.set(card=name, source="live")
            state.commit()
            for card in (errors, strip, explorer.tabs.card):
                seen.add(card.name)
                assert without_nan(card.panel), texts(card.panel)
                assert card.shown.complete, card.name
                assert len(card.frame(card.shown.value)) > 0
        why = {tab.name: tab.why_not(state.problem) for tab in TABS}
        assert bool(why["map"]) == (problem["dim"] == 1)
        assert bool(why["reuse"]) == (not problem["nonnegative"])
        assert seen == {"errors", "summary", *(n for n in why if not why[n])} - {"train"}
        said = " ".join(texts(explorer.tabs.panel))
        assert all(reason in said for reason in why.values())
        assert without_nan(
            explorer.densities.panel, explorer.controls.side, explorer.headline.panel
        )
        said = " ".join(texts(strip.panel))
        known = strip.shown.value.mu.name == "reference"
        assert ("reference value" if known else "truth not known") in said
        assert re.search("mismatch <b>.* ± .* nats", said)
        assert 0 < state.level_error < 0.1 * state.level
        (handle,) = explorer.controls.side.select(
            lambda part: getattr(part, "label", "").startswith("Mismatch, nats")
        )
        assert handle.disabled
        assert handle.value == state.level
        assert "estimated ±" in handle.label
        state.move(y=[0.0] * problem["dim"])
        assert "not known" in handle.label
        assert "μ is not known: errors are measured against a reference value" in (
            errors.note.object
        )

    opened(read, **problem)


def test_without_a_truth_errors_are_measured_from_the_reference_value(opened):
    def read(explorer):
        # E[exp(sum x / 2)] of N(y / 2, I / 2) in three dimensions.
        truth = explorer.errors.shown.value["amci"].truth
        assert truth.unit == pytest.approx(np.exp(3 / 16), abs=4 * float(truth.standard_error))
        assert truth.relative_error < 0.01
        explorer.state.set(card="diagnostics")
        explorer.state.commit()
        card = explorer.tabs.card
        found = card.shown.value
        (line,) = (each for each in card.way.shown if each.label == ESTIMATORS["amci-cv"].label)
        assert line.dimension_values("draws")[-1] == found.draws
        off = 100 * (found.estimate / found.mu.value - 1)
        assert line.dimension_values("value")[-1] == pytest.approx(off)
        card.way.panel.get_root()
        assert "estimate − reference, in % of it" in card.way.figure.yaxis.axis_label
        assert "relative to the reference" in card.way.figure.html_attributes["aria-label"]

    opened(read, **CASES["beyond"])


def test_errors_that_cannot_be_counted_are_said_to(opened, monkeypatch):
    def reference_value(*_, **__):
        raise ValueError("E1_plus: the integrand is zero at all 8,192 points. Nothing to say")

    def read(explorer):
        assert without_nan(explorer.errors.panel, explorer.summary.panel)
        errors, summary = (
            " ".join(texts(each.panel)) for each in (explorer.errors, explorer.summary)
        )
        assert "mu is not known (E1_plus: the integrand is zero at all 8,192 points)" in errors
        assert "error not known" in summary

    monkeypatch.setattr(amci, "reference_value", reference_value)
    hidden = {"f": "((x - 0.5).abs() < 1e-4).all(-1).double()", "name": "own-hidden"}
    opened(read, y="0,0,0", **EXPONENTIAL | hidden)


def test_what_cannot_be_handed_in_is_refused(new):
    problem, proposals = new(name="own-refused", **SQUARE)
    other = Proposals("other", "mine", proposals.q1_plus, None, proposals.q2)
    with pytest.raises(ValueError, match="got proposals for other"):
        registry.hand_in(problem, other)
    seen, problem.y = problem.y, replace(problem.y, typical_range=(0.0, np.inf), high=np.inf)
    with pytest.raises(ValueError, match=r"infinite range\. Declare its typical_range"):
        registry.hand_in(problem, proposals)
    problem.y, problem.name = seen, "peak"
    with pytest.raises(ValueError, match="expected a name that no other"):
        registry.hand_in(problem, proposals)
