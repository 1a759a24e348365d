"""A notebook's cell shows the page at an address that its reader's browser reaches."""

import sys
import urllib.request
from urllib.parse import urlparse

import pytest
from amci_explorer import Explorer, cell

SERVED = cell._served
SERVERS = [{"pid": 1, "base_url": "/other/"}, {"pid": 2, "base_url": "/mine/"}]


@pytest.fixture(autouse=True)
def _kernel(monkeypatch):
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    monkeypatch.setattr("jupyter_server.serverapp.list_running_servers", lambda: iter(SERVERS))
    monkeypatch.setattr(cell, "_served", lambda jupyter: f"{jupyter}proxy/absolute/1")


def test_a_frame_goes_through_the_kernels_jupyter_server_or_its_hub(monkeypatch):
    monkeypatch.setenv("JPY_PARENT_PID", "2")
    frame = Explorer(problem="peak", height=700)
    assert frame.src == "/mine/proxy/absolute/1/dashboard?problem=peak"
    assert 'height="700"' in frame._repr_html_()
    monkeypatch.setenv("JPY_PARENT_PID", "3")
    assert cell._jupyter() is None
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    assert Explorer().src.startswith("/user/ada/proxy/")


def test_a_server_that_no_longer_answers_is_replaced(monkeypatch, tmp_path):
    monkeypatch.setattr(cell, "_served", SERVED)
    monkeypatch.setattr(cell, "_jupyter", lambda: None)
    monkeypatch.setattr(cell, "_PORTS", {})
    (tmp_path / "favicon.ico").touch()
    serve = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "-d", str(tmp_path))
    monkeypatch.setattr(cell, "serve_command", lambda port, *_: [*serve, str(port)])
    started = []
    popen = cell.subprocess.Popen
    monkeypatch.setattr(
        cell.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    first = Explorer().src
    assert Explorer().src == first
    started[-1].terminate()
    started[-1].wait()
    second = Explorer().src
    assert second != first
    port = urlparse(second).port
    urllib.request.urlopen(f"http://127.0.0.1:{port}/favicon.ico").close()
    started[-1].terminate()
    started[-1].wait()
