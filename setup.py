"""Says which packages are installed; everything else is in pyproject.toml.

The trained proposals live in `pretrained/` at the top of the repository. In an installed package
they are the data files of `amci_core._pretrained`; `amci_core._files.pretrained_root` finds both.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["amci_core", "amci_core.*", "app", "app.*"]),
        "amci_core._pretrained",
    ],
    package_dir={"amci_core._pretrained": "pretrained"},
)
