"""What is installed is complete, and every list of requirements says the same."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from serving import environment

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"pytorch-cpu": "torch"}
FOLDERS = {
    "amci_core": "amci_core",
    "app/amci_explorer": "amci_explorer",
    "docs": "amci_explorer/_docs",
    "pretrained": "amci_core/_pretrained",
}
NOT_SOURCE = ("__pycache__", "*.pyc", ".*")
# The server shows pages and pictures of docs/ only.
NOT_PAGES = ("*.py", "*.json", "mkdocs")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what the package is built from."""
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy)
    for name in FOLDERS:
        left_out = NOT_SOURCE + (NOT_PAGES if name == "docs" else ())
        ignore = shutil.ignore_patterns(*left_out)
        shutil.copytree(REPOSITORY / name, copy / name, ignore=ignore)
    return copy


@pytest.mark.slow
def test_a_wheel_holds_every_file_and_the_command_and_finds_its_proposals(source, tmp_path):
    wheels, installed = tmp_path / "wheels", tmp_path / "site-packages"
    options = f"--no-deps --no-build-isolation --no-index --quiet --wheel-dir {wheels}".split()
    pip_wheel = [sys.executable, "-m", "pip", "wheel", *options, str(source)]
    done = subprocess.run(pip_wheel, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.glob("*.whl")
    ZipFile(wheel).extractall(installed)
    files = {path.relative_to(installed).as_posix() for path in installed.rglob("*")}
    for folder, target in FOLDERS.items():
        for path in (source / folder).rglob("*"):
            assert f"{target}/{path.relative_to(source / folder).as_posix()}" in files
    (metadata,) = installed.glob("*.dist-info")
    (command,) = PathDistribution(metadata).entry_points.select(group="console_scripts")
    assert (command.name, command.value) == ("amci", "amci_core.cli:main")
    assert "amci_core/cli/__init__.py" in files

    def pretrained_root(package: Path) -> Path:
        return runpy.run_path(str(package / "io.py"))["pretrained_root"]()

    assert pretrained_root(installed / "amci_core") == installed / "amci_core" / "_pretrained"
    assert pretrained_root(source / "amci_core") == source / "pretrained"
    shutil.copy(source / "amci_core" / "io.py", tmp_path)
    with pytest.raises(FileNotFoundError, match="trained proposals are missing"):
        pretrained_root(tmp_path)


def lower_bounds(requirements: list[str]) -> dict[str, str]:
    """Maps each project name to its version range, in one spelling."""
    # conda writes python=3.12 where pip writes python==3.12.
    spelt = [re.sub(r"(?<![<>=!~])=(?!=)", "==", re.sub(r"\s", "", r)) for r in requirements]
    parsed = [Requirement(text) for text in spelt]
    return {CONDA_NAMES.get(r.name, r.name): str(r.specifier) for r in parsed}


def test_conda_environment_agrees_with_the_package():
    environment = yaml.safe_load((REPOSITORY / "environment.yml").read_text())
    from_conda = [line for line in environment["dependencies"] if isinstance(line, str)]
    (from_pip,) = [line["pip"] for line in environment["dependencies"] if isinstance(line, dict)]
    assert "-e ." in from_pip
    found = lower_bounds(from_conda + [line for line in from_pip if line != "-e ."])
    assert found.pop("pip") == ""
    pinned = found.pop("python").removeprefix("==")
    assert SpecifierSet(PROJECT["requires-python"]).contains(pinned)

    notebooks = PROJECT["optional-dependencies"]["notebooks"]
    assert found == lower_bounds(PROJECT["dependencies"] + notebooks)


def frozen() -> dict[str, str]:
    """Maps each project in constraints.txt to its version, in one spelling."""
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+", line) for line in lines)
    return {canonicalize_name(name): version for name, version in (s.split("==") for s in lines)}


def test_constraints_cover_every_requirement():
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]
    lists = PROJECT["dependencies"], build["requires"], *PROJECT["optional-dependencies"].values()
    versions = frozen()
    for requirement in map(Requirement, chain(*lists)):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
    assert not [name for name in versions if name.startswith(("nvidia", "cuda", "amci"))]


def test_the_docs_install_the_tested_pytorch():
    text = (REPOSITORY / "docs" / "install.md").read_text()
    assert {*re.findall(r"torch==([\d.]+\d)", text)} == {frozen()["torch"]}


@pytest.mark.slow
def test_the_command_and_the_page_need_nothing_of_posix():
    program = [sys.executable, REPOSITORY / "tests" / "without_posix.py"]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reliable" in done.stdout
