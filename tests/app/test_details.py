"""Below a picture: its help, its numbers as a table, and these as a file."""

import pandas as pd
from amci_explorer.views.details import Details


def test_details_are_filled_when_they_are_unfolded_and_follow_while_they_are_open():
    asked = []

    def counted():
        asked.append(1)
        return {"B": (None, pd.DataFrame({"x": [len(asked)], "error": [2.5e-7]}))}

    details = Details("A", lambda: "How to read it.", counted)
    details.renew()
    assert not asked
    details.panel.active = [0]
    details.renew()
    assert len(asked) == 2
    shown = details.panel.select(
        lambda part: isinstance(getattr(part, "object", None), pd.DataFrame)
    )
    assert "2.500 × 10⁻⁷" in shown[0]._transform_object(shown[0].object)["object"]
    details.panel.active = []
    details.renew()
    assert len(asked) == 2
