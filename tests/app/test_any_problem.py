"""Problems of one's own, of which nothing is known, are at work on every card."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import numpy as np
import panel as pn
import pytest
from amci_explorer.colours import ESTIMATORS
from amci_explorer.compute import computations
from amci_explorer.compute.results import Result, Results
from amci_explorer.explorer import TABS, Explorer
from amci_explorer.problems import registry
from amci_explorer.views.train import TrainCard
from bokeh.document import Document
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure
from own_problems import EXPONENTIAL, FIRST, RARE, SQUARE, write
from panel.io.state import set_curdoc
from servers import run_apart

from amci_core.flows import Proposals

CASES = {
    "beyond": EXPONENTIAL | {"name": "own-3d", "y": "1,0,-1"},
    "line": SQUARE | {"name": "own-1d", "y": "1"},
    "signed": FIRST | {"name": "own-signed", "y": "0.4,-1"},
}
# Nobody knows the bound, and nothing is being trained.
LEARNING = ("learning-q1_plus", "learning-q1_minus", "learning-q2")
# Draws are ticks where they are played: beside the page's own densities.
TICKS = ("train-densities-draws", "train-marginal-draws")
# A problem has some of the estimators.
OTHERS = tuple(f"{card}-{name}" for card in ("errors", "train") for name in ESTIMATORS)
MAY_BE_EMPTY = (
    *("errors-a", "errors-firm"),
    # Shown on request.
    *("errors-medians", "errors-bands"),
    # The player stands before the first draw.
    "play-shown",
    *OTHERS,
    *("train-densities-threshold", "train-marginal-data-threshold"),
    *LEARNING,
    *TICKS,
)


def do_at_once(results, card):
    """Computes here what workers would, and shows the first and the last result."""
    asked = results._running[card.name]
    try:
        count, first = asked.part(0)
        results._bring(card, Result(asked, asked.result([first]), 1.0))
        parts = [first, *(asked.part(i)[1] for i in range(1, count))]
        results._bring(card, Result(asked, asked.result(parts), 2.0, complete=True))
    except ValueError as error:
        results._finish(card, asked, str(error))
    return SimpleNamespace(cancel=lambda: None)


@pytest.fixture
def opened(new, monkeypatch):
    """Opens the page at a problem from a file, does its jobs at once, and has it read."""

    def make(case, read):
        options = dict(case)
        query = {"problem": options["name"], "y": options.pop("y"), "runs": "8", "draws": "64"}

        async def inside():
            document = Document()
            with set_curdoc(document):
                explorer = Explorer(document, query)
                assert explorer.state.problem.name == query["problem"]
                explorer.tabs.sight.seen = True
                explorer.tabs.fill()
                explorer.start()
                read(explorer)

        new(**options)
        run_apart(inside())

    monkeypatch.setattr(Results, "_start", do_at_once)
    monkeypatch.setattr(computations, "TOTALS", (8, 64, 512))
    monkeypatch.setattr(computations, "MAP_SIZES", {})
    monkeypatch.setattr(computations, "SMALL_MAP", (3, 64))
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


def flat(values):
    """Every number in columns, images and lines, which are lists within lists."""
    for value in values:
        if isinstance(value, list | np.ndarray):
            yield from flat(value)
        elif not isinstance(value, str):
            yield float(value)


def numbers(part):
    """What the sources of its pictures hold, by name."""
    return {
        source.name: np.array(list(flat(source.data.values())))
        for shown in pictures(part)
        for source in shown.select({"type": ColumnDataSource})
        if source.name
    }


def without_nan(words):
    # A question mark by itself is a number that nobody knows.
    unknown = re.compile(r"\bnan\b|(?<![\w)])\?")
    return not [text for text in words if unknown.search(text)]


@pytest.mark.parametrize(
    "kind",
    ["signed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("beyond", "line"))],
)
def test_every_card_is_at_work(opened, kind):
    problem = CASES[kind]

    def read(explorer):
        seen = set()
        for name in [tab.name for tab in TABS if tab is not TrainCard]:
            explorer.state.set(card=name, source="live")
            explorer.state.commit()
            for card in (explorer.errors, explorer.summary, explorer.tabs.card):
                seen.add(card.name)
                words = texts(card.panel)
                assert without_nan(words), words
                assert card.shown.complete, words
                assert len(card.frame(card.shown.value)) > 0
                for source, values in numbers(card.panel).items():
                    assert not np.isinf(values).any(), source
                    # Those of a case to compare with end with -a.
                    may_be_empty = source in MAY_BE_EMPTY or source.endswith("-a")
                    assert np.isfinite(values).any() or may_be_empty, source
        why = {tab.name: tab.why_not(explorer.state.problem) for tab in TABS}
        assert bool(why["map"]) == (problem["dim"] == 1)
        assert bool(why["reuse"]) == (not problem["nonnegative"])
        possible = {name for name, reason in why.items() if not reason}
        assert seen == {"errors", "summary", *possible} - {"train"}
        said = " ".join(texts(explorer.tabs.panel))
        assert all(reason in said for reason in why.values())
        shown = [v for v in numbers(explorer.densities.panel).values() if v.size]
        assert shown
        assert all(np.isfinite(values).any() for values in shown)
        page = (explorer.densities.panel, explorer.controls.side, explorer.headline.panel)
        assert without_nan(chain.from_iterable(map(texts, page)))
        strip, errors = explorer.summary, explorer.errors
        said = " ".join(texts(strip.panel))
        known = strip.shown.value.mu.name == "reference"
        assert ("reference value" if known else "truth not known") in said
        assert re.search("mismatch <b>.* ± .* nats", said)
        state = explorer.state
        assert 0 < state.level_error < 0.1 * state.level
        handles = explorer.controls.side.select(lambda part: hasattr(part, "label"))
        (handle,) = (part for part in handles if part.label.startswith("Mismatch, nats"))
        assert handle.disabled
        assert handle.value == state.level
        assert "estimated ±" in handle.label
        state.move(y=[0.0] * problem["dim"])
        assert "not known" in handle.label
        assert (
            "μ is not known: errors are measured against a reference value" in errors.note.object
        )

    opened(problem, read)


def test_the_way_without_a_truth_is_measured_from_the_reference_value(opened):
    def read(explorer):
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

    opened(CASES["beyond"], read)


def test_errors_that_cannot_be_counted_are_said_to(opened):
    def read(explorer):
        for card in (explorer.errors, explorer.summary):
            assert without_nan(texts(card.panel)), card.name
        assert "mu is not known (E1_plus: the integrand is zero" in " ".join(
            texts(explorer.errors.panel)
        )
        assert "error not known" in " ".join(texts(explorer.summary.panel))

    hidden = {"f": "((x - 0.5).abs() < 1e-4).all(-1).double()", "name": "own-hidden"}
    opened(RARE | hidden | {"y": "0,0,0"}, read)


def test_errors_are_counted_from_the_closed_form_as_nearly_as_is_said(opened):
    # E[exp(sum x / 2)] of N(y / 2, I / 2) in three dimensions.
    exact = np.exp(3 / 16)

    def read(explorer):
        truth = explorer.errors.shown.value["amci"].truth
        assert truth.unit == pytest.approx(exact, abs=4 * float(truth.standard_error))
        assert truth.relative_error < 0.01

    opened(CASES["beyond"], read)


@pytest.mark.slow
def test_a_process_that_computes_knows_the_problems_that_the_environment_names(tmp_path):
    end = "\n\nfrom amci_explorer.problems.registry import hand_in\n\nhand_in(New(), wide())\n"
    path = write(tmp_path, name="own-file", end=end, **SQUARE)
    code = (
        "import asyncio, pickle\n"
        "from amci_explorer.compute.runner import Cluster, timed_part\n"
        "from amci_explorer.compute.requests import Request\n"
        "from amci_explorer.state.case import Case\n"
        "async def main():\n"
        "    asked, cluster = Request('summary', Case('own-file').settings), Cluster(workers=1)\n"
        "    part = await cluster.submit('one', timed_part, pickle.dumps(asked), 0)\n"
        "    print([row.name for row in part[2].rows])\n"
        "    await cluster.close()\n"
        "asyncio.run(main())\n"
    )
    environment = os.environ | {registry.FILES: str(path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert "snis-q2" in done.stdout, done.stderr


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
