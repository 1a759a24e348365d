"""How a page turns from one problem to another, and what it says when something fails."""

import sys
from html import escape
from urllib.parse import urlencode

import panel_material_ui as pmui
import param
import pytest
from amci_explorer.compute import runner
from amci_explorer.compute.requests import Request
from amci_explorer.compute.results import Result, Results
from amci_explorer.explorer import TABS
from amci_explorer.problems.presets import presets
from amci_explorer.server.session import callback, guarded
from amci_explorer.shell import page
from amci_explorer.state.case import Case
from amci_explorer.views import panel
from amci_explorer.views.card import Card
from amci_explorer.views.inputs import Select
from amci_explorer.views.layout import HTML
from amci_explorer.views.slider import Slider
from amci_explorer.words import CARDS, HELP

import amci_core as amci


def test_another_problem_turns_handles_and_densities_to_it_and_computes(in_a_loop):
    def body(turned):
        explorer = turned.explorer
        handles = explorer.controls.case.panel
        level = explorer.state.level
        turned.choose("gain-loss")
        sliders = handles.select(Slider)
        assert [each.label for each in sliders[:2]] == ["Observation y", "Price θ"]
        assert sliders[-1].value == explorer.state.level != level
        assert sorted(turned.started) == ["errors", "play", "summary"]

    in_a_loop(body)


def test_a_card_asks_for_nothing_before_it_is_on_the_screen(in_a_loop):
    def body(turned):
        explorer, at_once = turned.explorer, ["errors", "summary"]
        explorer.tabs.sight.seen = False
        explorer.start()
        assert sorted(turned.started) == at_once
        explorer.state.set(card="reuse")
        explorer.state.commit()
        assert sorted(turned.started) == at_once
        explorer.tabs.sight.seen = True
        assert sorted(turned.started) == ["errors", "reuse", "summary"]
        # What has begun goes on when it is scrolled away.
        explorer.tabs.sight.seen = False
        assert "reuse" in explorer.results.running

    in_a_loop(body, {"card": "map", "runs": "4"})


def test_curves_that_are_known_are_in_the_first_document(in_a_loop, monkeypatch):
    def body(turned):
        class Known:
            def finished(self, asked):
                return Result(asked, asked.result([asked.part(0)[1]]), 1.0, complete=True)

        monkeypatch.setattr(runner, "runner", Known)
        turned.explorer.start()
        assert not turned.started
        root = page(turned.explorer, turned.document).get_root(turned.document)
        source = root.select_one({"name": "errors-amci"})
        assert len(source.data["error"]) > 20

    in_a_loop(body)


@pytest.mark.parametrize("card", ["reuse", "map", "diagnostics"])
def test_a_frame_computes_its_card_at_once(in_a_loop, card):
    def body(turned):
        turned.explorer.start()
        assert turned.started == [card]

    in_a_loop(body, {"ui": "min", "card": card, "runs": "4"})


def test_only_the_open_card_computes(in_a_loop):
    def body(turned):
        state = turned.explorer.state
        turned.explorer.start()
        assert "map" not in turned.started
        state.set(card="map")
        state.commit()
        assert turned.started.count("map") == 1
        assert turned.started.count("errors") == 1
        state.move(y=2.0)
        state.commit()
        # The map is of the plane, not of the case; the card that was open is closed.
        assert turned.started.count("map") == turned.started.count("play") == 1
        assert turned.started.count("errors") == 2

    in_a_loop(body)


def test_a_preset_opens_the_card_that_it_speaks_of_and_its_words_go_when_the_case_does(in_a_loop):
    def body(turned):
        explorer = turned.explorer
        told = next(p for p in presets(explorer.state.problem) if "diagnostics" in p.link.values())
        about = explorer.headline.about[0]
        chips = explorer.controls.chips
        chips.value = [*chips.value, chips.options[told.name]]
        assert explorer.tabs.card.name == "diagnostics"
        assert escape(told.text) in about.object
        explorer.state.set(seed=3)
        assert escape(told.text) in about.object
        explorer.state.move(theta=1.0)
        assert escape(told.text) not in about.object

    in_a_loop(body)


@pytest.mark.slow
def test_a_page_is_small_and_does_not_grow_with_the_problems_it_has_shown(in_a_loop):
    def body(turned):
        document, explorer = turned.document, turned.explorer
        document.add_root(page(explorer, document).get_root(document))
        counts = [len(document.models)]
        names = amci.problems()
        for name in names * 3:
            with guarded(document):
                turned.choose(name)
            counts.append(len(document.models))
        # Two for each tab, whose card is not there before it is opened.
        assert counts[0] <= 416
        # Each view is made when it is first needed, and then kept.
        assert counts[-len(names) :] == counts[-2 * len(names) : -len(names)]

    in_a_loop(body)


