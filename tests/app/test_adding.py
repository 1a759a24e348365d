"""A choice is one line, a problem's own picture one function."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import amci_explorer
import pytest
from amci_explorer.numbers.pictures import Picture, densities, picture_of
from amci_explorer.numbers.plane import plane_densities

import amci_core as amci
from amci_core.models.peak import ProductPeak

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
case.go(-1)
assert case.burn_in == 50 and field.value == "50"
"""


@pytest.mark.slow
def test_a_choice_is_one_line_with_its_link_steps_and_widget(tmp_path):
    shutil.copytree(Path(amci_explorer.__file__).parent, tmp_path / "amci_explorer")
    path, before = tmp_path / "amci_explorer" / "state" / "case.py", "    alpha: Any"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, CHOICE + before))
    found_first = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": found_first}
    subprocess.run([sys.executable, "-c", USE_CHOICE], env=environment, check=True, timeout=120)


def test_a_picture_of_your_own_is_one_function():
    class Calm(ProductPeak):
        name = "calm"

    def calm_densities(*case):
        return plane_densities(*case)

    @picture_of.register
    def _(_: Calm) -> Picture:
        return Picture(calm_densities, "peak")

    problem = Calm()
    assert picture_of(problem).numbers is calm_densities
    proposals = amci.load_proposals(problem, variant="oracle")
    assert densities(problem, proposals, None, (0.3, 0.7, 0.4)).divergence < 1e-6
