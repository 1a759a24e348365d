"""Pictures as tables: what is shown, in lines that can be read."""

import pandas as pd
from amci_explorer.views import export
from amci_explorer.views.tabulated import AsTable


def test_a_fold_is_filled_when_it_is_opened_and_follows_while_it_is_open():
    asked = []

    def counted():
        asked.append(1)
        return pd.DataFrame({"x": [len(asked)], "error": [2.5e-7]})

    fold = AsTable("A", counted)
    fold.renew()
    assert not asked
    fold.panel.active = [0]
    fold.renew()
    assert len(asked) == 2
    (shown,) = fold.panel.select(lambda part: getattr(part, "object", None) is not None)
    assert "2.500 × 10⁻⁷" in shown._transform_object(shown.object)["object"]
    fold.panel.active = []
    fold.renew()
    assert len(asked) == 2


def test_cases_that_are_compared_stand_in_one_table():
    one, other = pd.DataFrame({"x": [1], "y": [2]}), pd.DataFrame({"x": [3], "y": [4]})
    assert export.joined({"B": one}) is one
    both = export.joined({"A": one, "B": other})
    assert both.to_dict("list") == {"case": ["A", "B"], "x": [1, 3], "y": [2, 4]}
