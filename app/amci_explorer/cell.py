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
from functools import cache
from socket import create_server
from urllib.parse import urlencode

from IPython.display import IFrame

from amci_explorer.server.serve import DASHBOARD, serve_command

PATIENCE = 240.0


class Explorer(IFrame):
    """Shows the page in a cell; starts the server, unless it runs already.

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
        address = _served(_jupyter())
        super().__init__(f"{address}?{urlencode(query)}", width="100%", height=height)


def _jupyter() -> str | None:
    """The path of the Jupyter server that this kernel belongs to, where it has a proxy.

    A browser that reaches Jupyter through a hub, a tunnel or a container reaches only its port on
    this machine.
    """
    hub = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    if hub or importlib.util.find_spec("jupyter_server_proxy") is None:
        return hub
    from jupyter_server.serverapp import list_running_servers

    own = os.environ.get("JPY_PARENT_PID")
    there = (each for each in list_running_servers() if str(each["pid"]) == own)
    return next((each["base_url"] for each in there), None)


def _served(jupyter: str | None) -> str:
    """The address under which a browser finds the page of a server that runs."""
    process, address = _started(jupyter)
    if process.poll() is not None:
        _started.cache_clear()
        _, address = _started(jupyter)
    return address


@cache
def _started(jupyter: str | None) -> tuple[subprocess.Popen[bytes], str]:
    """Starts the server, and gives its process and its address."""
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    prefix = "" if jupyter is None else f"{jupyter.rstrip('/')}/proxy/absolute/{port}"
    # Jupyter asks who may use its proxy.
    options = ["--prefix", prefix, "--origin", "*"] if prefix else []
    process = subprocess.Popen(
        serve_command(port, *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(process.terminate)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/favicon.ico").close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                raise RuntimeError(
                    "the dashboard's server does not start. Run `make serve` to see why"
                ) from None
            time.sleep(0.1)
        else:
            return process, f"{prefix or f'http://localhost:{port}'}/{DASHBOARD.stem}"
