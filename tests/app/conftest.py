"""What tests of the page share."""

import importlib.util

import pytest
from own_problems import write

from app import own


@pytest.fixture
def new(tmp_path, monkeypatch):
    """Hands in a problem from a file; gives it with its proposals."""

    def make(*, shift=0.2, **options):
        found = importlib.util.spec_from_file_location("new", write(tmp_path, **options))
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        problem, proposals = module.New(), module.wide(shift)
        own.hand_in(problem, proposals)
        return problem, proposals

    monkeypatch.setattr(own, "OWN", {})
    return make
