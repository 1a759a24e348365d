"""A visitor of the dashboard, as a test drives it: sees what is shown, moves its controls."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any
from urllib.parse import urlparse

import numpy as np
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from serving import PATIENCE

# Its model, once it is the only one: what has left the page is kept for a second.
SOURCE = """name => {
    const found = [...Bokeh.documents[0].all_models].filter(model => model.name == name)
    return found.length == 1 ? found[0] : null
}"""
DATA = f"""
([name, column]) => {{
    const source = ({SOURCE})(name)
    return source == null ? null : Array.from(source.data[column] ?? [])
}}
"""
SAME = f"""([name, column, old]) => {{
    const now = ({DATA})([name, column])
    return now?.length == old.length && old.every((value, i) => value == now[i])
}}"""
THUMB = 24  # pixels, of a slider
RUNS = 20  # of the error curves, where a test says no other number
POLLING = 50  # milliseconds; at every frame it would take the page's own time
STATUS = """name => [...Bokeh.documents[0].all_models].map(model => model.text)
    .find(text => text?.includes?.(`data-card=&quot;${name}&quot;`))"""
TEXTS = """() => [...Bokeh.documents[0].all_models]
    .map(model => model.text).filter(text => text?.includes?.("data-card"))"""
SHIFTED = """since => [...shifts, ...shifting.takeRecords()]
    .filter(each => since == null ? !each.hadRecentInput : each.startTime > since)
    .reduce((sum, each) => sum + each.value, 0)"""
FRAME = "() => new Promise(requestAnimationFrame)"
# Keeps what the page does for the tests that look for it.
KEEP = """
    window.shifts = []
    window.shifting = new PerformanceObserver(list => shifts.push(...list.getEntries()))
    shifting.observe({type: "layout-shift", buffered: true})
    const Socket = WebSocket
    window.sockets = []
    window.WebSocket = class extends Socket {
        constructor(...given) { super(...given); sockets.push(this) }
    }
