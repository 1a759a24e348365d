"""What a visit leaves behind, once its page is closed: nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
# In a process of its own: what an extension adds to Panel would show in other tests.
SERVER = """
import asyncio, gc, sys

sys.path.insert(0, "tests")
import panel as pn
from bokeh.plotting import figure
from panel.io.server import get_server
from protocol import Page

from amci_explorer.explorer import Explorer


def alive(kind):
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


async def visit(address):
    page = await Page.come(address)
    await page.receive_until("PATCH-DOC")
    await page.change(page.model(title="AMCI Explorer")["id"], "dark_theme", True)
    await page.change(page.model(label="Threshold θ")["id"], "value", 2.5)
    await page.receive_until("PATCH-DOC")
    page.leave()


async def main(visits):
    server = get_server(
        {"dashboard": "app/dashboard.py"}, port=0, websocket_origin=["*"],
        unused_session_lifetime_milliseconds=200, check_unused_sessions_milliseconds=100,
    )
    server.start()
    for _ in range(visits):
        await visit(f"http://localhost:{server.port}/dashboard")
    for _ in range(100):
        if not alive(Explorer) and not alive(figure):
            break
        await asyncio.sleep(0.2)
    print(alive(Explorer), "pages and", alive(figure), "pictures are left", flush=True)
    server.stop()


asyncio.run(main(int(sys.argv[1])))
"""


@pytest.mark.slow
def test_nothing_is_left_of_two_visits():
    done = subprocess.run(
        [sys.executable, "-c", SERVER, "2"],
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.endswith("0 pages and 0 pictures are left\n"), done.stdout + done.stderr
