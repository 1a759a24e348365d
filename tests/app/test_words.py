"""Sentences made from numbers."""

import contextlib
import io
from dataclasses import replace

import pytest

from app.choice import Choice
from app.state import State
from app.store import store_of
from app.summary import summarize
from app.words.choice import difference, file_name
from app.words.numbers import number
from app.words.script import script


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tail-1d", {"variant": "paper", "draws": 9, "seed": 3}),
        ("tail-1d", {"snapshot": 1}),
        ("peak", {}),
        ("cancer", {"draws": 16}),
    ],
)
def test_the_script_prints_the_figures_of_the_strip(name, changes):
    state = State(name)
    state.set(**changes)
    choice = state.choice
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(script(choice), {})
    y, theta = choice.pair
    expected = summarize(
        state.problem,
        store_of(name).proposals(choice),
        y=y,
        theta=theta,
        draws=choice.draws,
        seed=choice.seed,
    )
    lines = printed.getvalue().splitlines()
    assert lines == [
        f"{row.name:8} {row.value:.4g} ± {row.standard_error:.2g}" for row in expected.rows
    ]


def test_a_difference_names_what_differs_and_nothing_else():
    wanted = Choice("tail-1d", (1.0,), (3.0,), "spline", None, 64, 1000, 0)
    assert difference(replace(wanted, theta=(-1.5,)), wanted) == "for θ = −1.5"
    assert difference(replace(wanted, draws=9, seed=4), wanted) == "for 9 draws, seed 4"
    assert "paper" in difference(replace(wanted, variant="paper"), wanted)
    assert "frame 3" in difference(replace(wanted, snapshot=2), wanted)


def test_a_file_name_has_letters_that_every_system_takes():
    name = file_name("errors", {"problem": "a/b", "y": "1,2", "theta": "<img>"}, "csv")
    assert name == "errors_problem-a-b_y-1,2_theta--img-.csv"


def test_numbers_that_are_not_known_are_said_so():
    assert [number(v) for v in (float("nan"), float("inf"), -float("inf"), 0.0)] == [
        "?",
        "∞",
        "−∞",
        "0",
    ]
