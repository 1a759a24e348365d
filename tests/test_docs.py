"""The documentation builds without a warning, asks no other server, and what it says is so."""

import doctest
import importlib
import os
import pkgutil
import pydoc
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import amci_explorer
import pytest
from amci_explorer.compute import runner
from amci_explorer.numbers import typical
from amci_explorer.server import guard, serve
from amci_explorer.state.case import Case
from amci_explorer.static import folder
from amci_explorer.views import evaluation, train
from hidden import KNOWLEDGE

import amci_core
from amci_core.cli import main
from amci_core.diagnostics import verdict
from amci_core.estimators import draws
from amci_core.flows import FAMILIES
from amci_core.models import Problem, expression
from amci_core.training import quality
from benchmarks.paper import claims

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
WRITTEN = [ROOT / "README.md", CONTRIBUTING, ROOT / "pretrained" / "README.md", *PAGES]
LINK = re.compile(r"\]\((?!https?:|#)([^)\s]+)\)")
NAMED = re.compile(r"`((?:amci_core|app|benchmarks|docs|notebooks|pretrained|tests)/[\w./-]+)`")
# The Python of a section is one program, read from top to bottom.
EXAMPLES = [
    (page.name, "\n".join(blocks))
    for page in PAGES
    for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    if (blocks := re.findall(r"```python\n(.*?)```", section, re.DOTALL))
]
COMMANDS = [
    (page.name, command)
    for page in (ROOT / "README.md", CONTRIBUTING, *PAGES)
    for command in re.findall(
        r"^    ((?:amci|make|panel) .*?)(?:  +#.*)?$", page.read_text(), re.M
    )
]


@pytest.mark.slow
def test_pages_are_built_without_a_warning_and_load_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--config-file", "docs/mkdocs/mkdocs.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for path in pages:
        loaded = re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", path.read_text())
        foreign = re.compile(r"""\b(?:src|href)=["']?(?:https?:)?//""")
        found = [tag for tag in loaded if foreign.search(tag) and "canonical" not in tag]
        assert not found, path
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"""url\(["']?https?:""", style.read_text()), style


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_files_it_links_to_and_names_exist(path):
    text = path.read_text()
    for link in LINK.findall(text):
        assert (path.parent / link.partition("#")[0]).exists(), link
    for name in NAMED.findall(text):
        assert (ROOT / name).exists(), name


def test_the_dotted_names_of_modules_and_functions_exist():
    # What left may be named where that is told.
    for path in {*WRITTEN, ROOT / "CHANGELOG.md"}:
        text = path.read_text().partition("### Removed")[0]
        for name in re.findall(r"`(amci_(?:core|explorer)(?:\.\w+)+)", text):
            assert pydoc.locate(name) is not None, f"{path.name}: {name}"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_its_examples_run(page, example, monkeypatch):
    # A cell starts a server, which is for test_binder.py.
    monkeypatch.setattr("amci_explorer.cell._served", lambda hub: "http://localhost/dashboard")
    for library in re.findall(r"^import (pymc|numpyro)\b", example, re.MULTILINE):
        pytest.importorskip(library)
    with patch.dict(FAMILIES):  # one registers a family
        exec(compile(example, page, "exec"), {"__name__": page})


def test_the_quickstart_quotes_its_first_verdict():
    said = amci_core.estimate("tail-1d", y=1.0, theta=3.0, draws=128).verdict.text
    told = " ".join((DOCS / "quickstart.md").read_text().split())
    assert f'it says "{said.removeprefix("reliable: ")}"' in told


def test_the_rules_of_verdicts_are_those_of_the_code():
    page = " ".join((DOCS / "estimators.md").read_text().split())
    assert (verdict.OWN, verdict.LEAST_OWN, verdict.EXACT[0]) == (1 / 5, 1.5, 2)
    for said in (
        f"must be at least {verdict.UNKNOWN[0]}, with at least {verdict.LEAST_JUDGED} draws in",
        "needs a fifth of it, and at least 1.5,",
        f"by at most {verdict.AGREE} standard errors of the difference; beyond four",
        f"ten if the check after training did not find every case good, {verdict.POOR[1]} if",
        f"relative ESS above {verdict.LEAST_GOOD}",
    ):
        assert said in page, said
    assert (verdict.CONTRADICT, verdict.UNKNOWN[1], verdict.INEXACT[1]) == (4, 3, 10)
    assert "An eighth of it, at least four draws, comes from the **defensive density**" in page
    assert (draws.DEFENSIVE_SHARE, draws.LEAST_DEFENSIVE, draws.COMPLEMENT_SHARE) == (
        1 / 8,
        4,
        1 / 8,
    )
    assert f"in {draws.LEAST_SETS} to {2 * draws.LEAST_SETS - 1} independent sets per" in page


