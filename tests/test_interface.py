"""The names that `import amci_core` promises."""

import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import amci_core as amci
from amci_core import training


def test_every_public_name_is_there():
    for name in amci.__all__:
        assert getattr(amci, name) is not None
        assert name in dir(amci)
    assert callable(amci.estimate)
    with pytest.raises(AttributeError, match="no attribute 'estimat'"):
        _ = amci.estimat


ODD = [5, 10**400, {}, [], (), object(), True, 1j, b"a", math.nan, ""]
PATHS = {
    "load_proposals": lambda odd: amci.load_proposals("tail-1d", folder=odd),
    "save_proposals": lambda odd: amci.save_proposals(odd, amci.load_proposals("peak")),
    "train": lambda odd: training.train("tail-1d", out=odd, minutes=0.02),
}
NUMBERS = {
    "shift": lambda odd: amci.estimate(*of("gain-loss"), 1.0, 0.4, shift=odd),
    "pilot's shift": lambda odd: amci.pilot_moments(*of("gain-loss"), 1.0, 0.4, shift=odd),
    "shift of terms": lambda odd: amci.estimate_terms(amci.problem("peak"), theta=AT, shift=odd),
    "alpha": lambda odd: amci.tables.reuse(odd, 0.0),
    "beta": lambda odd: amci.tables.reuse(0.0, odd),
    "relative_error": lambda odd: amci.reference(amci.problem("peak"), relative_error=odd),
    "method": lambda odd: amci.reference(amci.problem("peak"), theta=AT, method=odd),
    "level": lambda odd: amci.problem("tail-1d").at_mismatch(odd, 1.0, 3.0),
    "total": lambda odd: amci.split_budget(amci.pilot_moments(*of("tail-1d"), 1.0, 3.0), odd),
    "costs": lambda odd: amci.split_budget(amci.pilot_moments(*of("tail-1d"), 1.0, 3.0), 9, odd),
    "along": lambda odd: amci.amortization_map(*of("tail-1d"), along=odd),
    "minutes": lambda odd: training.train("tail-1d", out="unused", minutes=odd),
    "device": lambda odd: training.train("tail-1d", out="unused", device=odd),
    "budget": lambda odd: training.parse_budget(odd),
    "terms": lambda odd: training.learn(amci.problem("tail-1d"), odd),
    "variant": lambda odd: training.recipe("tail-1d", odd),
}
# Where any real number is allowed.
REAL = ("shift", "pilot's shift", "shift of terms", "alpha", "beta", "level", "minutes", "total")
AT = [0.5, 0.5, 0.5]


def of(name):
    return amci.problem(name), amci.load_proposals(name)


@pytest.mark.parametrize("argument", PATHS)
def test_what_is_no_path_is_refused_by_name(argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        with pytest.raises(ValueError, match=r"^(folder|out): expected a path"):
            PATHS[argument](odd)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("argument", NUMBERS)
def test_odd_objects_are_refused_by_name(argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        # Real numbers are fine where one is wanted; True is one.
        if not (argument in REAL and odd in (5, True)):
            with pytest.raises(ValueError, match=r"^[a-z_ 0-9]+: expected"):
                NUMBERS[argument](odd)
    assert not list(tmp_path.iterdir())


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
