"""The real server and a headless browser, for tests, benchmarks and the README's picture."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from amci_explorer.server.serve import serve_command
from install_browser import find_browser

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = "app/dashboard.py"
# Seconds that a test waits for anything before it fails, on a busy machine too.
PATIENCE = 100
# What a browser does behind a visitor's back has no place in a test.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


def environment() -> dict[str, str]:
    """That of a process which imports the page from here."""
    search_path = filter(None, [str(ROOT / "app"), os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join(search_path)}


@contextmanager
def served_dashboard(
    log: Path,
    *,
    app: str = DASHBOARD,
    first: str = "/dashboard",
    files: Sequence[str | Path] = (),
) -> Iterator[str]:
    """The address of the dashboard, served as by `make serve`.

    Arguments:
        log: File for what the server prints.
        app: Another script of that name, in the place of ours.
        first: Path of the first request, which is repeated until it is answered.
        files: Problems of one's own, as `--args` names them.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = serve_command(port, *(word for file in files for word in ("--problem", str(file))))
    if app != DASHBOARD:
        command = [sys.executable, "-m", "panel", "serve", app, "--port", str(port)]
        command += ["--args", *map(str, files)] if files else []
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        address = f"http://localhost:{port}"
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(address + first, timeout=PATIENCE).read()
                break
            except HTTPError:
                break
            except (URLError, ConnectionError):
                if process.poll() is not None or time.monotonic() > deadline:
                    said = f"no answer in {PATIENCE} s to {' '.join(command)}"
                    raise RuntimeError(f"{said}: {log.read_text()}") from None
                time.sleep(0.1)
        yield f"{address}/dashboard"
    finally:
        # Its workers end by themselves; an end with goodbyes takes as long as the start.
        process.kill()
        process.wait()


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
