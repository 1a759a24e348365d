r"""How long one waits: `python benchmarks/speed.py --before REV`, on an otherwise idle machine.

Prints what computing takes of one core, and what a browser waits for before the real server, of
this tree and of an earlier commit, each measured in processes of its own.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("curves", "estimates", "visits", "release", "drag")
PROBLEMS = ("tail-1d", "gain-loss", "peak", "cancer", "tail-5d")
CURVES = ("tail-1d", "cancer", "tail-5d")
# Handles that are moved and released.
HANDLES = {
    "tail-1d": "Threshold θ",
    "gain-loss": "Price θ",
    "peak": "Sharpness s",
    "tail-5d": "Threshold θ, all coordinates",
    "cancer": "Size c₅′ after 5 days",
}
# Releases of each problem, moves of a drag, and the milliseconds between these.
RELEASES, MOVES, PAUSE = 4, 60, 120
PATIENCE = 240_000
TOOLS = """
window.painted = () => new Promise(resolve =>
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))))
window.inside = function* (node) {
    yield node
    for (const child of [...node.children ?? [], ...node.shadowRoot?.children ?? []]) {
        yield* inside(child)
    }
}
window.headline = () => [...inside(document.body)].find(
    node => node.classList?.contains("headline"))?.textContent ?? ""
window.stands = () => /errs by|is exact/.test(headline()) && !headline().includes("…")
window.all_told = () => stands() && !headline().includes("not yet")
window.until = test => new Promise(resolve => {
    const look = () => test() ? resolve(performance.now()) : requestAnimationFrame(look)
    look()
})
window.released = () => {
    const pressed = new Promise(resolve => addEventListener(
        "keyup", () => resolve(performance.now()), {capture: true, once: true}))
    window.answer = (async () => {
        const began = await pressed
        await until(() => !stands())
        return [await until(stands) - began, await until(all_told) - began]
    })()
}
window.rough = () => {
    const amci = Bokeh.documents[0].get_model_by_name("errors-amci")
    const moved = new Promise(resolve => addEventListener(
        "mousemove", () => resolve(performance.now()), {capture: true, once: true}))
    const drawn = new Promise(resolve => {
        const {change} = amci.properties.data
        const note = () => {
            const errors = [...amci.data.error ?? []]
            // Only the first curves of a case end at 512 draws.
            if (errors.length == 0 || !Number.isNaN(errors.at(-1) ?? NaN)) { return }
            change.disconnect(note)
            resolve()
        }
        change.connect(note)
    })
    window.answer = (async () => {
        const began = await moved
        await Promise.race([drawn, new Promise(resolve => setTimeout(resolve, 5000))])
        return await painted() - began
    })()
}
"""
HAS_CURVES = """() => {
    const data = window.Bokeh?.documents?.[0]?.get_model_by_name("errors-amci")?.data
    return [...data?.error ?? []].some(Number.isFinite)
}"""


def curves() -> dict[str, float]:
    """Seconds of one core for the curves that the page shows of a problem."""
    from amci_explorer.compute.computations import computations_of
    from amci_explorer.state.case import Case

    found = {}
    for name in CURVES:
        state = Case(name)
        start = time.process_time()
        computations_of(name).error_curves(state.settings).run()
        found[f"curves of {name}, s"] = time.process_time() - start
    return found


def estimates() -> dict[str, float]:
    """One estimate with its verdict, draws a second, and an evaluation."""
    import torch
    from measured import best_of

    import amci_core as amci
    from amci_core.estimation.sampling import Sampler

    torch.set_num_threads(1)
    found = {}
    for name in ("tail-1d", "tail-5d", "cancer"):
        problem, proposals = amci.problem(name), amci.load_proposals(name)
        y, theta = problem.cases(1, seed=0)
        at, seeds = (y[0], None if theta is None else theta[0]), count()
        loaded = 1000 * best_of(
            lambda of=(problem, proposals, *at), seeds=seeds: (
                amci.estimate(*of, seed=next(seeds)).verdict
            ),
            50,
        )
        named = 1000 * best_of(
            lambda of=(name, None, *at), seeds=seeds: amci.estimate(*of, seed=next(seeds)).verdict,
            50,
        )
        found[f"one estimate, {name}, loaded, ms"] = loaded
        found[f"the same by name, {name}, times"] = named / loaded
        sampler = Sampler(problem, proposals, *problem.check(*at))
        counts = np.zeros(3, dtype=np.int64)
        counts[list(proposals.present)] = 10_000 // len(proposals.present)
        generator = torch.Generator().manual_seed(0)
        took = best_of(lambda of=(sampler, counts, generator): of[0].draw(*of[1:]), 7)
        found[f"draws a second, {name}"] = counts.sum() / took
    start = time.process_time()
    amci.evaluate("tail-1d", cases=100, runs=100, draws=[10, 100, 1000])
    found["evaluate, s"] = time.process_time() - start
    return found


def processor_seconds(process: int) -> float:
    """Of a process so far."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def served_process(address: str) -> int:
    """The number of the process that serves a port of this machine."""
    port = address.rpartition(":")[2].partition("/")[0]
    for folder in Path("/proc").glob("[0-9]*"):
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        if port in words and any(word.endswith("serve") for word in words):
            return int(folder.name)
    raise RuntimeError(f"no server on port {port}")


