"""The real server and a headless browser, for tests, benchmarks and the README's picture."""

from __future__ import annotations

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

from install_browser import find_browser

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 90
# What a browser does behind a visitor's back has no place in a test.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


@contextmanager
def served_dashboard(log: Path) -> Iterator[str]:
    """The address of the dashboard, served by `panel serve` on a free port.

    Arguments:
        log: File for what the server prints.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "panel", "serve", "app/dashboard.py", "--port", str(port)]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        address = f"http://localhost:{port}/dashboard"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(address, timeout=PATIENCE).read()
                break
            except (URLError, ConnectionError):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the server does not answer: {log.read_text()}") from None
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextmanager
def headless_browser() -> Iterator[Any]:
    """A headless Chromium, as Playwright drives it.

    Raises:
        RuntimeError: there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    path = find_browser()
    if path is None:
        raise RuntimeError("no Chromium found; `python tests/install_browser.py` installs one")
    # Chromium refuses to run as root in its own sandbox.
    root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=[*QUIET, *root])
        yield chromium
        chromium.close()
