r"""Serves the page: `python -m amci_explorer.server.serve --port 5006 --address 127.0.0.1`."""

from __future__ import annotations

__all__ = ["DASHBOARD", "main", "serve_command"]

import argparse
import asyncio
import logging
import os
import secrets
import signal
import socket
import sys
import webbrowser
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).resolve().parents[1] / "dashboard.py"
ANY_ADDRESS = "0.0.0.0"
# How long a page that is left is kept. A slow one takes seconds from its first line to connecting.
MILLISECONDS_KEPT, MILLISECONDS_BETWEEN_CHECKS = 15_000, 2_000
# The whole document of a page shrinks from 600 kB to 70 in 8 ms.
COMPRESSION = 1
# Options that the page and its workers read from the environment, as `AMCI_WORKERS`.
OF_ENVIRONMENT = ("frames", "workers", "seconds", "trainings", "dask", "tour")


def serve_command(port: int, *options: str) -> list[str]:
    """The command that serves the page on a port, for `subprocess`."""
    return [sys.executable, "-m", "amci_explorer.server.serve", "--port", str(port), *options]


def main(arguments: list[str] | None = None) -> int:
    """Serves the page until it is stopped, and returns the exit status."""
    options = _parser().parse_args(arguments)
    for name in OF_ENVIRONMENT:
        if getattr(options, name) is not None:
            os.environ[f"AMCI_{name.upper()}"] = str(getattr(options, name))
    try:
        # Refused before the problems are read.
        socket.create_server((options.address, options.port)).close()
        ready = import_module("amci_explorer.compute.ready")
        wrong = ready.read(options.problem)
    except OSError as error:
        wrong = [f"port {options.port} of {options.address}: {error.strerror}"]
    for line in wrong:
        print(f"AMCI Explorer cannot start: {line}", file=sys.stderr)
    if not wrong:
        # The page's loop. While workers import what they need, so does this process.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(ready.start_workers())
        import_module("amci_explorer.visit")
        ready.look_at_problems()
        serve(options)
    return bool(wrong)


class Short(logging.Formatter):
    """Begins and ends a record: visitors decide how long what they send is."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if len(text) < 2000 else f"{text[:400]} ... {text[-1500:]}"


def serve(options: argparse.Namespace) -> None:
    """Serves the page as the options say, until the process gets a signal to end."""
    import panel as pn

    from amci_explorer.server.guard import ROUTES

    log = logging.StreamHandler()
    log.setFormatter(Short("%(asctime)s %(message)s"))
    # Below warnings they tell of every visit and every worker.
    log.setLevel(logging.WARNING)
    logging.basicConfig(handlers=[log], force=True)
    # Dask has given these handlers of its own.
    for name in ("bokeh", "tornado", "tornado.application"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    server: Any = pn.serve(
        {DASHBOARD.stem: str(DASHBOARD)},
        port=options.port,
        address=options.address,
        prefix=options.prefix,
        websocket_origin=origins(options),
        extra_patterns=ROUTES,
        # Only this process makes sessions.
        sign_sessions=True,
        secret_key=secrets.token_bytes(32),
        # A page that has lost its connection reloads: what it has left is of no use to anybody.
        unused_session_lifetime_milliseconds=MILLISECONDS_KEPT,
        check_unused_sessions_milliseconds=MILLISECONDS_BETWEEN_CHECKS,
        websocket_compression_level=COMPRESSION,
        start=False,
        show=False,
        verbose=False,
    )
    # The loop calls it once it also answers requests.
    server.io_loop.add_callback(_announce, options)
    # Panel has the loop end at Ctrl+C.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    server.start()
    server.io_loop.start()
    server.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m amci_explorer.server.serve", description="Start the dashboard."
    )

    def count(text: str) -> int:
        if not (text.isdigit() and 1 <= int(text) <= 65535):
            raise argparse.ArgumentTypeError(f"expected a number from 1 to 65535, got {text!r}")
        return int(text)

    def names(text: str) -> list[str]:
        return [name.rpartition("//")[2] for name in text.lower().split(",")]

    def add(name: str, help: str, **options: Any) -> None:
        parser.add_argument(f"--{name}", help=help, **options)

    add("port", "default: 5006", type=count, default=5006)
    add("address", "default: 127.0.0.1; 0.0.0.0 for every one", default="127.0.0.1")
    add("prefix", "path before the page's own, such as a proxy's", default="")
    add("workers", "processes that compute; default: one less than the cores", type=count)
    add("dask", "address of a Dask scheduler whose workers compute instead")
    add("seconds", "CPU-seconds that one computation may cost; default: 60", type=count)
    add("trainings", "trainings at a time, of all visitors; default: 2", type=count)
    add("origin", "other names of the page, with commas between", type=names, default=[])
    add("frames", "sites that may show the page in a frame, with spaces between; default: all")
    own = "FILE.py, FILE.py:NAME or FILE.py=FOLDER with its proposals; may be repeated"
    add("problem", own, action="append", default=[])
    add("tour", "FILE.toml, a tour of your own; docs/teaching.md has the format")
    return parser


def origins(options: argparse.Namespace) -> list[str]:
    """The `host:port` that a browser may have in its address bar."""
    hosts = ["127.0.0.1", "localhost"]
    if options.address == ANY_ADDRESS:
        hosts.append(socket.gethostname().lower())
        # Nothing is sent: the route to an address for documentation (RFC 5737) tells which address
        # this machine has towards others.
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards_others:
            towards_others.connect(("192.0.2.1", 9))
            hosts.append(towards_others.getsockname()[0])
    elif options.address not in hosts:
        hosts = [options.address]
    return [*(f"{host}:{options.port}" for host in hosts), *options.origin]


def _announce(options: argparse.Namespace) -> None:
    host = "localhost" if options.address == ANY_ADDRESS else options.address
    url = f"http://{host}:{options.port}{options.prefix}/{DASHBOARD.stem}"
    print(f"AMCI Explorer: {url}")
    if options.address == ANY_ADDRESS:
        print(f"It answers as {', '.join(origins(options))}.")
        print("Another name, such as a proxy's: make serve ORIGIN=name:port")
    print("To stop it, press Ctrl+C.", flush=True)
    # Without a screen a browser in the terminal would open, and not end.
    screen = not sys.platform.startswith("linux") or {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}
    if sys.stdout.isatty() and screen and "SSH_CONNECTION" not in os.environ:
        webbrowser.open(url)


if __name__ == "__main__":
    sys.exit(main())
