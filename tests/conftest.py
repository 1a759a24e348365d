"""What holds for every test."""

import pytest
import torch
from serving import headless_browser

# One thread each: workers that each start one thread a core wait for one another.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium: one for a worker process, since Playwright allows no second one."""
    with headless_browser() as chromium:
        yield chromium