def opened(browser: Any, address: str) -> Any:
    """A page of a new visitor whose headline has its numbers, and what it was sent until then."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    sent: list[int] = []
    page.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda frame: sent.append(len(frame))),
    )
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_function(HAS_CURVES)
    first = time.perf_counter() - start
    page.evaluate(f"() => {{ {TOOLS} }}")
    page.wait_for_function("() => stands()")
    return page, sent, first


def settle(page: Any) -> None:
    """Waits until the curves are whole."""
    page.locator('p[data-card="errors"]').filter(has_text="runs in").wait_for(timeout=PATIENCE)


def visits(browser: Any, address: str) -> dict[str, float]:
    """A first visit, a later one, a change of problem, and what a visit costs the server."""
    found: dict[str, float] = {}
    page, sent, found["first curve of a first visit, s"] = opened(browser, address)
    settle(page)
    found["frames of a first visit"] = len(sent)
    found["MB of a first visit"] = sum(sent) / 1e6
    found["models of the opening page"] = page.evaluate("() => Bokeh.documents[0].all_models.size")
    sent.clear()
    page.get_by_role("combobox", name="Problem").select_option(label="Gain and loss")
    page.wait_for_function("() => !stands()")
    page.wait_for_function("() => stands()")
    settle(page)
    found["frames of a change of problem"] = len(sent)
    found["MB of a change of problem"] = sum(sent) / 1e6
    page.context.close()
    page, _, found["first curve of a later visit, s"] = opened(browser, address)
    page.context.close()
    server = served_process(address)
    time.sleep(3)
    before = processor_seconds(server)
    for _ in range(5):
        urllib.request.urlopen(address).read()
    found["processor time of a bare GET, s"] = (processor_seconds(server) - before) / 5
    return found


def release(browser: Any, address: str) -> dict[str, float]:
    """Seconds from a key on a handle until the headline has its numbers, in the middle."""
    found = {}
    for name in PROBLEMS:
        page, _, _ = opened(browser, f"{address}?problem={name}")
        settle(page)
        slider = page.get_by_role("slider", name=HANDLES[name]).first
        seconds = []
        for _ in range(RELEASES):
            slider.focus()
            page.evaluate("released()")
            page.keyboard.press("ArrowRight")
            seconds.append([each / 1000 for each in page.evaluate("() => answer")])
            settle(page)
        stand, last = np.median(seconds, axis=0).tolist()
        found[f"release until the headline has numbers, {name}, s"] = stand
        found[f"release until it has all of them, {name}, s"] = last
        page.context.close()
    return found


def drag(browser: Any, address: str) -> dict[str, float]:
    """Milliseconds from a move of the handle until its curves are painted, 95 %."""
    found = {}
    for name in PROBLEMS[:3]:
        page, _, _ = opened(browser, f"{address}?problem={name}")
        settle(page)
        rail = page.get_by_role("slider", name=HANDLES[name]).first.bounding_box()
        middle = rail["y"] + rail["height"] / 2
        places = rail["x"] + rail["width"] * np.linspace(0.2, 0.8, MOVES + 1)
        page.mouse.move(places[0], middle)
        page.mouse.down()
        times = []
        for place in places[1:]:
            page.evaluate("rough()")
            page.mouse.move(place, middle)
            times.append(page.evaluate("() => answer"))
            page.wait_for_timeout(PAUSE)
        page.mouse.up()
        found[f"curves behind the handle, {name}, ms"] = float(np.quantile(times, 0.95))
        page.context.close()
    return found


def measure(tree: Path, parts: list[str]) -> dict[str, float]:
    """The figures of the tree that is imported."""
    import amci_core as amci

    if not Path(amci.__file__).is_relative_to(tree):
        raise SystemExit(f"expected the package in {tree}, got {amci.__file__}")
    found: dict[str, float] = {}
    for part in parts:
        if part in ("curves", "estimates"):
            found |= globals()[part]()
            continue
        from serving import headless_browser, served_dashboard

        with (
            tempfile.TemporaryDirectory() as folder,
            headless_browser() as browser,
            served_dashboard(Path(folder) / "server.log") as address,
        ):
            found |= globals()[part](browser, address)
    return found


def measured(tree: Path, parts: list[str]) -> dict[str, float]:
    """The figures of a tree, from a process of its own."""
    path = os.pathsep.join(map(str, (tree, tree / "app", tree / "tests")))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--tree", str(tree), "--only", *parts]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(answer.stdout))


def extracted(revision: str, folder: Path) -> Path:
    """The tree of a commit, put into a folder."""
    command = ["git", "-C", str(ROOT), "archive", revision]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def main() -> int:
    """Measures and prints; `--only` a few parts."""
    parser = argparse.ArgumentParser(description="How long one waits.")
    parser.add_argument("--before", help="commit to compare with")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tree:
        json.dump(measure(options.tree, options.only), sys.stdout)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = extracted(options.before, Path(folder)) if options.before else None
        for part in options.only:
            # Nobody sees curves while a handle of an earlier page moves.
            skip = before is None or part == "drag"
            then = {} if skip else measured(before, [part])
            for name, value in measured(ROOT, [part]).items():
                old = then.get(name)
                beside = "" if old is None else f"{old:>12,.4g} {old / value:>9,.3g}"
                print(f"{name:<52} {value:>12,.4g} {beside}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
