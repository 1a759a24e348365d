r"""How fast the dashboard answers: `python benchmarks/dashboard.py`, on an otherwise idle machine.

Starts the real server and a headless Chromium beside it, and measures in the page itself, with its
own clock: a slider is moved by the browser, and the moments are noted at which the new data are in
the page's document and at which it has painted them. Where the page computes them by itself, the
moment is noted as well at which the server has confirmed a move.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from amci_explorer.compute.computations import computations_of  # noqa: E402
from amci_explorer.numbers.pictures import densities  # noqa: E402
from amci_explorer.numbers.weights import LIVE  # noqa: E402
from amci_explorer.state.case import Case  # noqa: E402
from serving import headless_browser, served_dashboard  # noqa: E402

import amci_core as amci  # noqa: E402

MOVES, VISITS, ROUNDS = 60, 3, 2
# For each problem: a slider, the data that follow it, the picture they are in, and the most
# milliseconds that a move may take until they are there, and painted.
PROBLEMS = {
    "tail-1d": ("Threshold θ", "densities", "densities-q1", 60, 100),
    "gain-loss": ("Price θ", "densities", "densities-q1", 60, 100),
    "peak": ("Sharpness s", "plane-target-data", "plane-target", 60, 100),
    "tail-5d": ("Threshold θ, all coordinates", "marginal", "marginal-q1", 90, 140),
    "cancer": ("Size c₅′ after 5 days", "plane-target-data", "plane-target", 90, 140),
}
# Frames that are looked at while draws are played.
FRAMES = 120
# Runs of a full set, and the seconds that it may take.
FULL = {"tail-1d": (1000, 4.0), "tail-5d": (200, 15.0), "cancer": (200, 15.0)}
RELEASED = "Mismatch, nats"
USABLE = """name => [...(window.Bokeh?.documents?.[0]?.all_models ?? [])].some(model => {
    const view = model.type === "Figure" && model.name === name && Bokeh.index.find_one(model)
    return view && view.frame?.bbox?.width > 0 && view.el.getBoundingClientRect().width > 0
})"""
TOOLS = """
window.changed = source => new Promise((resolve, reject) => {
    setTimeout(() => reject(`nothing new in ${source} within 60 s`), 60000)
    const {change} = Bokeh.documents[0].get_model_by_name(source).properties.data
    const note = () => { change.disconnect(note); resolve(performance.now()) }
    change.connect(note)
})
window.painted = () => new Promise(resolve =>
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))))
window.arm = (event, source) => {
    const start = new Promise(resolve => addEventListener(
        event, () => resolve(performance.now()), {capture: true, once: true}))
    const data = changed(source)
    const own = [...Bokeh.documents[0].all_models].find(model => model.data?.handles)?.data
    const confirmed = own?.weights ? new Promise(resolve => {
        const {change} = own.properties.level
        const note = () => { change.disconnect(note); resolve(performance.now()) }
        change.connect(note)
    }) : data
    window.answered = (async () => {
        const began = await start, arrived = await data - began
        return [arrived, await painted() - began, await confirmed - began]
    })()
}
window.frames = count => new Promise(resolve => {
    const times = []
    const look = now => {
        times.push(now)
        if (times.length > count) { resolve(times.slice(1).map((t, i) => t - times[i])) }
        else { requestAnimationFrame(look) }
    }
    requestAnimationFrame(look)
})
window.usable = USABLE
window.turn = (text, picture) => {
    const there = () => usable(picture)
    const told = node => node.nodeType === Node.TEXT_NODE ? node.data.includes(text)
        : [...node.childNodes, ...(node.shadowRoot?.childNodes ?? [])].some(told)
    window.turned = new Promise(resolve => addEventListener("input", () => {
        const start = performance.now()
        const look = async () => {
            if (told(document.body) && there()) { resolve(await painted() - start) }
            else { requestAnimationFrame(look) }
        }
        look()
    }, {capture: true, once: true}))
}
""".replace("USABLE", USABLE)
MODELS = "() => Bokeh.documents[0].all_models.size"


def tell(what: str, measured: float, asked: float | None, unit: str) -> None:
    """Prints one line of the table."""
    wanted = "" if asked is None else f"{asked:9.4g}"
    verdict = "" if asked is None else "holds" if measured <= asked else "FALLS SHORT"
    print(f"{what:<58} {measured:9.4g} | {wanted:>9} {unit:<3} {verdict}", flush=True)


def done(page: Any, runs: int) -> Any:
    """Where a page says that its error curves are over all runs."""
    return page.locator('p[data-card="errors"]').filter(has_text=f"{runs:,} runs in")


def opened(browser: Any, address: str, *, runs: int) -> Any:
    """A page of a new visitor on which the first curves are complete."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(address)
    done(page, runs).wait_for(timeout=120_000)
    page.evaluate(f"() => {{ {TOOLS} }}")
    return page


def first_visits(browser: Any, address: str) -> None:
    """Seconds from a request with an empty cache until the densities stand, and what was sent."""
    seconds, sizes, counts = [], [], []
    for _ in range(VISITS + 1):
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        received: list[int] = []
        answers: list[str] = []
        page.on("response", lambda answer, to=answers: to.append(answer.url))
        page.on(
            "websocket",
            lambda socket, to=received: socket.on(
                "framereceived", lambda frame: to.append(len(frame))
            ),
        )
        page.on(
            "response",
            lambda answer, to=received: to.append(int(answer.headers.get("content-length", 0))),
        )
        start = time.perf_counter()
        page.goto(address + "?runs=4", wait_until="commit")
        page.wait_for_function(USABLE, arg=PROBLEMS["tail-1d"][2])
        seconds.append(time.perf_counter() - start)
        sizes.append(sum(received))
        counts.append(sum(each.startswith("http") for each in answers))
        done(page, 4).wait_for()
        page.context.close()
    # The first one of all warms the server.
    tell("first visit until the densities stand, slowest", max(seconds[1:]), 2.5, "s")
    # Of its websocket before compression, which takes most of it.
    tell("sent until then", np.median(sizes) / 1e6, None, "MB")
    tell("responses until then", np.median(counts), None, "")


