"""What Binder does with this repository, done here: its files are read, its addresses answer."""

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from socket import create_server
from urllib.error import URLError

import panel_server
import pytest
from serving import PATIENCE, ROOT
from visit import Visit

pytestmark = pytest.mark.slow

# A hub puts every user's server under a path of its own.
BASE = "/user/somebody/"
# Where the badges lead: to the dashboard, and to the first notebook.
BADGES = (ROOT / "docs" / "teaching.md").read_text()
DASHBOARD, NOTEBOOK = re.findall(r"\?urlpath=([^`]+)`", BADGES)

# Where the targets of the pictures in cells are highest.
HIGHEST = """() => Bokeh.documents.flatMap(each => [...each.all_models])
    .filter(({data}) => data?.target?.length)
    .map(({data}) => data.x[Array.from(data.target).indexOf(Math.max(...data.target))])
    .sort().reverse()"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a Jupyter server in a copy of the repository, as a hub would start it.

    It saves an open notebook every two minutes, with all that its cells have shown.
    """
    folder = tmp_path_factory.mktemp("jupyter")
    copy = folder / "repository"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", f"--ServerApp.base_url={BASE}", "--IdentityProvider.token="]
    own = {
        "JUPYTERHUB_SERVICE_PREFIX": BASE,
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    log = folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=copy, env=os.environ | own, stdout=output, stderr=subprocess.STDOUT
        )
    address = f"http://localhost:{port}{BASE}"
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            with suppress(URLError, ConnectionError):
                urllib.request.urlopen(address + "api", timeout=PATIENCE).close()
                break
            waiting = process.poll() is None and time.monotonic() < deadline
            assert waiting, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=120)


def test_repo2docker_accepts_the_repository():
    done = subprocess.run(
        [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert 'env update -p ${NB_PYTHON_PREFIX} --file "environment.yml"' in said
    assert "Python version unspecified" not in said


def test_the_dashboard_alone_is_served_beside_jupyter(monkeypatch):
    monkeypatch.chdir(ROOT)
    command = panel_server._launch_command(5006)
    assert [part for part in command if part.endswith((".py", ".ipynb"))] == ["app/dashboard.py"]
    assert "--dev" not in command
    assert "--autoreload" not in command


@pytest.mark.browser
@pytest.mark.xdist_group("jupyter")
def test_the_badge_leads_to_the_dashboard(server, browser):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    visit = Visit(context, f"{server}{DASHBOARD}?runs=4&draws=8")
    visit.wait_for_end(4)
    visit.close()
    assert visit.complaints == []
    assert visit.strangers == []


@pytest.mark.browser
@pytest.mark.xdist_group("jupyter")
def test_the_badge_leads_to_the_first_notebook_and_it_is_alive(server, browser):
    context = browser.new_context(viewport={"width": 1400, "height": 3000})
    context.set_default_timeout(PATIENCE * 1000)
    page = context.new_page()
    strangers = []
    page.on("request", lambda request: strangers.append(request.url))
    page.goto(server + NOTEBOOK)
    page.get_by_role("heading", name="1. Why target-aware?").wait_for()
    # JupyterLab runs nothing, and says nothing, when it is asked to before the kernel is there.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.get_by_text("Run", exact=True).first.click()
    page.get_by_text("Run All Cells", exact=True).first.click()
    page.get_by_text("Threshold θ: 3").wait_for()
    # The slider moves the picture: g begins at the threshold.
    assert page.evaluate(HIGHEST)[0] > 3
    page.get_by_role("slider").last.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => ({HIGHEST})()[0] < 3")
    context.close()
    own = server.removesuffix(BASE)
    assert [url for url in strangers if not url.startswith((own, "data:", "blob:"))] == []
