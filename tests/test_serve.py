"""`make serve` starts the server as asked, or says in one line why it cannot."""

import logging
import socket
from argparse import Namespace
from types import SimpleNamespace

import panel as pn
import pytest
from amci_explorer.compute.runner import runner
from amci_explorer.server import serve


@pytest.mark.parametrize("option", ["--port=65536", "--workers=0", "--trainings=two"])
def test_a_number_must_be_one(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        serve.main([option])
    assert stopped.value.code == 2
    assert "expected a number from 1 to 65535" in capsys.readouterr().err


def test_what_keeps_it_from_starting_is_said_in_a_line(capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert serve.main([f"--port={port}"]) == 1
    said = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1: Address already in use" in said
    assert said.count("\n") == 1
    monkeypatch.setenv("AMCI_WORKERS", "")
    monkeypatch.setattr("amci_explorer.compute.ready.runner", runner.__wrapped__)
    assert serve.main([f"--port={port}", "--workers=5000"]) == 1
    assert capsys.readouterr().err == (
        "AMCI Explorer cannot start: workers: expected a whole number from 1 to 1,000, got 5000\n"
    )


@pytest.mark.parametrize(
    ("address", "hosts"),
    [
        ("127.0.0.1", {"127.0.0.1:80", "localhost:80"}),
        ("localhost", {"127.0.0.1:80", "localhost:80"}),
        ("lecture.example", {"lecture.example:80"}),
    ],
)
def test_the_page_may_be_opened_under_the_names_of_the_server(address, hosts):
    options = Namespace(address=address, port=80, origin=["a.example:8443"])
    assert set(serve.origins(options)) == hosts | {"a.example:8443"}


def test_a_server_on_every_address_knows_its_own_name(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Hall.example")
    found = serve.origins(Namespace(address="0.0.0.0", port=80, origin=[]))
    assert {"localhost:80", "hall.example:80"} <= set(found)
    assert "*" not in found


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1", "AMCI Explorer: http://127.0.0.1:80/user/dashboard\nTo stop"),
        ("0.0.0.0", "AMCI Explorer: http://localhost:80/user/dashboard\nIt answers as 127.0.0.1"),
    ],
)
def test_its_address_is_said_once_its_loop_runs(address, said, capsys, monkeypatch):
    calls, served = [], {}
    loop = SimpleNamespace(
        add_callback=lambda *call: calls.append(call),
        start=lambda: [function(*rest) for function, *rest in calls],
    )
    server = SimpleNamespace(io_loop=loop, start=lambda: None, stop=lambda: None)
    monkeypatch.setattr(pn, "serve", lambda pages, **options: served.update(options) or server)
    monkeypatch.setattr(logging, "basicConfig", lambda **options: None)
    monkeypatch.setattr("signal.signal", lambda *handler: None)
    options = Namespace(address=address, port=80, prefix="/user", origin=[])
    serve.serve(options)
    assert capsys.readouterr().out.startswith(said)
    assert served["websocket_origin"] == serve.origins(options)
