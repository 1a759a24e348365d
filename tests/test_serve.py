"""`make serve` starts the server as asked, or says in one line why it cannot."""

import socket
from itertools import pairwise

import pytest
from amci_explorer.server import serve


@pytest.mark.parametrize("port", ["65536", "80a"])
def test_port_must_be_a_port_number(port: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        serve.main([f"--port={port}"])
    assert stopped.value.code == 2
    assert f"expected a number from 1 to 65535, got {port!r}" in capsys.readouterr().err


def test_port_in_use_is_reported(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert serve.main([f"--port={port}"]) == 1
    assert f"port {port} is in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "the address is empty"),
        ("::1", "no IPv6 address"),
        ("192.0.2.1", "not an address of this machine"),  # RFC 5737: belongs to nobody
    ],
)
def test_unusable_address_is_reported(
    address: str, message: str, capsys: pytest.CaptureFixture[str]
):
    assert serve.main([f"--address={address}"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "origins", "url"),
    [
        ("127.0.0.1", {"127.0.0.1:80", "localhost:80"}, "http://127.0.0.1:80/dashboard"),
        ("localhost", {"127.0.0.1:80", "localhost:80"}, "http://localhost:80/dashboard"),
        ("lecture.example", {"lecture.example:80"}, "http://lecture.example:80/dashboard"),
    ],
)
def test_page_may_be_opened_under_the_names_of_the_server(
    address: str, origins: set[str], url: str
):
    assert set(serve.allowed_origins(80, address)) == origins
    assert serve.page_url(80, address) == url


def test_a_server_on_every_address_knows_its_own_names_and_those_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
):
    known = ("Hall.example", ["hall"], ["192.0.2.7"])
    monkeypatch.setattr("socket.gethostname", lambda: "Hall.example")
    monkeypatch.setattr("socket.gethostbyname_ex", lambda _: known)
    origins = serve.allowed_origins(80, "0.0.0.0", ["proxy.example"])
    assert "*" not in origins
    hosts = ("127.0.0.1", "localhost", "hall.example", "hall", "192.0.2.7")
    assert {f"{host}:80" for host in hosts} | {"proxy.example"} <= set(origins)
    assert serve.page_url(80, "0.0.0.0") == "http://localhost:80/dashboard"


def test_origins_are_printed_and_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    called: list[str] = []
    monkeypatch.setattr("os.name", "other")
    monkeypatch.setattr("subprocess.call", lambda command, env: called.extend(command))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    serve.main([f"--port={port}", "--address=0.0.0.0", "--origin=Proxy.example:8443,a.example"])
    allowed = [b for a, b in pairwise(called) if a == "--allow-websocket-origin"]
    assert {f"localhost:{port}", "proxy.example:8443", "a.example"} <= set(allowed)
    said = capsys.readouterr().out
    assert f"opened as {', '.join(allowed)}.\n" in said
    assert "ORIGIN=" in said


@pytest.mark.parametrize("name", ["http://a.example", "a:80:80"])
def test_another_name_must_be_a_name(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        serve.main([f"--origin={name}"])
    assert stopped.value.code == 2
    assert "expected a name such as lecture.example" in capsys.readouterr().err


def test_no_browser_is_opened_without_a_screen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not serve.has_screen_and_browser()


@pytest.mark.parametrize("site", ["course.example", "https://a.example; script-src *"])
def test_frames_are_of_sites(site: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        serve.main([f"--frames={site}"])
    assert stopped.value.code == 2
    assert "expected a site such as https://course.example" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["0", "two"])
def test_workers_must_be_a_number_of_processes(workers: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        serve.main([f"--workers={workers}"])
    assert stopped.value.code == 2
    assert f"expected a number from 1 to 1000, got {workers!r}" in capsys.readouterr().err


def test_the_server_is_told_of_its_workers(monkeypatch: pytest.MonkeyPatch):
    told: dict[str, str] = {}
    monkeypatch.setattr("os.execve", lambda *call: told.update(call[-1]))
    monkeypatch.setattr("subprocess.call", lambda *_, env: told.update(env))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    serve.main([f"--port={port}", "--workers=3", "--seconds=20"])
    assert (told["AMCI_WORKERS"], told["AMCI_SECONDS"]) == ("3", "20")
    serve.main([f"--port={port}", "--dask=tcp://127.0.0.1:8786"])
    assert told["AMCI_DASK"] == "tcp://127.0.0.1:8786"
    serve.main([f"--port={port}", "--frames=https://a.example http://*.b.example:*"])
    assert told["AMCI_FRAMES"] == "https://a.example http://*.b.example:*"
