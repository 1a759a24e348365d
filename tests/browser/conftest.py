"""A real server and a real browser, one of each for all tests of a worker process."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest
from install_browser import find_browser
from visit import Visit

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of the dashboard, served by `panel serve`."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "panel", "serve", "app/dashboard.py", "--port", str(port)]
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    log = tmp_path_factory.mktemp("server") / "log.txt"
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
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium; `python tests/install_browser.py` installs one")
    # Chromium refuses to run as root in its own sandbox.
    root = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=[*QUIET, *root])
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, server):
    """Opens the dashboard for a visitor; at the end no console may hold an error."""
    visits = []

    def open_page(query: str = "", *, width: int = 1440, height: int = 900) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(30_000)
        visits.append(Visit(context, server + query))
        return visits[-1]

    yield open_page
    for visited in visits:
        visited.close()
    for visited in visits:
        assert visited.complaints == []
        assert visited.strangers == []
