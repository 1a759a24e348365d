"""A choice is one line, a problem's own picture one file and one function."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import amci_explorer
import pytest

PACKAGE = Path(amci_explorer.__file__).parent
CHOICE = """\
    burn_in: Any = param.Integer(5, bounds=(0, 50), label="Burn-in", precedence=4, doc="Left out.")
"""
USE_CHOICE = """
from amci_explorer.state.case import Case
from amci_explorer.views.controls import Controls

case = Case()
assert case.burn_in == 5
assert case.read({"burn_in": "99"})["burn_in"].startswith("expected a whole number from 0 to 50")
assert case.burn_in == 50 and case.link()["burn_in"] == "50"
field = Controls(case, about=None, downloads=[]).widgets["burn_in"]
assert (field.label, field.value, field.helper_text) == ("Burn-in", "50", "Left out.")
field.value = "7"
assert case.burn_in == 7
field.value = "99"
assert case.burn_in == 7 and field.error_state
case.go(-1)
assert case.burn_in == 50 and field.value == "50"
case.reset()
assert case.burn_in == 5
"""
PICTURE = '''
"""Densities of the peak on the square, from its optimal proposal alone."""

from amci_explorer.numbers.plane import plane_densities


def calm_densities(problem, proposals, y, theta, look):
    return plane_densities(problem, proposals, y, theta, look)
'''
REGISTERED = """

from amci_core.models.peak import ProductPeak as _Peak
from amci_explorer.numbers.calm import calm_densities


class Calm(_Peak):
    name = "calm"


@picture_of.register
def _(_: Calm) -> Picture:
    return Picture(calm_densities, "peak")
"""
USE_PICTURE = """
import amci_core as amci
from amci_explorer.numbers.pictures import Calm, densities, picture_of

problem = Calm()
assert picture_of(problem).numbers.__name__ == "calm_densities"
found = densities(problem, amci.load_proposals(problem, variant="oracle"), None, (0.3, 0.7, 0.4))
assert found.divergence < 1e-6
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the page's package, and what runs a script with it."""
    copy = tmp_path / "amci_explorer"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def run(script: str) -> None:
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": path}
        subprocess.run([sys.executable, "-c", script], env=environment, check=True)

    return copy, run


def test_a_choice_is_one_line_with_its_link_steps_and_widget(copied):
    copy, run = copied
    path, before = copy / "state" / "case.py", "    alpha: Any"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, CHOICE + before))
    run(USE_CHOICE)


def test_a_picture_of_ones_own_is_one_file_and_one_function(copied):
    copy, run = copied
    (copy / "numbers" / "calm.py").write_text(PICTURE)
    registry = copy / "numbers" / "pictures.py"
    registry.write_text(registry.read_text() + REGISTERED)
    run(USE_PICTURE)