"""
HAS_WEIGHTS = """() => [...Bokeh.documents[0].all_models].some(
    model => model.data?.key && model.data.weights)"""
# Where the handle and the threshold are whenever the page paints.
WATCH = """handle => {
    const seen = window.seen = []
    const bound = Bokeh.documents[0].get_model_by_name("densities-threshold")
    const look = () => {
        seen.push([Number(handle.value), bound.data.x[0]])
        requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
}"""
SIDEWAYS = """() => {
    const mains = [document, ...Bokeh.index.roots.map(root => root.shadow_el)]
        .map(root => root?.querySelector(".main-content"))
    const main = mains.find(each => each) ?? document.body
    return [main.scrollWidth - main.clientWidth, document.body.scrollWidth - innerWidth]
}"""


class Visit:
    """One page in a browser context of its own.

    Arguments:
        context: The browser's context.
        address: What is opened.
        first: The source that is there when the page is.
    """

    def __init__(self, context: Any, address: str, *, first: str = "errors-amci") -> None:
        self.context, self._first = context, first
        context.set_default_timeout(1000 * PATIENCE)
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self.page = context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        context.on("request", self._look)
        self.page.add_init_script(KEEP)
        self.go(address)

    def go(self, address: str) -> None:
        """Opens an address, and waits until the page has its pictures."""
        self.page.goto(address)
        self.wait_until_open()

    def wait_until_open(self) -> None:
        """Waits until the page has its pictures."""
        self.wait(
            f"""() => window.Bokeh?.documents?.length && ({SOURCE})('{self._first}')
                && ({DATA})(['densities', 'x'])?.length !== 0"""
        )

    def close(self) -> None:
        self.context.close()

    def cut(self) -> None:
        """Cuts the connection to the server."""
        self.page.evaluate("() => sockets.forEach(each => each.close())")

    def wait(self, condition: str, argument: Any = None) -> Any:
        """Waits until a JavaScript function returns something true."""
        return self.page.wait_for_function(condition, arg=argument, polling=POLLING)

    def data(self, source: str, column: str) -> np.ndarray:
        """A column of a Bokeh data source, as the page has it."""
        found = self.wait(f"argument => ({DATA})(argument)", [source, column])
        return np.array(found.json_value(), dtype=float)

    def wait_for_data(self, source: str, column: str) -> np.ndarray:
        """The column, once there is something in it."""
        self.wait(f"argument => ({DATA})(argument)?.length", [source, column])
        return self.data(source, column)

    def wait_for_other(self, source: str, column: str, old: np.ndarray) -> np.ndarray:
        """The column, once it is no longer the old one."""
        self.wait(f"argument => !({SAME})(argument)", [source, column, old.tolist()])
        return self.data(source, column)

    def wait_for_same_data(self, source: str, column: str, old: np.ndarray) -> None:
        """Waits until the column is that one again."""
        self.wait(SAME, [source, column, old.tolist()])

    def slider(self, label: str) -> Any:
        return self.page.get_by_role("slider", name=label)

    def value(self, label: str) -> float:
        """Where a slider stands."""
        return float(self.slider(label).input_value())

    def wait_for_value(self, label: str, value: float, *, within: float = 1e-9) -> None:
        """Waits until a slider stands there."""
        deadline = time.monotonic() + PATIENCE
        while abs(self.value(label) - value) > within:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{label} stands at {self.value(label)}, not at {value}")
            self.page.wait_for_timeout(20)

    def move(self, label: str, value: float) -> None:
        """Moves a slider there, and lets go."""
        self.slider(label).fill(f"{value:g}")

    def type(self, label: str, text: str) -> None:
        """Types into a field, and confirms."""
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")

    def unfold(self, title: str) -> None:
        """Opens a folded part of the page."""
        fold = self.page.get_by_role("button", name=title, exact=True).and_(
            self.page.locator("[aria-expanded]")
        )
        if fold.get_attribute("aria-expanded") == "false":
            fold.click()

    def press(self, name: str) -> None:
        # A picture has tools of its own.
        buttons = self.page.get_by_role("button", name=name, exact=True)
        buttons.and_(self.page.locator(":not(.bk-ClickButton)")).click()

    def press_in(self, part: str, name: str) -> None:
        """Presses a button of a part of the page."""
        self.button_of(part, name).click()

    def button_of(self, part: str, name: str) -> Any:
        """The first button of a part of the page whose name begins so."""
        inside = self.page.locator(f".part-{part}")
        return inside.get_by_role("button", name=re.compile(rf"^{name}\b")).first

    def look_at(self, card: str) -> None:
        """Scrolls to the card with that title: what is not on the screen is not computed."""
        self.page.get_by_role("heading", name=card, exact=True).scroll_into_view_if_needed()

    def wait_for_text(self, text: str) -> None:
        """Waits until a text can be seen."""
        self.page.get_by_text(text).first.wait_for(state="visible")

    def status(self, card: str) -> str:
        """What a card says of how far it is."""
        found: str = self.page.evaluate(f"name => ({STATUS})(name) ?? ''", card)
        return re.sub("<[^>]*>", "", unescape(found))

    def wait_for_end(self, count: int, card: str = "errors") -> None:
        """Waits until a card has everything: the error curves are over that many runs."""
        try:
            self.wait(
                f"""([name, count]) => {{
                    const said = ({STATUS})(name) ?? ""
                    return said.includes(`&gt;${{count}} `) && said.includes(" in ")
                }}""",
                [card, f"{count:,}"],
            )
        except PlaywrightTimeoutError as error:
            raise AssertionError(f"the page was told {self.page.evaluate(TEXTS)}") from error

    def now(self) -> float:
        """The page's own time."""
        found: float = self.page.evaluate("() => performance.now()")
        return found

    def shifted(self, since: float | None = None) -> float:
        """How much has jumped: the layout shift, of which up to 0.1 counts as good.

        See https://web.dev/articles/cls.

        Arguments:
            since: Counts from then on, also what answers the user; by default what does not.
        """
        self.wait_for_frames(2)
        found: float = self.page.evaluate(SHIFTED, since)
        return found

    def wait_for_frames(self, count: int = 1) -> None:
        """Waits until the page has painted so many times."""
        for _ in range(count):
            self.page.evaluate(FRAME)

    def reach(self, label: str) -> None:
        """Reaches a handle; the page asks for the proposals' weights then."""
        self.slider(label).focus()
        self.wait(HAS_WEIGHTS)

    def watch_threshold(self, label: str) -> None:
        """From here on notes where that handle and the threshold are in every frame."""
        self.slider(label).evaluate(WATCH)

    def seen(self) -> np.ndarray:
        """What was noted: a line a frame."""
        return np.array(self.page.evaluate("() => seen"))

    @contextmanager
    def dragged(self, slider: Any, by: float) -> Iterator[None]:
        """Drags a slider by a share of its rail; inside of it the mouse holds it still."""
        share, mouse = "el => (el.value - el.min) / (el.max - el.min)", self.page.mouse
        while True:
            track = slider.bounding_box()
            width = track["width"] - THUMB
            x = track["x"] + THUMB / 2 + slider.evaluate(share) * width
            y = track["y"] + track["height"] / 2
            mouse.move(x, y)
            mouse.down()
            # What comes meanwhile can move it from below the mouse.
            if slider.bounding_box() == track:
                break
            mouse.up()
        for i in range(1, 31):
            mouse.move(x + i / 30 * by * width, y)
            self.wait_for_frames()
        yield
        mouse.up()

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def _look(self, request: Any) -> None:
        address = urlparse(request.url)
        if address.scheme not in ("data", "blob") and address.hostname != "localhost":
            self.strangers.append(request.url)
