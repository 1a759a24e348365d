"""Starts the dashboard: `python -m amci_explorer.server.serve --port 5006 --address 127.0.0.1`.

Checks the port and address first, so that a mistake gives one plain line, then hands over to
`panel serve dashboard.py`.
"""

__all__ = ["allowed_origins", "command_and_environment", "main", "page_url", "problem_files"]

import argparse
import errno
import os
import re
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parents[1] / "dashboard.py"
ANY_ADDRESS = "0.0.0.0"
LOOPBACK = ("127.0.0.1", "localhost")
HOST = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)
ORIGIN = re.compile(rf"({HOST.pattern}(:[0-9]{{1,5}})?|\*)", re.ASCII)
SITE = re.compile(rf"https?://(\*\.)?{HOST.pattern}(:([0-9]{{1,5}}|\*))?", re.ASCII)
# An address for documentation (RFC 5737).
ELSEWHERE = "192.0.2.1"
# How long a page that is left is kept. A slow one takes seconds from its first line to connecting.
MILLISECONDS_KEPT, MILLISECONDS_BETWEEN_CHECKS = 15_000, 2_000


def port_number(text: str) -> int:
    """Reads a port number from 1 to 65535.

    Raises:
        argparse.ArgumentTypeError: If `text` is anything else.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 65535, got {text!r}")
    return int(text)


def worker_count(text: str) -> int:
    """Reads a number of processes, or of seconds, from 1 to 1000.

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


def allowed_origins(port: int, address: str, others: Sequence[str] = ()) -> list[str]:
    """Lists the `host:port` a browser may have in its address bar.

    Arguments:
        port: The port that is listened on.
        address: The address that is listened on. For every address, these are the names and
            addresses that this machine knows of itself.
        others: Names that it cannot know: a proxy's, or a forwarded port's.
    """
    hosts = [*LOOPBACK] if address in (ANY_ADDRESS, *LOOPBACK) else [address]
    if address == ANY_ADDRESS:
        hosts += own_names()
    known = [f"{host}:{port}" for host in hosts]
    return list(dict.fromkeys([*known, *others]))


def own_names() -> list[str]:
    """The names and addresses under which other machines may know this one."""
    names = [socket.gethostname()]
    with suppress(OSError):
        name, aliases, addresses = socket.gethostbyname_ex(names[0])
        names += [name, *aliases, *addresses]
    # Nothing is sent: the route alone tells which address this machine has towards others.
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards_others:
        towards_others.connect((ELSEWHERE, 9))
        names.append(towards_others.getsockname()[0])
    return list(dict.fromkeys(name.lower() for name in names if HOST.fullmatch(name)))


def names_elsewhere(text: str) -> list[str]:
    """Reads names as in a browser's address bar, `host` or `host:port`, with commas between.

    Raises:
        argparse.ArgumentTypeError: If `text` is anything else.
    """
    names = text.lower().split(",")
    for name in names:
        if not ORIGIN.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"expected a name such as lecture.example or lecture.example:8443, got {name!r}"
            )
    return names


def sites(text: str) -> str:
    """Reads sites as a content security policy has them, with spaces between.

    Raises:
        argparse.ArgumentTypeError: If `text` is anything else.
    """
    for each in text.split():
        if not SITE.fullmatch(each):
            raise argparse.ArgumentTypeError(
                f"expected a site such as https://course.example, got {each!r}"
            )
    return text


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


def command_and_environment(
    port: int, address: str, origins: Sequence[str], *, prefix: str = "", proxy: bool = False
) -> tuple[list[str], dict[str, str]]:
    """The command that serves the page, guarded from the first request on, and its environment.

    Arguments:
        port: The port to listen on.
        address: The address to listen on.
        origins: What `allowed_origins` gives.
        prefix: Path before the page's own.
        proxy: Whether every request comes through a proxy that names the visitor's address.
    """
    command = [sys.executable, "-m", "panel", "serve", str(DASHBOARD)]
    command += [
        "--plugins",
        "amci_explorer.server.guard",
        "--plugins",
        "amci_explorer.server.ready",
    ]
    command += ["--port", str(port), "--address", address, "--prefix", prefix]
    # A page that has lost its connection reloads: what it has left is of no use to anybody.
    command += ["--unused-session-lifetime", str(MILLISECONDS_KEPT)]
    command += ["--check-unused-sessions", str(MILLISECONDS_BETWEEN_CHECKS)]
    if proxy:
        command.append("--use-xheaders")
    for each in origins:
        command += ["--allow-websocket-origin", each]
    search_path = [str(DASHBOARD.parents[1]), os.environ.get("PYTHONPATH", "")]
    return command, os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, search_path))}


