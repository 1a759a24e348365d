"""Pictures as tables: what is shown, in lines that can be read."""

import math

import numpy as np
import pandas as pd
import pytest
from amci_explorer.views import export
from amci_explorer.views.tabulated import MOST, AsTable, tabulate


def table(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "yes"),
        (np.bool_(False), "no"),
        (1234, "1,234"),
        (-0.25, "−0.25"),
        (np.float64(2.5e-7), "2.500 × 10⁻⁷"),
        (math.nan, "?"),
        (None, ""),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_a_value_can_be_read(value, shown):
    assert f"<td>{shown}</td>" in tabulate("A", table(name=["amci"], value=[value]))


def test_a_table_has_a_caption_and_heads():
    found = tabulate("Errors & more", table(estimator=["amci"], draws=[10]))
    assert "<caption>Errors &amp; more</caption>" in found
    assert '<th scope="col">draws</th>' in found
    assert '<th scope="row">amci</th>' in found


def test_of_a_long_one_lines_at_equal_distances_are_shown_and_it_is_said():
    found = tabulate("A", table(x=range(10 * MOST)))
    assert found.count("<tr>") == MOST + 1
    assert f'<th scope="row">{10 * MOST - 1:,}</th>' in found
    assert f"{MOST} of {10 * MOST:,} lines" in found
    assert "lines" not in tabulate("A", table(x=range(MOST)))


def test_nothing_is_said_to_be_nothing():
    assert "nothing to show" in tabulate("A", table())


def test_a_fold_is_filled_when_it_is_opened_and_follows_while_it_is_open():
    asked = []

    def counted():
        asked.append(1)
        return table(x=[len(asked)])

    fold = AsTable("A", counted)
    fold.renew()
    assert not asked
    fold.turn(is_open=True)
    assert len(asked) == 1
    fold.renew()
    assert len(asked) == 2
    fold.turn(is_open=False)
    assert len(asked) == 2


def test_cases_that_are_compared_stand_in_one_table():
    one, other = table(x=[1], y=[2]), table(x=[3], y=[4])
    assert export.joined({"B": one}) is one
    both = export.joined({"A": one, "B": other})
    assert both.to_dict("list") == {"case": ["A", "B"], "x": [1, 3], "y": [2, 4]}
