"""`panel serve notebooks/01_why_target_aware.ipynb` is a page whose sliders answer."""

import os
import subprocess
import sys
import time
import urllib.request
from socket import create_server
from urllib.error import URLError

import pytest
from serving import PATIENCE, ROOT

# All densities that the page holds.
DRAWN = """() => Bokeh.documents.flatMap(each => [...each.all_models]).map(
    each => String(each.data?.q1 ?? "")).join("")"""


@pytest.fixture
def page_address():
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    notebook = "notebooks/01_why_target_aware.ipynb"
    command = [sys.executable, "-m", "panel", "serve", notebook, "--port", str(port)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://localhost:{port}/01_why_target_aware"
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            try:
                urllib.request.urlopen(address, timeout=PATIENCE).close()
                break
            except (URLError, ConnectionError):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=120)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("jupyter")
def test_a_notebook_is_served_as_an_app(browser, page_address):
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(PATIENCE * 1000)
    complaints, requests = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_address)
    slider = page.get_by_role("slider").last
    slider.wait_for()
    before = page.evaluate(DRAWN)
    slider.press("ArrowLeft")
    page.wait_for_function(f"before => ({DRAWN})() != before", arg=before)
    page.close()
    assert complaints == []
    own = ("http://localhost:", "data:", "blob:")
    assert [url for url in requests if not url.startswith(own)] == []