def problem_files(named: Sequence[str]) -> tuple[list[str], list[str]]:
    """Loads problems from files, as `--problem` names them.

    Returns:
        The files with their whole paths; and what is wrong with those that cannot be loaded, a
        line each.
    """
    if not named:
        return [], []
    from amci_explorer.problems.files import Source  # it waits for PyTorch

    good, wrong = [], []
    for text in named:
        try:
            source = Source.read(text)
            source.load()
        except ValueError as error:
            wrong.append(" ".join(str(error).split()))
        else:
            good.append(source.text)
    return good, wrong


def tour_file(named: str | None, problems: Sequence[str]) -> list[str]:
    """What is wrong with the file of a tour, in a line; nothing where it is right, or none.

    Arguments:
        named: The file.
        problems: Files of problems, which the tour can be about.
    """
    if named is None:
        return []
    from amci_explorer.problems.registry import serve_files  # they wait for PyTorch
    from amci_explorer.state.tour import TourError, read_tour

    serve_files(problems)
    try:
        read_tour(named)
    except TourError as error:
        return [" ".join(str(error).split())]
    return []


def main(arguments: list[str] | None = None) -> int:
    """Runs the server until it is stopped, and returns its exit status."""
    parser = argparse.ArgumentParser(
        "python -m amci_explorer.server.serve", description="Start the dashboard."
    )
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
    parser.add_argument(
        "--seconds",
        type=worker_count,
        help="CPU-seconds that one computation of a visitor's may cost; default: 60",
    )
    parser.add_argument(
        "--trainings",
        type=worker_count,
        help="trainings at a time, of all visitors together; default: 2",
    )
    parser.add_argument(
        "--origin",
        type=names_elsewhere,
        default=[],
        help="other names of the page, such as a proxy's: lecture.example,127.0.0.1:8443",
    )
    parser.add_argument(
        "--proxy",
        action="store_true",
        help="every request comes through a proxy, which names the visitor's address",
    )
    parser.add_argument(
        "--frames",
        metavar="SITES",
        type=sites,
        help="sites that may show the page in a frame; default: all. "
        "https://course.example, several with spaces between",
    )
    parser.add_argument(
        "--problem",
        metavar="FILE.py",
        action="append",
        default=[],
        help="a problem of your own, as FILE.py, FILE.py:Class or FILE.py=FOLDER with the folder "
        "of its proposals; may be repeated",
    )
    parser.add_argument(
        "--tour", metavar="FILE.toml", help="a tour of your own; docs/how-to.md has the format"
    )
    options = parser.parse_args(arguments)
    port, address = options.port, options.address.strip()

    problem = why_not_free(port, address)
    if problem:
        print(f"AMCI Explorer cannot start: {problem}", file=sys.stderr)
        return 1

    problems, wrong = problem_files(options.problem)
    wrong += tour_file(options.tour, problems)
    for line in wrong:
        print(f"AMCI Explorer cannot start: {line}", file=sys.stderr)
    if wrong:
        return 2

    origins = allowed_origins(port, address, options.origin)
    show = has_screen_and_browser()

    opens = "opens in your browser" if show else "open this address in a browser"
    print(f"AMCI Explorer: {page_url(port, address)} ({opens})", flush=True)
    if address == ANY_ADDRESS:
        print(f"It may be opened as {', '.join(origins)}.", flush=True)
        print("Another name, such as a proxy's: make serve ORIGIN=name:port", flush=True)
    print("To stop it, press Ctrl+C.", flush=True)

    command, environment = command_and_environment(port, address, origins, proxy=options.proxy)
    if options.frames is not None:
        environment["AMCI_FRAMES"] = options.frames
    if show:
        command.append("--show")
    if problems:
        named = [*problems, os.environ.get("AMCI_PROBLEMS", "")]
        environment["AMCI_PROBLEMS"] = os.pathsep.join(filter(None, named))
    if options.tour is not None:
        environment["AMCI_TOUR"] = str(Path(options.tour).resolve())
    if options.workers is not None:
        environment["AMCI_WORKERS"] = str(options.workers)
    if options.seconds is not None:
        environment["AMCI_SECONDS"] = str(options.seconds)
    if options.trainings is not None:
        environment["AMCI_TRAININGS"] = str(options.trainings)
    if options.dask is not None:
        environment["AMCI_DASK"] = options.dask
    if os.name == "posix":
        os.execve(command[0], command, environment)
    return subprocess.call(command, env=environment)


if __name__ == "__main__":
    sys.exit(main())
