r"""The page in a notebook's cell: `from amci_explorer import Explorer; Explorer(problem="peak")`.

The cell shows the page of a server beside the kernel, which ends with it.
"""

from __future__ import annotations

__all__ = ["Explorer"]

import atexit
import importlib.util
import os
import subprocess
import time
import urllib.request
from socket import create_server
from urllib.parse import urlencode

from IPython.display import IFrame

from amci_explorer.server.serve import DASHBOARD, serve_command

PATIENCE = 240.0
# The port of the server behind each Jupyter server.
_PORTS: dict[str | None, int] = {}


class Explorer(IFrame):
    """Shows the page in a cell; starts a server, unless the one before still answers.

    Example:
        >>> from amci_explorer import Explorer
        >>> Explorer(problem="tail-1d", theta=3)  # doctest: +SKIP

    Arguments:
        height: Height in pixels.
        query: What to open with, as in the page's address: problem, y, theta, variant, draws,
            runs, seed.

    Raises:
        RuntimeError: the server does not start.
    """

    def __init__(self, *, height: int = 1000, **query: str | float) -> None:
        address = f"{_served(_jupyter())}/{DASHBOARD.stem}?{urlencode(query)}"
        super().__init__(address, width="100%", height=height)


def _jupyter() -> str | None:
    """The path of the Jupyter server that this kernel belongs to, if it has a proxy.

    A browser that reaches Jupyter through a hub, a tunnel or a container reaches only its port on
    this machine.
    """
    hub = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    if hub or importlib.util.find_spec("jupyter_server_proxy") is None:
        return hub
    from jupyter_server.serverapp import list_running_servers

    parent = os.environ.get("JPY_PARENT_PID")
    servers = (each for each in list_running_servers() if str(each["pid"]) == parent)
    return next((each["base_url"] for each in servers), None)


def _served(jupyter: str | None) -> str:
    """The address under which a browser finds a server that answers."""
    if jupyter not in _PORTS or not _answers(_PORTS[jupyter]):
        with create_server(("127.0.0.1", 0)) as free:
            _PORTS[jupyter] = free.getsockname()[1]
        _start(_PORTS[jupyter], _prefix(jupyter, _PORTS[jupyter]))
    return _prefix(jupyter, _PORTS[jupyter]) or f"http://localhost:{_PORTS[jupyter]}"


def _prefix(jupyter: str | None, port: int) -> str:
    return "" if jupyter is None else f"{jupyter.rstrip('/')}/proxy/absolute/{port}"


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/favicon.ico", timeout=5).close()
    except OSError:
        return False
    return True


def _start(port: int, prefix: str) -> None:
    """Starts a server, and waits until it answers."""
    # Jupyter asks who may use its proxy.
    options = ["--prefix", prefix, "--origin", "*"] if prefix else []
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(serve_command(port, *options), **quiet)  # type: ignore[call-overload]
    atexit.register(process.terminate)
    deadline = time.monotonic() + PATIENCE
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            raise RuntimeError(
                "the dashboard's server does not start. Run `make serve` to see why"
            )
        time.sleep(0.1)
