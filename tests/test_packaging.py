"""What is installed is complete, and every list of requirements says the same."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"pytorch-cpu": "torch"}
FOLDERS = {"amci_core": "amci_core", "app": "app", "pretrained": "amci_core/_pretrained"}
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is built from."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy)
    for name in FOLDERS:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=NOT_SOURCE)
    return copy


@pytest.fixture(scope="module")
def expected(source: Path) -> set[str]:
    """The path that every source file must have in the wheel."""
    return {
        f"{target}/{path.relative_to(source / folder).as_posix()}"
        for folder, target in FOLDERS.items()
        for path in (source / folder).rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def installed(source: Path, expected: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network and unpacked as an installer would."""
    wheels = tmp_path_factory.mktemp("wheels")
    options = "--no-deps --no-build-isolation --no-index --quiet --wheel-dir".split()
    pip_wheel = [sys.executable, "-m", "pip", "wheel", *options, str(wheels), str(source)]
    result = subprocess.run(pip_wheel, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    site_packages = tmp_path_factory.mktemp("site-packages")
    (wheel,) = wheels.glob("*.whl")
    ZipFile(wheel).extractall(site_packages)
    return site_packages


def test_wheel_holds_every_file(installed: Path, expected: set[str]):
    files = {path.relative_to(installed).as_posix() for path in installed.rglob("*")}
    assert {"amci_core/__init__.py", "app/dashboard.py"} <= expected
    assert expected - files == set()


def test_wheel_installs_the_command(installed: Path):
    (metadata,) = installed.glob("*.dist-info")
    (command,) = PathDistribution(metadata).entry_points.select(group="console_scripts")
    assert (command.name, command.value) == ("amci", "amci_core.cli:main")
    module = installed.joinpath(*command.module.split("."))
    assert module.with_suffix(".py").is_file() or module.joinpath("__init__.py").is_file()


def pretrained_root(package: Path) -> Path:
    """What `pretrained_root` answers in the given copy of the package."""
    return runpy.run_path(str(package / "files.py"))["pretrained_root"]()


def test_trained_proposals_are_found_wherever_the_package_is(
    installed: Path, source: Path, tmp_path: Path
):
    in_wheel = pretrained_root(installed / "amci_core")
    assert in_wheel == installed / "amci_core" / "_pretrained"
    in_checkout = pretrained_root(source / "amci_core")
    assert in_checkout == source / "pretrained"

    shutil.copy(source / "amci_core" / "files.py", tmp_path)
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
