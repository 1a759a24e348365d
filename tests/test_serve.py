"""`make serve` starts the server as asked, or says in one line why it cannot."""

import re
import socket
import subprocess
import urllib.request
from argparse import Namespace

import pytest
from amci_explorer.server import serve
from serving import PATIENCE, environment


@pytest.mark.parametrize("option", ["--port=65536", "--workers=0", "--trainings=two"])
def test_a_number_must_be_one(option: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        serve.main([option])
    assert stopped.value.code == 2
    assert "expected a number from 1 to 65535" in capsys.readouterr().err


def test_a_port_in_use_is_told_in_a_line(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert serve.main([f"--port={port}"]) == 1
    said = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1: Address already in use" in said
    assert said.count("\n") == 1


def test_too_many_workers_are_refused_in_a_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = serve.serve_command(port, "--workers=5000")
    done = subprocess.run(command, env=environment(), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == (
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
def test_the_page_may_be_opened_under_the_names_of_the_server(address: str, hosts: set[str]):
    options = Namespace(address=address, port=80, origin=["a.example:8443"])
    assert set(serve.origins(options)) == hosts | {"a.example:8443"}


def test_a_server_on_every_address_knows_its_own_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Hall.example")
    found = serve.origins(Namespace(address="0.0.0.0", port=80, origin=[]))
    assert {"localhost:80", "hall.example:80"} <= set(found)
    assert "*" not in found


def test_the_address_is_said_once_it_answers():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = serve.serve_command(port, "--workers=1")
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            said = server.stdout.readline()
            address = re.search("http://127.0.0.1:[0-9]+/dashboard", said)[0]
            # Under another name it answers without a page.
            request = urllib.request.Request(address, headers={"Host": f"localhost:{port}"})
            assert urllib.request.urlopen(request, timeout=PATIENCE).status == 200
        finally:
            server.terminate()
