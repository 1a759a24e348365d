"""The names that `import amci_core` promises."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import amci_core as amci


def test_every_public_name_is_there():
    for name in amci.__all__:
        assert getattr(amci, name) is not None
        assert name in dir(amci)
    assert callable(amci.estimate)
    with pytest.raises(AttributeError, match="no attribute 'estimat'"):
        _ = amci.estimat


def test_the_version_is_that_of_the_project():
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    assert tomllib.loads(project.read_text())["project"]["version"] == amci.__version__


def test_importing_leaves_global_state_alone():
    code = """
import torch
state, threads = torch.random.get_rng_state(), torch.get_num_threads()
import amci_core as amci
import amci_core.cli, amci_core.errors
amci.load_proposals("tail-1d", variant="oracle")
assert torch.equal(torch.random.get_rng_state(), state)
assert torch.get_num_threads() == threads
assert torch.get_default_dtype() is torch.float32
assert torch.is_grad_enabled()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
