"""Finds a Chromium for the browser tests, or installs one: `python tests/install_browser.py`."""

import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
ASK_PLAYWRIGHT = """
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)
"""


@cache
def find_browser() -> str | None:
    """Returns the path of a Chromium or Chrome that starts, or None when there is none.

    Looks at the environment variable AMCI_BROWSER, then for an installed browser, then for the
    one that Playwright has downloaded.

    Raises:
        FileNotFoundError: If AMCI_BROWSER is set to something that does not start.
    """
    chosen = os.environ.get("AMCI_BROWSER")
    found = next(filter(None, map(started, [chosen] if chosen else NAMES)), None)
    if chosen and not found:
        raise FileNotFoundError(f"AMCI_BROWSER is {chosen!r}, which does not start as a browser")
    return found or playwright_browser()


def started(name: str) -> str | None:
    """The path of a browser that runs: some systems have a script that only asks to install it."""
    path = shutil.which(name)
    with suppress(OSError, subprocess.SubprocessError):
        if path:
            subprocess.run([path, "--version"], capture_output=True, timeout=60, check=True)
            return path
    return None


def playwright_browser() -> str | None:
    """Returns the path of Playwright's own Chromium, or None."""
    result = subprocess.run([sys.executable, "-c", ASK_PLAYWRIGHT], capture_output=True, text=True)
    return started(result.stdout.strip()) if result.returncode == 0 else None


def run(*command: str) -> bool:
    """Runs a command, showing it first, and tells whether it succeeded within 20 minutes."""
    print("  " + " ".join(command), flush=True)
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "timeout": 1200}
    options["env"] = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(command, **options).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"  {error}", flush=True)
        return False


def as_administrator() -> list[str] | None:
    """Returns what to put before a command that needs rights, or None when there are none."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        passwordless = subprocess.run(["sudo", "-n", "true"], capture_output=True)
        if passwordless.returncode == 0:
            return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"]
    return None


def install_system_package() -> bool:
    """Installs Chromium with the system's package manager, and tells whether that worked."""
    if platform.system() == "Darwin":
        return bool(shutil.which("brew")) and run("brew", "install", "--cask", "chromium")
    prefix = as_administrator()
    if prefix is None:
        return False
    if shutil.which("apt-get"):
        run(*prefix, "apt-get", "update", "-qq")
        # What a desktop needs beside it, such as printers, takes longer than the browser itself.
        lean = ("-y", "-qq", "--no-install-recommends")
        return run(*prefix, "apt-get", "install", *lean, "chromium", "fonts-liberation")
    if shutil.which("dnf"):
        return run(*prefix, "dnf", "install", "-y", "-q", "chromium")
    return False


def install_playwright_browser() -> bool:
    """Downloads Playwright's Chromium, and tells whether that worked."""
    install = (sys.executable, "-m", "playwright", "install")
    if platform.system() == "Linux" and as_administrator() is not None:
        return run(*install, "--with-deps", "chromium") or run(*install, "chromium")
    return run(*install, "chromium")


def main() -> int:
    """Makes sure that there is a browser; returns the exit status."""
    for install in (None, install_system_package, install_playwright_browser):
        if install is not None:
            print("No browser found for the tests. Installing one:", flush=True)
            install()
            find_browser.cache_clear()
        try:
            browser = find_browser()
        except FileNotFoundError as error:
            print(f"Browser: {error}.", file=sys.stderr)
            return 1
        if browser:
            print(f"Browser: {browser}")
            return 0
    print(
        "Browser: none found and none could be installed. Install Chromium or Chrome, "
        "or set AMCI_BROWSER to one, and try again.",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
