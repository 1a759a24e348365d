"""What holds for every test."""

import os

import pytest
import torch
from serving import headless_browser, served_dashboard

# One thread each: workers that each start one thread a core wait for one another. The kernels and
# servers that tests start take it from the environment.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium: one for a worker process, since Playwright allows no second one."""
    with headless_browser() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def server_log(tmp_path_factory):
    """What the server prints."""
    return tmp_path_factory.mktemp("server") / "log.txt"


@pytest.fixture(scope="session")
def server(server_log):
    """The address of the dashboard, of a worker's one server; its first request imports a module.

    Where that succeeded, the module would end the server.
    """
    with served_dashboard(
        server_log, first="/components/unittest.__main__/TestProgram/css/x"
    ) as at:
        yield at


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Groups and slow tests start first: no worker waits for one of them at the end."""
    first = ("xdist_group", "slow")
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in first])
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(900))
    grouped = [item for item in items if item.get_closest_marker("xdist_group")]
    if "PYTEST_XDIST_WORKER" in os.environ and not all("@" in item.nodeid for item in grouped):
        raise pytest.UsageError(
            "pytest: this version's groups share no worker, see pyproject.toml"
        )
