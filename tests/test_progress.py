"""Progress bars: shown if wanted, silent elsewhere."""

import pytest

from amci_core.progress import Bars


def test_it_shows_bars_figures_and_messages(capsys):
    with Bars(shown=True) as bars:
        bars.say("draws particles [of all]")
        for step in (0, 10):
            bars.update("q1_plus, pretrain", step, 10, "relative variance 0.125")
        bars.update("q1_plus, refine", 10, 10)
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("draws particles [of all]", "q1_plus, refine", "relative variance 0.125"):
        assert words in shown.err


@pytest.mark.parametrize("shown", [False, None])
def test_outside_a_terminal_it_is_silent(capsys, shown):
    with Bars(shown=shown) as bars:
        bars.say("draws particles")
        bars.update("cases", 5, 10)
    assert capsys.readouterr() == ("", "")
