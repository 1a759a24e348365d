"""Sentences made from numbers."""

import contextlib
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amci_explorer.compute.computations import computations_of
from amci_explorer.numbers.case import CaseDraws
from amci_explorer.numbers.summary import summarize
from amci_explorer.problems import registry
from amci_explorer.problems.settings import Settings
from amci_explorer.state.case import Case
from amci_explorer.text import number, percent, slug
from amci_explorer.words import HELP
from amci_explorer.words.curves import first, outside, value
from amci_explorer.words.diagnosis import about_verdict
from amci_explorer.words.script import script
from amci_explorer.words.settings import difference

from amci_core.evaluation import Curve, ErrorCurves
from amci_core.evaluation.runs import Truth

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tail-1d", {"variant": "paper", "draws": 9, "seed": 3}),
        ("tail-1d", {"snapshot": 1}),
        ("peak", {}),
    ],
)
def test_the_script_prints_the_figures_of_the_strip(name, changes):
    state = Case(name)
    state.set(**changes)
    choice = state.settings
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(script(choice), {})
    case = state.problem, registry.chosen(choice), *choice.pair
    expected = summarize(CaseDraws(*case, draws=choice.draws, seed=choice.seed))
    assert "nan" not in printed.getvalue()
    lines = re.findall(r"^(\S+): mu = (\S+), standard error (\S+)", printed.getvalue(), re.M)
    for (name, center, error), row in zip(lines, expected.rows, strict=True):
        assert (name, float(center)) == (row.name, pytest.approx(row.value, rel=1e-2))
        if error != "not":  # not known
            assert float(error) == pytest.approx(row.standard_error, rel=0.1)
            assert row.interval_low < row.value < row.interval_high


def test_a_difference_names_what_differs_and_nothing_else():
    wanted = Settings("tail-1d", (1.0,), (3.0,), "spline", None, 64, 1000, 0)
    assert difference(replace(wanted, theta=(-1.5,)), wanted) == "for θ = −1.5"
    assert difference(replace(wanted, draws=9, seed=4), wanted) == "for 9 draws, seed 4"
    assert "paper" in difference(replace(wanted, variant="paper"), wanted)
    assert "checkpoint 3" in difference(replace(wanted, snapshot=2), wanted)


def curves_of(errors, known=False):
    """Curves with these errors of q2, relative to mu = 2: (R, 1) at 8 draws."""
    one = np.zeros(())
    truth = Truth(np.log(2.0) + one, one + 1, one)
    runs = np.array([len(errors)])
    curve = Curve(np.asarray(errors, float), truth, runs, known)
    return ErrorCurves(np.array([8]), {"snis-q2": curve}, len(errors), len(errors))


def test_a_value_has_the_digits_that_the_runs_determine():
    normal = np.random.default_rng(0).normal(size=(1000, 1))
    normal /= np.sqrt(np.mean(normal**2))
    for scale, text in [(7.6, "760 %"), (1.8e-1, "18 %"), (2.54e-4, "0.025 %"), (123, "12,000 %")]:
        assert value(curves_of(scale * normal), "snis-q2", 0) == text
    assert value(curves_of(3e-7 * normal), "snis-q2", 0) == "3.0 × 10⁻⁵ %"
    assert value(curves_of(0.1 * normal), "snis-q2", 0, "MSE") == "0.04"
    assert value(curves_of(1e-13 * normal), "snis-q2", 0) == "exact"


def test_a_value_that_few_runs_make_is_hedged_and_not_given_if_it_hangs_on_them():
    few = np.where(np.arange(1000)[:, None] < 12, 9.0, -1e-3)
    assert value(curves_of(few), "snis-q2", 0) == "about 100 %"
    rare = np.where(np.arange(1000)[:, None] < 3, 9.0, -1e-3)
    assert value(curves_of(rare), "snis-q2", 0) == "too few runs to say"
    assert value(curves_of(rare), "snis-q2", 0, complete=False) == "…"
    # No run met the event: how much the rare one that does would err is not known.
    assert value(curves_of(-np.ones((1000, 1))), "snis-q2", 0) == "all estimates 0"


def test_what_is_off_the_scale_is_named():
    state = Case("tail-1d")
    state.set(runs=8, variant="oracle")
    found = computations_of("tail-1d").error_curves(state.settings).run()
    # SNIS with q1 answers 1, whatever mu is.
    assert outside(found, ("snis-q1",)) == "q₁ alone (SNIS q₁) is wrong by a factor of 5,000."
    assert not outside(found, first(found))


def test_a_sentence_that_begins_with_a_symbol_keeps_it():
    found = computations_of("tail-1d").diagnosis(Case("tail-1d").settings).run()
    told = about_verdict(replace(found, level="unreliable", reasons=("mu: it is small",)))
    assert "μ: it is small." in told


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.02348, "0.0235"),
        (2.0348e-4, "2.03 × 10⁻⁴"),
        (-3.0e-12, "−3.00 × 10⁻¹²"),
        (12345.0, "1.23 × 10⁴"),
        (4980.0, "4,980"),
        (-2.5, "−2.5"),
        (np.nan, "?"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
    ],
)
def test_numbers_are_written_for_reading(value, text):
    assert number(value) == text


def test_shares_are_per_cent_however_small():
    assert [percent(v) for v in (1.0, 0.0312, 5e-4)] == ["100.0 %", "3.1 %", "0.05 %"]


@pytest.mark.parametrize("name", HELP)
def test_help_is_two_sentences_and_links_to_a_section_of_the_documentation(name):
    said, _, link = HELP[name].partition(' <a href="docs/')
    assert len(re.findall(r"[.!?](?=\s|$)", said)) <= 2
    place, _, title = link.partition('" target="_blank">')
    page, _, anchor = place.partition("#")
    headings = re.findall(r"^## (.*)$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    assert title.partition(", in full")[0] in headings
    assert anchor in [slug(each) for each in headings]
