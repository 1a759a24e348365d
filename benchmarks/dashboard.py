r"""How fast the dashboard answers: `python benchmarks/dashboard.py`, on an otherwise idle machine.

Starts the real server and a headless Chromium beside it, and measures in the page itself, with its
own clock: a slider is moved by the browser, and the moments are noted at which the new data are in
the page's document and at which it has painted them.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from install_browser import find_browser  # noqa: E402

MOVES = 60
RUNS = 1000
LIMITS = {
    "density data in the page, 95th percentile": 0.100,
    "densities painted, 95th percentile": 0.150,
    "first error curves after release, slowest of 5": 0.500,
    "full set of error curves, slowest of 3": 6.0,
    "densities on a first visit, slowest of 3": 3.5,
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
    const start = new Promise(resolve => addEventListener(
        "mousemove", () => resolve(performance.now()), {capture: true, once: true}
    ))
    const data = changed(source)
    window.dragged = (async () => {
        const began = await start
        const arrived = await data - began
        return [arrived, await painted() - began]
    })()
}
window.move = async (label, value, source) => {
    const data = changed(source)
    const start = performance.now()
    put(label, value)
    const arrived = await data - start
    return [arrived, await painted() - start]
}
"""
DENSITIES_SHOWN = """
() => {
    const model = window.Bokeh?.documents?.[0]?.get_model_by_name("densities-linear")
    return model && Bokeh.index.find_one(model)?.frame?.bbox?.width > 0
}
"""


@contextmanager
def server() -> Iterator[str]:
    """The address of the dashboard, served by `panel serve`."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "panel", "serve", "app/dashboard.py", "--port", str(port)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://localhost:{port}/dashboard"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(address, timeout=60).read()
                break
            except (URLError, ConnectionError):
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def first_visits(browser: Any, address: str, count: int) -> list[float]:
    """Seconds from the request until the densities stand, each with an empty cache."""
    seconds = []
    for _ in range(count):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        start = time.perf_counter()
        page.goto(address + "?runs=4", wait_until="commit")
        page.wait_for_function(DENSITIES_SHOWN)
        seconds.append(time.perf_counter() - start)
        page.get_by_text("4 runs in").wait_for()
        context.close()
    return seconds


def drag(page: Any) -> np.ndarray:
    """Seconds until new densities are in the page and painted, (MOVES, 2)."""
    slider = page.get_by_role("slider", name="Threshold θ").locator("xpath=../..")
    rail = slider.bounding_box()
    middle = rail["y"] + rail["height"] / 2
    places = rail["x"] + rail["width"] * np.linspace(0.1, 0.9, MOVES + 1)
    page.mouse.move(places[0], middle)
    page.mouse.down()
    times = []
    for place in places[1:]:
        page.evaluate("arm('densities')")
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


def measure() -> dict[str, float]:
    """All figures, in seconds."""
    from playwright.sync_api import sync_playwright

    path = find_browser()
    if path is None:
        raise SystemExit("no Chromium found; python tests/install_browser.py installs one")
    arguments = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
    with server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        first_visits(browser, address, 1)  # warms the server
        visits = first_visits(browser, address, 3)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}?runs=4")
        page.wait_for_function(DENSITIES_SHOWN)
        page.get_by_text("4 runs in").wait_for()
        page.evaluate(f"() => {{ {TOOLS} }}")
        drag(page)
        times = drag(page)
        page.goto(f"{address}?runs={RUNS}")
        page.get_by_text(f"{RUNS:,} runs in").wait_for()
        page.evaluate(f"() => {{ {TOOLS} }}")
        first = releases(page, 5)
        full = full_sets(page, 3)
        browser.close()
    data, painted = np.quantile(times, 0.95, axis=0)
    figures = [data, painted, max(first), max(full), max(visits)]
    medians = np.median(times, axis=0)
    print(f"medians of {MOVES} moves: data {medians[0]:.3f} s, painted {medians[1]:.3f} s")
    return dict(zip(LIMITS, map(float, figures), strict=True))


def main() -> int:
    """Prints the figures beside what they should be; the exit status says whether all hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = measure()
    for name, seconds in figures.items():
        verdict = "holds" if seconds <= LIMITS[name] else "too slow"
        print(f"{name:<50} {seconds:7.3f} s  of {LIMITS[name]:5.3f} s  {verdict}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return int(any(seconds > LIMITS[name] for name, seconds in figures.items()))


if __name__ == "__main__":
    sys.exit(main())
