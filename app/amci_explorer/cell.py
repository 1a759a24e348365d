r"""The whole dashboard in a notebook's cell: `from amci_explorer import explorer; explorer()`.

A cell shows the page of a server beside the kernel. Inside the cell's own document it would not
do: results come from other threads while the cell's connection is still being made, and Panel's
messages arrive torn.
"""

from __future__ import annotations

__all__ = ["open_dashboard"]

import atexit
import os
import subprocess
import time
import urllib.request
from functools import cache
from socket import create_server
from urllib.error import URLError
from urllib.parse import urlencode

from IPython.display import IFrame

from amci_explorer.server.serve import DASHBOARD, allowed_origins, command_and_environment

PATIENCE = 240.0
# Where a hub has put this user's server, such as /user/name/; Binder sets it too.
HUB_PREFIX = "JUPYTERHUB_SERVICE_PREFIX"


def open_dashboard(*, height: int = 1000, **query: str | float) -> IFrame:
    """Shows the dashboard; a server for it is started at the first call and ends with the kernel.

    Arguments:
        height: Height in pixels.
        query: What to open with, as in the page's address: problem, y, theta, variant, draws,
            runs, seed.

    Raises:
        RuntimeError: the server does not start.
    """
    address = _served(os.environ.get(HUB_PREFIX, ""))
    asked = f"?{urlencode(query)}" if query else ""
    return IFrame(address + asked, width="100%", height=height)


@cache
def _served(hub: str) -> str:
    """Starts the server and gives the address under which a browser finds the page."""
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    # On a hub the browser reaches this machine by the hub's name alone, through its proxy.
    prefix = f"{hub.rstrip('/')}/proxy/absolute/{port}" if hub else ""
    origins = ["*"] if hub else allowed_origins(port, "127.0.0.1")
    command, environment = command_and_environment(port, "127.0.0.1", origins, prefix=prefix)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(process.terminate)
    path = f"{prefix}/{DASHBOARD.stem}"
    _wait(process, f"http://127.0.0.1:{port}{path}")
    return path if hub else f"http://localhost:{port}{path}"


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(address, timeout=PATIENCE).close()
        except (URLError, ConnectionError):
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                raise RuntimeError(
                    "the dashboard's server does not start; `make serve` says why"
                ) from None
            time.sleep(0.1)
        else:
            return
