"""Starts the dashboard: `python -m app.serve --port 5006 --address 127.0.0.1`.

Checks the port and address first, so that a mistake gives one plain line, then hands over to
`panel serve dashboard.py`.
"""

__all__ = ["allowed_origins", "main", "page_url"]

import argparse
import errno
import os
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path

DASHBOARD = Path(__file__).resolve().with_name("dashboard.py")
ANY_ADDRESS = "0.0.0.0"
LOOPBACK = ("127.0.0.1", "localhost")


def port_number(text: str) -> int:
    """Reads a port number from 1 to 65535.

    Raises:
        argparse.ArgumentTypeError: If `text` is anything else.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 65535, got {text!r}")
    return int(text)


def worker_count(text: str) -> int:
    """Reads a number of worker processes from 1 to 1000.

    Raises:
        argparse.ArgumentTypeError: If `text` is anything else.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 1000):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 1000, got {text!r}")
    return int(text)


def why_not_free(port: int, address: str) -> str | None:
    """Tells in a few words why a server cannot listen there, or None when it can."""
    if not address:
        return "the address is empty; try 127.0.0.1"
    if ":" in address:
        return f"Panel serves no IPv6 address such as {address}; try localhost or {ANY_ADDRESS}"
    try:
        socket.create_server((address, port)).close()
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: f"port {port} is in use; choose another one",
            errno.EACCES: f"port {port} needs administrator rights; choose one above 1023",
            errno.EADDRNOTAVAIL: f"{address} is not an address of this machine",
        }
        return reasons.get(error.errno or 0, error.strerror or str(error))
    return None


def allowed_origins(port: int, address: str) -> list[str]:
    """Lists the `host:port` a browser may have in its address bar.

    A server on every address is reached by names that it cannot know (another machine's name for
    it, a forwarded port), so there every origin is allowed.
    """
    if address == ANY_ADDRESS:
        return ["*"]
    hosts = LOOPBACK if address in LOOPBACK else (address,)
    return [f"{host}:{port}" for host in hosts]


def page_url(port: int, address: str) -> str:
    """Gives the address to open on this machine."""
    host = "localhost" if address == ANY_ADDRESS else address
    return f"http://{host}:{port}/{DASHBOARD.stem}"


def has_screen_and_browser() -> bool:
    """Tells whether opening a page would show it to the person who started the server."""
    if sys.platform.startswith("linux"):
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return False
    elif "SSH_CONNECTION" in os.environ:
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def main(arguments: list[str] | None = None) -> int:
    """Runs the server until it is stopped, and returns its exit status."""
    parser = argparse.ArgumentParser("python -m app.serve", description="Start the dashboard.")
    parser.add_argument("--port", type=port_number, default=5006, help="default: 5006")
    parser.add_argument("--address", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument(
        "--workers",
        type=worker_count,
        help="processes that compute; default: one less than the cores, at least one",
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="a Dask scheduler whose workers compute instead"
    )
    options = parser.parse_args(arguments)
    port, address = options.port, options.address.strip()

    problem = why_not_free(port, address)
    if problem:
        print(f"AMCI Explorer cannot start: {problem}", file=sys.stderr)
        return 1

    command = [sys.executable, "-m", "panel", "serve", str(DASHBOARD)]
    command += ["--port", str(port), "--address", address]
    for origin in allowed_origins(port, address):
        command += ["--allow-websocket-origin", origin]
    show = has_screen_and_browser()
    if show:
        command.append("--show")

    opens = "opens in your browser" if show else "open this address in a browser"
    print(f"AMCI Explorer: {page_url(port, address)} ({opens})", flush=True)
    print("To stop it, press Ctrl+C.", flush=True)

    search_path = [str(DASHBOARD.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, search_path))}
    if options.workers is not None:
        environment["AMCI_WORKERS"] = str(options.workers)
    if options.dask is not None:
        environment["AMCI_DASK"] = options.dask
    if os.name == "posix":
        os.execve(command[0], command, environment)
    return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main())
