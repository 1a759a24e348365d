r"""How fast the dashboard answers: `python benchmarks/dashboard.py`, on an otherwise idle machine.

Starts the real server and a headless Chromium beside it, and measures in the page itself, with its
own clock: a slider is moved by the browser, and the moments are noted at which the new data are in
the page's document and at which it has painted them.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from serving import headless_browser, served_dashboard  # noqa: E402

import amci_core as amci  # noqa: E402

MOVES = 60
RUNS = 1000
# The picture of each problem's densities.
PICTURES = {
    "tail-1d": "densities-linear",
    "tail-5d": "marginal",
    "cancer": "plane-target",
    "gain-loss": "densities-linear",
    "peak": "plane-target",
}
# The slider that is dragged, and the data that follow it.
DRAGGED = {
    "tail-1d": ("Threshold θ", "densities"),
    "tail-5d": ("Threshold θ, all coordinates", "marginal-data"),
    "cancer": ("Size c₅′ after 5 days", "plane-target-data"),
    "gain-loss": ("Price θ", "densities"),
    "peak": ("Sharpness s", "plane-target-data"),
}
LIMITS = {
    "density data in the page, 95th percentile, of the slowest problem": 0.100,
    "densities painted, 95th percentile, of the slowest problem": 0.150,
    "first error curves after release, slowest of 5": 0.500,
    "full set of error curves, slowest of 3": 6.0,
    "densities on a first visit, slowest of 3": 3.5,
    "densities of another problem, slowest of 10": 1.0,
}

# Moves a slider as a hand does: the thumb's input takes a value and tells React of it.
TOOLS = """
window.named = name => Bokeh.documents[0].get_model_by_name(name)
window.input = label => {
    const search = node => {
        const found = node.querySelector?.(`input[aria-label="${label}"]`)
        if (found) { return found }
        for (const child of node.querySelectorAll("*")) {
            const inside = child.shadowRoot && search(child.shadowRoot)
            if (inside) { return inside }
        }
    }
    return search(document)
}
window.put = (label, value) => {
    const slider = input(label)
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set
    set.call(slider, value)
    slider.dispatchEvent(new Event("change", {bubbles: true}))
}
window.changed = source => new Promise((resolve, reject) => {
    setTimeout(() => reject(`nothing new in ${source} within 20 s`), 20000)
    const model = named(source)
    const {change} = model.properties.data
    const note = () => {
        change.disconnect(note)
        resolve(performance.now())
    }
    change.connect(note)
})
window.painted = () => new Promise(resolve =>
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))))
window.arm = source => {
    const start = new Promise(resolve => {
        const note = () => resolve(performance.now())
        for (const name of ["mousemove", "pointermove"]) {
            addEventListener(name, note, {capture: true, once: true})
        }
    })
    const data = changed(source)
    window.dragged = (async () => {
        const began = await start
        const arrived = await data - began
        return [arrived, await painted() - began]
    })()
}
window.turned = (text, picture) => new Promise((resolve, reject) => {
    // Pictures of two problems can have the same name: those that are there now do not count.
    const there = () => [...Bokeh.documents[0]._all_models.values()]
        .filter(model => model.name === picture)
        .map(model => Bokeh.index.find_one(model))
        .filter(view => view?.frame?.bbox?.width > 0 && view.el.getBoundingClientRect().width > 0)
    const before = there()
    const told = node => node.nodeType === Node.TEXT_NODE
        ? node.data.includes(text)
        : [...node.childNodes, ...(node.shadowRoot?.childNodes ?? [])].some(told)
    addEventListener("click", () => {
        const start = performance.now()
        setTimeout(() => reject(`no ${picture} within 20 s`), 20000)
        const look = async () => {
            if (there().some(view => !before.includes(view)) && told(document.body)) {
                await painted()
                resolve(performance.now() - start)
            } else {
                requestAnimationFrame(look)
            }
        }
        look()
    }, {capture: true, once: true})
})
window.move = async (label, value, source) => {
    const data = changed(source)
    const start = performance.now()
    put(label, value)
    const arrived = await data - start
    return [arrived, await painted() - start]
}
"""
STANDS = """
name => [...(window.Bokeh?.documents?.[0]?._all_models?.values() ?? [])].some(model => {
    const view = model.name === name && Bokeh.index.find_one(model)
    return view && view.frame?.bbox?.width > 0 && view.el.getBoundingClientRect().width > 0
})
"""


def _stands(page: Any) -> None:
    """Waits until the densities stand in the page."""
    page.wait_for_function(STANDS, arg=PICTURES["tail-1d"])


def first_visits(browser: Any, address: str, count: int) -> list[float]:
    """Seconds from the request until the densities stand, each with an empty cache."""
    seconds = []
    for _ in range(count):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        start = time.perf_counter()
        page.goto(address + "?runs=4", wait_until="commit")
        _stands(page)
        seconds.append(time.perf_counter() - start)
        page.get_by_text("4 runs in").wait_for()
        context.close()
    return seconds


def drag(page: Any, label: str, source: str) -> np.ndarray:
    """Seconds until new densities are in the page and painted, (MOVES, 2)."""
    slider = page.get_by_role("slider", name=label).locator("xpath=../..")
    rail = slider.bounding_box()
    middle = rail["y"] + rail["height"] / 2
    places = rail["x"] + rail["width"] * np.linspace(0.1, 0.9, MOVES + 1)
    page.mouse.move(places[0], middle)
    page.mouse.down()
    times = []
    for place in places[1:]:
        page.evaluate("source => arm(source)", source)
        page.mouse.move(place, middle)
        times.append(page.evaluate("() => dragged"))
        page.wait_for_timeout(30)
    page.mouse.up()
    return np.array(times) / 1000


def releases(page: Any, count: int) -> list[float]:
    """Seconds from letting go of a slider until error curves for the new point are there."""
    seconds = []
    for k in range(count):
        arguments = ["Observation y", f"{1.3 + 0.3 * k:g}", "errors-amci"]
        seconds.append(page.evaluate("([l, v, s]) => move(l, v, s)", arguments)[0] / 1000)
        page.wait_for_timeout(700)
    return seconds


def full_sets(page: Any, count: int) -> list[float]:
    """Seconds from letting go until the curves are over all runs."""
    seconds = []
    for k in range(count):
        page.evaluate("([l, v]) => put(l, v)", ["Observation y", f"{0.5 + 0.5 * k:g}"])
        start = time.perf_counter()
        page.get_by_text("starting").or_(page.get_by_text("left")).first.wait_for()
        page.get_by_text(f"{RUNS:,} runs in").wait_for()
        seconds.append(time.perf_counter() - start)
    return seconds


def switches(page: Any) -> dict[str, list[float]]:
    """Seconds from choosing each problem, twice over, until its densities stand."""
    seconds: dict[str, list[float]] = {name: [] for name in PICTURES}
    for name in [*list(PICTURES)[1:], "tail-1d"] * 2:
        problem = amci.problem(name)
        page.get_by_role("combobox", name="Problem").click()
        chosen = page.get_by_role("menuitem", name=problem.title, exact=True)
        chosen.wait_for()
        text = problem.description.splitlines()[0][:40]
        page.evaluate("([t, p]) => { window.stood = turned(t, p) }", [text, PICTURES[name]])
        chosen.click()
        seconds[name].append(page.evaluate("() => stood") / 1000)
        page.get_by_text("4 runs in").wait_for()
        page.wait_for_timeout(500)
    return seconds


def measure(log: Path) -> dict[str, float]:
    """All figures, in seconds; the server writes to `log`."""
    with served_dashboard(log) as address, headless_browser() as browser:
        first_visits(browser, address, 1)  # warms the server
        visits = first_visits(browser, address, 3)
        print(f"first visits: {_list(visits)}", flush=True)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        slow = []
        for name, (label, source) in DRAGGED.items():
            page.goto(f"{address}?runs=4&problem={name}")
            page.get_by_text("4 runs in").wait_for()
            page.evaluate(f"() => {{ {TOOLS} }}")
            drag(page, label, source)
            times = drag(page, label, source)
            slow.append(np.quantile(times, 0.95, axis=0))
            shown = _list([*np.median(times, axis=0), *slow[-1]])
            print(
                f"{MOVES} moves on {name}, medians, then 95 %, of data, paint: {shown}", flush=True
            )
        page.goto(f"{address}?runs={RUNS}")
        page.get_by_text(f"{RUNS:,} runs in").wait_for()
        page.evaluate(f"() => {{ {TOOLS} }}")
        first = releases(page, 5)
        print(f"first curves: {_list(first)}", flush=True)
        full = full_sets(page, 3)
        print(f"full sets: {_list(full)}", flush=True)
        page.goto(f"{address}?runs=4")
        page.get_by_text("4 runs in").wait_for()
        page.evaluate(f"() => {{ {TOOLS} }}")
        turned = switches(page)
        for name, seconds in turned.items():
            print(f"turning to {name}: {_list(seconds)}", flush=True)
    data, painted = np.max(slow, axis=0)
    slowest = max(each for seconds in turned.values() for each in seconds)
    figures = [data, painted, max(first), max(full), max(visits), slowest]
    return dict(zip(LIMITS, map(float, figures), strict=True))


def _list(seconds: Any) -> str:
    return ", ".join(f"{each:.3f}" for each in seconds) + " s"


def main() -> int:
    """Prints the figures beside what they should be; the exit status says whether all hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder) / "server.log")
    for name, seconds in figures.items():
        verdict = "holds" if seconds <= LIMITS[name] else "too slow"
        print(f"{name:<50} {seconds:7.3f} s  of {LIMITS[name]:5.3f} s  {verdict}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return int(any(seconds > LIMITS[name] for name, seconds in figures.items()))


if __name__ == "__main__":
    sys.exit(main())
