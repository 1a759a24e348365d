"""The cards behind the dashboard's tabs, as a test opens, reads and clicks them."""

from __future__ import annotations

from visit import SOURCE, Visit

MAP_IMAGE = f"() => ({SOURCE})('amortization-map-map')"


def choose(opened: Visit, label: str, name: str) -> None:
    """Chooses from a list, as a user does."""
    opened.page.get_by_role("combobox", name=label, exact=True).select_option(label=name)


def open_diagnostics(opened: Visit) -> None:
    opened.page.get_by_role("tab", name="Diagnostics").click()
    opened.look_at("Diagnostics")
    opened.wait_for_data("diagnostics-weights-e1_plus-rectangles-weights", "draws")


def open_map(opened: Visit) -> None:
    opened.page.get_by_role("tab", name="Amortization map").click()
    opened.look_at("Amortization map")


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
