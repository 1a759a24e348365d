"""The cards behind the dashboard's tabs, as a test opens, reads and clicks them."""

from __future__ import annotations

from typing import Any

import numpy as np
from amci_explorer.numbers.diagnosis import Diagnosis, diagnosis
from visit import SOURCE, Visit

import amci_core as amci

WAY = "diagnostics-way-curve-amci + control variates"
MAP_IMAGE = f"() => ({SOURCE})('amortization-map-map')"


def bars(term: str) -> str:
    """The source of a term's histogram of weights."""
    return f"diagnostics-weights-{term}-rectangles-weights".lower()


def choose(opened: Visit, label: str, name: str) -> None:
    """Chooses from a list, as a user does."""
    opened.page.get_by_role("combobox", name=label, exact=True).select_option(label=name)


def open_diagnostics(opened: Visit) -> None:
    opened.page.get_by_role("tab", name="Diagnostics").click()
    opened.look_at("Diagnostics")
    opened.wait_for_data(bars("E1_plus"), "draws")


def computed_diagnosis(name: str, y: Any, theta: Any, **options: Any) -> Diagnosis:
    """What the default proposals' draws say at a case, from all draws."""
    problem = amci.problem(name)
    y, theta = problem.check(y, theta)
    settings = {"draws": 64, "seed": 0} | options
    return diagnosis(problem, amci.load_proposals(name), y=y, theta=theta, **settings)


def wait_for_way(opened: Visit, found: Diagnosis) -> None:
    """Waits until the estimate has been followed along all draws of this case, not of another."""
    scale = 100 / abs(found.mu.value) if found.mu.value else 1.0
    opened.wait(
        f"""([draws, value]) => {{
            const data = ({SOURCE})('{WAY}')?.data
            return data?.draws != null && Array.from(data.draws).at(-1) == draws
                && Math.abs(Array.from(data.value).at(-1) - value) <= 1e-6 * Math.abs(value)
        }}""",
        [found.draws, float(scale * (found.along.value[-1] - found.mu.value))],
    )


def open_map(opened: Visit) -> None:
    opened.page.get_by_role("tab", name="Amortization map").click()
    opened.look_at("Amortization map")


def map_image(opened: Visit, column: str = "value") -> np.ndarray:
    """What the map shows, by row."""
    shown = opened.wait(f"name => ({MAP_IMAGE})()?.data[name]", column)
    found = np.array(shown.evaluate("rows => Array.from(rows[0])"), dtype=float)
    size = round(len(found) ** 0.5)
    return np.reshape(found, (size, size))


def wait_for_map(opened: Visit) -> np.ndarray:
    """What the map shows, once all of its cases are computed."""
    opened.wait_for_text("cases in")
    return map_image(opened)


def click_on_map(opened: Visit, x: float, y: float) -> None:
    """Clicks on a point of the map, in its own coordinates."""
    click_on(opened, "amortization-map", x, y)


def click_on(opened: Visit, picture: str, x: float, y: float) -> None:
    """Clicks on a point of a picture, in its own coordinates."""
    place = opened.wait(
        f"""([name, x, y]) => {{
            const model = ({SOURCE})(name), view = model && Bokeh.index.find_one(model)
            if (!view) {{ return null }}
            view.el.scrollIntoView({{block: "center"}})
            const {{x_scale, y_scale}} = view.frame
            const box = view.canvas_view.el.getBoundingClientRect()
            return [box.left + x_scale.compute(x), box.top + y_scale.compute(y)]
        }}""",
        [picture, x, y],
    )
    opened.page.mouse.click(*place.json_value())
