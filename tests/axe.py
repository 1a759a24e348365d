"""What axe-core finds on a page: all of its rules, also those of best practice."""

from __future__ import annotations

import time
from importlib.resources import files
from typing import Any

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .flatMap(({id, nodes}) => nodes.map(
        ({html, failureSummary}) => `${id}: ${html}\\n    ${failureSummary}`))
"""
# Colours on their way to others are not looked at: what is found has to stay so long, in seconds.
STAYS = 60


def violations(page: Any) -> list[str]:
    """What breaks a rule on a Playwright page, and goes on doing so."""
    page.evaluate(AXE)
    deadline = time.monotonic() + STAYS
    while (found := page.evaluate(RUN)) and time.monotonic() < deadline:
        pass
    return list(found)