class EstimatesCard(Card):
    """The estimates of all estimators, in words."""

    name = param.String("estimates")
    unit = ""

    def content(self):
        self.words = HTML()
        return [self.words]

    def asked(self, case):
        return Request("summary", case.settings)

    def draw(self, found, *, complete):
        self.words.object = ", ".join(f"{row.name} {row.value:.3g}" for row in found.rows)


def test_a_card_is_one_class_one_line_and_its_words(in_a_loop, monkeypatch):
    monkeypatch.setitem(CARDS, "estimates", "Estimates")
    monkeypatch.setitem(HELP, "estimates", "What each estimator says.")
    monkeypatch.setattr(sys.modules["amci_explorer.explorer"], "TABS", (*TABS, EstimatesCard))

    def body(turned):
        turned.does = True
        explorer = turned.explorer
        assert explorer.tabs.card.title == "Estimates"
        assert "card=estimates" in urlencode(explorer.state.link())
        explorer.state.commit()
        assert "amci 0.000203" in explorer.tabs.card.words.object

    in_a_loop(body, {"card": "estimates", "runs": "4"})


def test_what_fails_is_told_as_text(in_a_loop):
    def body(turned):
        def fail():
            raise RuntimeError("<img src=x onerror=alert(1)>")

        callback(fail)()
        first, alert = turned.explorer.alerts
        assert "Unknown tour step" in first.object
        assert alert.visible
        assert alert.severity == "error"
        assert "&lt;img" in alert.object
        assert "<img" not in alert.object
        # Said once, and not a page full of it.
        callback(fail)()
        assert len(turned.explorer.alerts) == 2
        first.closed = True
        for i in range(9):
            turned.explorer.complain(f"trouble {i}")
        said = [each.object for each in turned.explorer.alerts]
        assert said == [f"trouble {i}" for i in range(5, 9)]

    in_a_loop(body, {"tour": "nowhere", "runs": "4", "draws": "8"})


def test_densities_that_fail_at_the_opening_leave_the_rest_of_the_page(in_a_loop, monkeypatch):
    def fail(*_, **__):
        raise ValueError("log_prior: raised in here")

    def body(turned):
        explorer = turned.explorer
        explorer.start()
        for name in ("tail-1d", "tail-5d"):
            if name != explorer.state.original:
                turned.choose(name)
                assert "log_prior: raised in here" in explorer.alerts[0].object
            assert explorer.controls.case.panel.select(Slider)[0].value == explorer.state.y[0]
            assert sorted(turned.started) == ["errors", "play", "summary"]
            turned.started.clear()
            explorer.alerts[:] = []

    monkeypatch.setattr(panel, "densities", fail)
    in_a_loop(body)


def acts(widget):
    """What a user can do with a widget: it changes a parameter of it to another value."""
    hidden = getattr(widget, "styles", {}).get("display") == "none"
    if hidden or getattr(widget, "disabled", False) is True:
        return
    if isinstance(widget, pmui.Button) and not widget.label.startswith("Copy"):
        yield "clicks", widget.clicks + 1
    elif isinstance(widget, Slider):
        other = widget.start if widget.value != widget.start else widget.end
        # The errors' handle only shows values until it is let go.
        if getattr(widget, "figure", "") == "errors":
            with param.parameterized.discard_events(widget):
                widget.value = other
        else:
            yield "value", other
        yield "committed", widget.committed + 1
    elif isinstance(widget, pmui.Switch):
        yield "value", not widget.value
    elif isinstance(widget, pmui.TextInput):
        yield "value", "17"
    elif isinstance(widget, pmui.Tabs):
        yield "active", 2
    elif isinstance(widget, pmui.Player):
        yield "value", 0
    elif isinstance(widget, Select | pmui.RadioButtonGroup):
        values = list(dict(widget.options).values())
        yield from (("value", v) for v in values if v != widget.value)


def test_a_fault_behind_any_control_is_told(in_a_loop, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("broken in here")

    def body(turned):
        explorer, tried = turned.explorer, set()
        alerts = explorer.alerts
        for name in ("proposals", "counts", "own-f", "downloads"):
            explorer.controls.unfold(name, only=False)
        for name in ("set", "move", "commit", "open", "visit", "go", "reset", "compare"):
            monkeypatch.setattr(Case, name, fail)
        monkeypatch.setattr(Results, "again", fail)
        for view in (
            explorer.controls.top,
            explorer.controls.side,
            explorer.densities.panel,
            explorer.errors.panel,
            explorer.tabs.panel,
        ):
            for widget in view.select(lambda part: any(acts(part))):
                for name, value in acts(widget):
                    alerts[:] = []
                    setattr(widget, name, value)
                    assert alerts, (widget, name, value)
                    assert "broken in here" in alerts[0].object, (widget, name)
                    tried.add(type(widget).__name__)
        assert tried >= {"Button", "Slider", "CountField", "Select", "RadioButtonGroup", "Switch"}

    in_a_loop(body, {"card": "reuse"})
