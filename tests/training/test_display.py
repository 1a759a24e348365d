"""The bars of a training: shown if wanted, silent elsewhere."""

import math

import pytest

from amci_core.training.display import Display
from amci_core.training.quality import Quality
from amci_core.training.trainer import Progress


def report(step, stage="pretrain"):
    quality = Quality(0.25, 0.125, 0.25, 0.5)
    return Progress("q1_plus", step, 10, math.nan, quality, 0.125, 0.1, stage)


def test_it_shows_stages_figures_and_messages(capsys):
    with Display(shown=True) as display:
        display.say("draws particles [of all]")
        for step in (0, 10):
            display(report(step))
        display(report(10, "refine"))
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("draws particles [of all]", "q1_plus, refine", "relative variance 0.125"):
        assert words in shown.err


@pytest.mark.parametrize("shown", [False, None])
def test_outside_a_terminal_it_is_silent(capsys, shown):
    with Display(shown=shown) as display:
        display.say("draws particles")
        display(report(5))
    assert capsys.readouterr() == ("", "")
