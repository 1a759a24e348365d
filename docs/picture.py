r"""Makes the README's picture: `python docs/picture.py` writes docs/dashboard.png."""

from __future__ import annotations

__all__ = ["main"]

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from serving import headless_browser, served_dashboard  # noqa: E402

SIZE = {"width": 1440, "height": 1300}


def main() -> None:
    """Opens the real dashboard at its first preset and takes a picture when the curves stand."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        served_dashboard(Path(scratch) / "log.txt") as address,
        headless_browser() as browser,
    ):
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{address}?y=1&theta=3&variant=spline")
        page.get_by_text("1,000 runs in").wait_for(timeout=120_000)
        page.get_by_text("With N = M = 64").wait_for(timeout=120_000)
        page.wait_for_timeout(1000)  # the last paint
        page.screenshot(path=HERE / "dashboard.png")


if __name__ == "__main__":
    main()
