"""Another f is a part of what was chosen: in links, steps and results, and read strictly."""

import math
import re
from dataclasses import replace

import pytest
from amci_explorer.compute.requests import Request
from amci_explorer.numbers.pictures import densities
from amci_explorer.problems import registry
from amci_explorer.problems.examples import examples
from amci_explorer.state.case import Case
from amci_explorer.text import number
from amci_explorer.words.script import script
from amci_explorer.words.settings import about_reference, note

import amci_core as amci
from amci_core.models.expression import ExpressionError

WINDOW = "abs(x1 - theta1) < 0.5"


@pytest.fixture
def state():
    return Case("tail-1d")


def test_it_leads_back_from_a_link_a_file_and_a_step(state):
    state.move(y=2.0, theta=0.5)
    state.open("tail-1d", f="  abs(x1  - theta1) < 0.5 ")
    state.commit()
    assert state.f == WINDOW
    assert (state.y, state.theta) == ((2.0,), (0.5,))
    assert state.problem.name == f"tail-1d with f = {WINDOW}"
    for kept in (state.link(), state.as_json()):
        other = Case()
        assert other.read(kept) == {}
        assert other.as_json() == state.as_json()
    state.open("peak")
    state.commit()
    state.go(-1)
    assert (state.original, state.f) == ("tail-1d", WINDOW)
    state.reset()
    assert (state.original, state.f, state.theta) == ("tail-1d", "", (3.0,))


def test_what_is_wrong_changes_nothing(state):
    before = state.as_json()
    with pytest.raises(ExpressionError, match="column 6") as caught:
        state.open("tail-1d", f="x1 + y")
    assert caught.value.column == 6
    with pytest.raises(ValueError, match="finite"):
        state.open("tail-1d", f="log(x1)")
    assert "column 6" in state.read({"f": "x1 + y"})["f"]
    # The problem's name with its f is none that can be chosen.
    assert "problem" in state.read({"problem": f"tail-1d with f = {WINDOW}"})
    assert state.as_json() == before


def test_results_of_different_f_are_different_work_and_say_what_is_not_known(state):
    state.move(theta=1.0)
    own = Request("summary", state.settings)
    asked = []
    for f in (WINDOW, "abs(x1 - theta1) < 0.6"):
        state.open("tail-1d", f=f)
        asked.append(Request("summary", state.settings))
    assert len({own, *asked}) == 3
    assert asked[0].link == {**own.link, "f": WINDOW, "variant": "q2 alone"}
    found = [one.part(0)[1] for one in asked]
    assert found[0].rows[0].value != found[1].rows[0].value
    assert about_reference(own.settings, asked[0].settings).startswith("A is a case of another f")
    assert not state.problem.knows_truth
    assert state.level_range() is None
    assert math.isnan(state.level)
    assert "above" not in str(found)


@pytest.mark.parametrize("name", amci.problems())
def test_examples_fit_and_every_computation_is_at_work(name, monkeypatch):
    def reference_value(*_, **__):
        raise ValueError("it takes long")

    monkeypatch.setattr(amci, "reference_value", reference_value)
    original, state = amci.problem(name), Case(name)
    state.set(runs=4, draws=16)
    kinds = ["a tail", "a window", "a smooth utility", "a signed payoff"]
    assert list(examples(original)) == kinds
    for f in examples(original).values():
        state.open(name, f=f)
        problem = state.problem
        assert state.link()["f"] == f
        assert densities(problem, registry.chosen(state.settings), *state.settings.pair).columns
        first = Request("summary", state.settings).part(0)[1].rows[0]
        assert first.name == "amci"
        assert math.isfinite(first.value)
        assert "No proposals have been trained for this f" in note(problem.name, state.variant)
    count, part = Request("diagnosis", state.settings).part(0)
    assert count >= 1
    assert part is not None


def test_the_script_gives_the_figures_of_the_strip(state, capsys):
    state.move(theta=1.0)
    state.open("tail-1d", f="max(x1 - theta1, 0) - 0.2")
    text = script(state.settings)
    assert "amci.with_target(amci.problem('tail-1d'), 'max(x1 - theta1, 0) - 0.2')" in text
    exec(text, {})
    printed = float(re.search(r"^amci: mu = ([^,]+),", capsys.readouterr().out, re.M)[1])
    row = Request("summary", state.settings).part(0)[1].row("amci")
    assert printed == pytest.approx(row.value, rel=1e-2)


def test_a_text_is_applied_once_it_is_right_and_told_if_it_is_zero_everywhere(in_a_loop):
    def body(turned):
        explorer, target = turned.explorer, turned.explorer.controls.target
        for text in ("x1 +", "x" * 10_000):
            target.field.value = text
            assert explorer.state.f == ""
            assert target.field.error_state
        target.field.value = "0 * x1"
        assert target.field.helper_text.startswith("f is 0 at all points tried")
        target.field.value = WINDOW
        assert explorer.state.f == WINDOW == target.field.value
        assert not target.field.error_state
        assert not target.field.helper_text
        assert explorer.errors.figure.title.text == f"f = {WINDOW}"
        target._own.clicks += 1
        assert explorer.state.f == ""
        assert explorer.errors.figure.title.text == ""

    in_a_loop(body)


def test_a_reference_value_stands_for_the_truth_where_its_error_allows(in_a_loop):
    # Pr(x > 0.5 | y = 1) under N(1/2, 1/2) is a half.
    def body(turned):
        turned.does = True
        turned.explorer.state.commit()
        strip = turned.explorer.summary
        found = strip.shown.value
        assert found.mu.name == "reference"
        assert abs(found.mu.value / 0.5 - 1) < 4 * found.mu.error < 4e-3
        shown = strip._line.object + strip._table.object
        assert "reference value" in shown
        assert "not known" not in shown
        for row in found.rows:
            assert row.relative_error == pytest.approx(row.value / 0.5 - 1, abs=4 * found.mu.error)
        (row,) = (each for each in shown.split("<tr>") if "</i>SNIS q₂<" in each)
        error = 100 * (found.row("snis-q2").value / 0.5 - 1)
        assert f"<td>{number(error, 2)} %</td>" in row
        # An error near that of the reference value is only bounded.
        near = replace(found.row("amci-cv"), relative_error=3 * found.mu.error)
        strip.draw(replace(found, rows=(near,)), complete=True)
        assert f"<td>below {number(1000 * found.mu.error, 1)} %</td>" in strip._table.object

    query = {"f": "where(x1 > theta1, 1, 0)", "y": "1", "theta": "0.5", "runs": "4", "seed": "1"}
    in_a_loop(body, query)