def test_limits_and_sizes_on_the_pages_are_those_of_the_code():
    case, kept = Case.param, guard.MOST_KEPT // 2**20
    said = {
        "serving.md": (
            f"| {runner.DEFAULT_SECONDS:g} CPU-seconds;",
            f"one a visitor, {max(train.MINUTES.values()):g} minutes each",
            f"| {guard.LONGEST_MESSAGE // 2**10} kB, {guard.MOST_OBJECTS} objects; {kept} MB of",
            f"above {guard.MOVE // 2**10} kB a session",
            f"| released after {serve.MILLISECONDS_KEPT // 1000} s |",
            f"| {expression.LONGEST} characters |",
            f"| {case.draws.bounds[1]:,} and {case.runs.bounds[1]:,} |",
        ),
        "dashboard.md": (
            f"among {typical.DRAWS:,} simulated",
            f"for {evaluation.CASES} cases with {evaluation.RUNS} runs each",
        ),
        "training.md": (
            "of {:g} to {:g} %".format(*(100 * quality.MIXTURE_WEIGHTS[end] for end in (0, -1))),
            f"on {quality.CASES} held-out cases with up to {quality.DRAWS:,} draws each",
            f"a relative ESS above {verdict.ALL_BUT_EXACT}",
        ),
        "teaching.md": (f"error curves over {folder.RUNS:,} runs",),
    }
    for name, texts in said.items():
        page = " ".join((DOCS / name).read_text().split())
        assert [text for text in texts if text not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_its_commands_are_there(page, command, tmp_path, monkeypatch):
    program, *words = shlex.split(command)
    if program == "make":
        dry = ["make", "--dry-run", *words]
        done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif program == "panel":
        assert words[0] == "serve"
        assert (ROOT / words[1]).is_file()
    else:
        monkeypatch.chdir(tmp_path)
        # What training writes is for its own tests; here it must only be asked for rightly.
        monkeypatch.setattr("amci_core.learn", lambda *_, **__: amci_core.load_proposals("peak"))
        with pytest.raises(SystemExit) as ended:
            main([{"100": "3", "fig1": "fig2"}.get(word, word) for word in words])
        assert ended.value.code == 0


def test_the_tables_of_what_proposals_reach_are_those_of_the_evaluations():
    tables = runpy.run_path(str(DOCS / "results" / "reach.py"))
    assert tables["PAGE"].read_text() == tables["render"](), "run: python docs/results/reach.py"


def test_every_claim_of_the_paper_is_on_the_page_and_answered():
    page = (DOCS / "results" / "figures.md").read_text()
    for claim in claims.CLAIMS:
        assert f"| {claim.says} | {claim.measure} |" in page
    assert claims.OPEN not in page


@pytest.mark.parametrize(
    ("holds", "number", "said"),
    [
        (claims.above(1), (3.0, 0.5), True),
        (claims.above(1), (0.1, 0.2), False),
        (claims.below(1), (0.1, 0.2), True),
        (claims.about(10, 2), (30.0, 1.0), False),
        (claims.about(10, 2), (2.0, 1.0), False),
        (claims.about(10, 2), (19.0, 1.0), None),
        (claims.about(10, 2), (19.0, float("nan")), True),
    ],
)
def test_a_claim_is_judged_beyond_two_standard_errors(holds, number, said):
    assert holds(claims.Number(*number)) is said


def test_the_tables_of_names_and_options_are_those_of_the_code():
    pages = runpy.run_path(str(DOCS / "reference.py"))["PAGES"]
    for name, text in pages.items():
        assert (DOCS / name).read_text() == text(), "run: python docs/reference.py"
    page = (DOCS / "reference.md").read_text()
    for name in {*dir(amci_core)} - {"tables"}:
        assert f"| `amci.{name}` |" in page, name
    for method in (*Problem.__abstractmethods__, *KNOWLEDGE):
        assert re.search(rf"^\| `{method}(\(.*\))?` \| \S", page, re.MULTILINE), method
    # Every line says something, and nothing that only the site can show is left.
    assert not re.search(r"\|  \||:::", page)


# Modules that act when imported, and those whose examples take seconds.
ACT = ("amci_core.__main__", "amci_explorer.dashboard", "amci_explorer.server.guard")
ACT += ("amci_explorer.static.__main__",)
LONG = ("amci_core.flows.families", "amci_core.training.learn")
MODULES = [
    found.name
    for package in (amci_core, amci_explorer)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if "_pretrained" not in found.name and found.name not in (*ACT, *LONG)
]


@pytest.mark.parametrize(
    ("names", "least"),
    [
        (["amci_core", "amci_explorer", *MODULES], 100),
        pytest.param(LONG, 10, marks=pytest.mark.slow),
    ],
    ids=["short", "long"],
)
def test_the_examples_in_docstrings_give_what_they_show(names, least):
    results = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) >= least
