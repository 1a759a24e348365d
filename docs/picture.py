r"""Makes the README's pictures: `python docs/picture.py` writes docs/dashboard.png and .webp."""

from __future__ import annotations

__all__ = ["main"]

import io
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from serving import headless_browser, served_dashboard  # noqa: E402

# What says how far the error curves are.
CURVES = "[data-card=errors]"
SIZE = {"width": 1440, "height": 1300}
# The moving picture: theta goes from the bulk into the tail, then the error curves arrive.
MOVING_SIZE = {"width": 1280, "height": 800}
MOVING_WIDTH = 960
START, END, STEP = 0.5, 3.0, 0.01
PRESSES = 12
HOLD_MS, DRAG_MS, CURVES_MS, LAST_MS = 1500, 120, 300, 4000
# Of the curves' arrival so many frames are kept, however long it took.
ARRIVALS = 10
# A picture follows the slider within a tenth of a second; a busy machine may need longer.
SETTLE_MS = 350


def main() -> None:
    """Opens the real dashboard at its first preset and takes pictures of what one would see."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        served_dashboard(Path(scratch) / "log.txt") as address,
        headless_browser() as browser,
    ):
        still(browser, address).save(HERE / "dashboard.png", optimize=True)
        frames, milliseconds = moving(browser, address)
        frames[0].save(
            HERE / "dashboard.webp",
            save_all=True,
            append_images=frames[1:],
            duration=milliseconds,
            loop=0,
            quality=70,
            method=6,
        )


def still(browser: Any, address: str) -> Image.Image:
    """The page when everything stands."""
    page = browser.new_page(viewport=SIZE)
    page.goto(f"{address}?y=1&theta={END:g}&variant=spline&card=reuse")
    page.locator(CURVES, has_text="1,000 runs in").wait_for(timeout=120_000)
    page.get_by_text("N = M = 64").wait_for(timeout=120_000)
    page.wait_for_timeout(1000)  # the last paint
    taken = photograph(page)
    page.close()
    return taken


def moving(browser: Any, address: str) -> tuple[list[Image.Image], list[int]]:
    """Frames, and for how long each is shown."""
    page = browser.new_page(viewport=MOVING_SIZE)
    page.goto(f"{address}?y=1&theta={START:g}&variant=spline")
    done = page.locator(CURVES, has_text="1,000 runs in")
    done.wait_for(timeout=120_000)
    page.wait_for_timeout(1000)
    frames, milliseconds = [photograph(page)], [HOLD_MS]
    slider = page.get_by_role("slider", name="Threshold θ")
    slider.focus()
    steps = round((END - START) / STEP)
    for press in range(1, steps + 1):
        page.keyboard.down("ArrowRight")
        if press % (steps // PRESSES) == 0:
            page.wait_for_timeout(SETTLE_MS)
            frames.append(photograph(page))
            milliseconds.append(DRAG_MS)
    page.keyboard.up("ArrowRight")
    arrivals = []
    while not done.is_visible():
        page.wait_for_timeout(CURVES_MS)
        arrivals.append(photograph(page))
    kept = arrivals[:: math.ceil(len(arrivals) / ARRIVALS)] if arrivals else []
    frames += kept
    milliseconds += [CURVES_MS] * len(kept)
    page.wait_for_timeout(1000)
    frames.append(photograph(page))
    milliseconds.append(LAST_MS)
    size = (MOVING_WIDTH, MOVING_WIDTH * MOVING_SIZE["height"] // MOVING_SIZE["width"])
    return [frame.resize(size, Image.Resampling.LANCZOS) for frame in frames], milliseconds


def photograph(page: Any) -> Image.Image:
    """The page as it is seen now."""
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


if __name__ == "__main__":
    main()