def drag(page: Any, name: str) -> None:
    """Drags a problem's slider, and prints when its moves are answered."""
    label, source, _, most_data, most_paint = PROBLEMS[name]
    rail = page.get_by_role("slider", name=label).bounding_box()
    middle = rail["y"] + rail["height"] / 2
    places = rail["x"] + rail["width"] * np.linspace(0.1, 0.9, MOVES + 1)
    page.mouse.move(places[0], middle)
    page.mouse.down()
    times = []
    for place in places[1:]:
        page.evaluate("source => arm('mousemove', source)", source)
        page.mouse.move(place, middle)
        times.append(page.evaluate("() => answered"))
        page.wait_for_timeout(30)
    page.mouse.up()
    told = ("data", 0, most_data), ("painted", 1, most_paint), ("the server's answer", 2, None)
    for what, column, most in told if name in LIVE else told[:2]:
        middle_of, high = np.quantile(np.array(times)[MOVES // 6 :, column], [0.5, 0.95])
        tell(f"{name}: a move until {what}, median", middle_of, None, "ms")
        tell(f"{name}: a move until {what}, 95 %", high, most, "ms")


def computing(page: Any, name: str, runs: int) -> None:
    """Prints how long the first curves, and all of them, take after a slider is let go."""
    slider = page.get_by_role("slider", name=RELEASED)
    first, full = [], []
    for _ in range(VISITS):
        slider.focus()
        page.evaluate("arm('keyup', 'errors-amci')")
        start = time.perf_counter()
        page.keyboard.press("ArrowRight")
        first.append(page.evaluate("() => answered")[0])
        done(page, runs).wait_for(state="detached")
        done(page, runs).wait_for(timeout=120_000)
        full.append(time.perf_counter() - start)
    tell(f"{name}: first curves after release, slowest", max(first), 300, "ms")
    tell(f"{name}: full set of {runs:,} runs, slowest", max(full), FULL[name][1], "s")


def play(page: Any) -> None:
    """Prints how long frames take while 500 draws are played."""
    page.locator(".draws-player").get_by_role("button", name="Play", exact=True).click()
    times = page.evaluate("count => frames(count)", FRAMES)
    tell("a frame while draws are played, median", np.median(times), 1000 / 60 + 0.1, "ms")
    tell("a frame while draws are played, 95 %", np.quantile(times, 0.95), None, "ms")


def turns(page: Any) -> None:
    """Prints how long another problem takes, and how many models the page then has."""
    tell("models at opening", page.evaluate(MODELS), 400, "")
    seconds: dict[str, list[float]] = {name: [] for name in PROBLEMS}
    counts = []
    for _ in range(ROUNDS):
        for name in [*list(PROBLEMS)[1:], "tail-1d"]:
            problem = amci.problem(name)
            problems = page.get_by_role("combobox", name="Problem")
            label, _, picture, *_ = PROBLEMS[name]
            page.evaluate("([t, p]) => turn(t, p)", [label, picture])
            problems.select_option(label=problem.title)
            seconds[name].append(page.evaluate("() => turned") / 1000)
            done(page, 4).wait_for()
            page.wait_for_timeout(2500)
        counts.append(page.evaluate(MODELS))
    for name, (first, *later) in seconds.items():
        tell(f"{name}: chosen for the first time until its densities stand", first, 0.6, "s")
        tell(f"{name}: chosen again, slowest", max(later), 0.6, "s")
    tell("models after two rounds over all problems", counts[-1], counts[0], "")


def of_densities(name: str) -> float:
    """Seconds of processor time that one move of theta, or of y, takes to compute."""
    state = Case(name)
    proposals = computations_of(name).proposals(state.settings)
    variable = "y" if state.problem.theta is None else "theta"
    middle = getattr(state, variable)
    start = time.process_time()
    for i in range(20):
        state.move(**{variable: [each + 0.001 * (i + 1) for each in middle]})
        densities(state.problem, proposals, *state.settings.pair)
    return (time.process_time() - start) / 20


def main() -> int:
    """Measures and prints; `--only` a few parts."""
    parts = ("visits", "moves", "play", "runs", "problems", "server")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=parts, default=parts)
    chosen = parser.parse_args().only
    print(f"{'':<58} {'measured':>9} | {'asked':>9}")
    with tempfile.TemporaryDirectory() as folder, headless_browser() as browser:
        with served_dashboard(Path(folder) / "server.log") as address:
            if "visits" in chosen:
                first_visits(browser, address)
            if "problems" in chosen:
                turns(opened(browser, f"{address}?runs=4", runs=4))
            for name in PROBLEMS if "moves" in chosen else ():
                page = opened(browser, f"{address}?runs=4&problem={name}", runs=4)
                drag(page, name)
                page.context.close()
            if "play" in chosen:
                play(opened(browser, f"{address}?runs=4", runs=4))
            for name, (runs, _) in FULL.items() if "runs" in chosen else ():
                page = opened(browser, f"{address}?runs={runs}&problem={name}", runs=runs)
                computing(page, name, runs)
                page.context.close()
    for name in PROBLEMS if "server" in chosen else ():
        of_densities(name)
        tell(f"{name}: densities of a move, server", 1000 * of_densities(name), 20, "ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
