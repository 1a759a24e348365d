"""The bar of a training: shown where somebody looks, silent where not."""

import math

import pytest
from rich.progress import Progress as Bar

from amci_core.training.display import Display, TimeLeft
from amci_core.training.progress import Progress
from amci_core.training.quality import Quality


def report(step, stage="imitate"):
    quality = Quality(0.25, 0.125, 0.25, 0.5)
    return Progress("q1_plus", step, 10, math.nan, quality, 0.125, 0.1, stage)


def test_it_shows_stages_figures_and_what_is_said(capsys):
    with Display(shown=True) as display:
        display.say("looks for modes [of all]")
        for step in (0, 10):
            display(report(step))
        display(report(10, "refine"))
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("looks for modes [of all]", "q1_plus, refine", "relative variance 0.125"):
        assert words in shown.err


def test_no_time_is_left_before_a_twentieth_is_done():
    seconds = iter(range(100))
    with Bar(TimeLeft(), get_time=lambda: float(next(seconds)), auto_refresh=False) as bar:
        bar.add_task("runs", total=100)
        (task,), shown = bar.tasks, {}
        for done in (1, 4, 5, 50):
            bar.update(task.id, completed=done)
            shown[done] = TimeLeft().render(task).plain
    assert shown[1] == shown[4] == "-:--:--"
    assert shown[5] != "-:--:--"
    assert shown[50] != "-:--:--"


@pytest.mark.parametrize("shown", [False, None])
def test_where_nobody_looks_it_says_nothing(capsys, shown):
    with Display(shown=shown) as display:
        display.say("looks for modes")
        display(report(5))
    assert capsys.readouterr() == ("", "")
