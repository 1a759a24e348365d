r"""Writes `docs/reference.md`, the table of public names, and `docs/cli.md`, the commands.

Run `python docs/reference.py` after a public name, the first sentence of its docstring or an
option of a command has changed. The site shows the whole docstrings below the table, in the order
of `docs/mkdocs/interface.md`.
"""

from __future__ import annotations

__all__ = ["PAGES"]

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.main import get_command

import amci_core as amci
from amci_core.cli import app as command_line
from amci_core.models import LineProblem, Problem

HEAD = """\
# Interface

`import amci_core as amci` gives the names that begin with `amci`; the others are imported from the
module named. Every one has a docstring with its arguments, shapes, errors and an example:
`help(amci.estimate)` shows it, and so does the site that `make docs` builds. [The
command line](cli.md) has a page of its own. `docs/reference.py` writes both.
"""
COMMANDS = """\
# Command line

`amci COMMAND --help` shows the same. A mistake ends a command with one line and exit code
2. Ctrl-C or SIGTERM keeps what a training or an evaluation has so far. `docs/reference.py` writes
this page.

"""
# A heading, and what stands below it: names by where they are imported from.
GROUPS = {
    "Problems": {
        "amci": (
            *(
                "problems",
                "problem",
                "model",
                "problem_from",
                "several",
                "from_pymc",
                "from_numpyro",
            ),
            *("from_stan", "load_problem", "with_target", "check", "Problem", "Variable"),
        ),
        "amci_core.checking": ("Checked", "Finding"),
        "amci_core.models": ("LineProblem", "DefensiveDensity"),
    },
    "Proposals": {
        "amci": ("load_proposals", "load_history", "fallback_proposals", "Proposals"),
        "amci_core.flows": ("AtContext", "HistoryEntry", "PosteriorDraws"),
    },
    "Training": {
        "amci": ("learn", "Choices"),
        "amci_core.training": ("Objective", "Progress", "form_names", "recipe", "write_card"),
    },
    "Estimates": {
        "amci": (
            *("estimate", "estimate_several", "estimate_to"),
            *("reference_value", "estimate_from_draws"),
        ),
        "amci_core.estimation.result": ("Estimate", "Term", "Precise"),
        "amci_core.estimation": ("Several", "TableEstimates"),
        "amci_core.diagnostics": ("TermDiagnostics", "Verdict"),
        "amci_core.reference": ("ReferenceValue",),
    },
    "Errors": {
        "amci": ("error_curves", "reuse_errors", "evaluate", "amortization_map", "read_cases"),
        "amci_core.evaluation": (
            *("ErrorCurves", "Curve", "ReuseErrors", "Evaluation", "KnownCases", "runs_by_draws"),
        ),
    },
    "Tables": {
        "amci_core.estimators.tables": (
            *("amci", "snis_q1", "snis_q2", "reuse", "paper_optimum", "optimum"),
        ),
    },
    "In notebooks": {
        "amci_explorer.plots": ("densities", "error_curves", "diagnostics"),
        "amci_explorer.cell": ("Explorer",),
    },
}


def render() -> str:
    """The page."""
    parts = [HEAD]
    for title, modules in GROUPS.items():
        parts.append(f"## {title}\n\n| name | what it is |\n|---|---|\n" + "".join(_rows(modules)))
    parts.append(_problem())
    return "\n".join(parts)


def _rows(modules: dict[str, tuple[str, ...]]) -> Iterator[str]:
    for module, names in modules.items():
        home = amci if module == "amci" else import_module(module)
        for name in names:
            yield f"| `{module}.{name}` | {first_sentence(getattr(home, name))} |\n"


def first_sentence(value: Any) -> str:
    """Of a docstring, ready for a table."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    found = re.match(r".*?(?<!\beq)[.](?=\s|$)", text)
    sentence = found[0] if found else text
    return re.sub(r"([|*_<])", r"\\\1", sentence) if "`" not in sentence else _outside(sentence)


def _outside(sentence: str) -> str:
    """Escapes what Markdown would read, but not within code."""
    parts = sentence.split("`")
    parts[::2] = [re.sub(r"([|*_<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def commands() -> str:
    """The commands and their options, as typer has them."""
    parts = [COMMANDS, "| command, option | what it does or sets |\n|---|---|\n"]
    for name, command in get_command(command_line).commands.items():
        given = [each for each in command.params if each.param_type_name == "argument"]
        words = " ".join((f"amci {name}", *(each.metavar for each in given)))
        parts.append(f"| **`{words}`** | {first_sentence(command.callback)} |\n")
        parts += [
            f"| `{each.metavar if each in given else each.opts[0]}` | {_outside(each.help)} |\n"
            for each in command.params
        ]
    return "".join(parts)


def _problem() -> str:
    """What a problem declares and defines."""
    needed, optional, known = [], [], []
    for name, value in vars(Problem).items():
        method = value.fget if isinstance(value, property) else value
        # The methods that answer stand below those that a subclass defines.
        if name == "check":
            break
        if not inspect.isfunction(method) or name.startswith("__"):
            continue
        group = known if name.startswith("_") or name.startswith("knows") else optional
        group = needed if name in Problem.__abstractmethods__ else group
        group.append(_method(name, value, method))
    table = "\n\n| method | what it gives |\n|---|---|\n"
    return (
        "## What a problem defines\n\nA subclass of `amci_core.models.Problem` declares `name`, "
        "`x`, `nonnegative` and, where there are any, `y` and\n`theta`, and defines" + table
        + "".join(needed) + "\nwith y also `log_likelihood` and `sample_likelihood`. The rest has "
        "a default:" + table + "".join(optional) + "\nWhat may be known of the truth; "
        f"`{LineProblem.__name__}` finds it by quadrature:" + table + "".join(known)
        + "\nWhat it answers, with arguments checked, shows `help(amci.Problem)`.\n"
    )  # fmt: skip


def _method(name: str, value: Any, method: Any) -> str:
    if isinstance(value, property):
        return f"| `{name}` | {first_sentence(method)} |\n"
    arguments = [
        f"{each.name}=" if each.default is not each.empty else each.name
        for each in inspect.signature(method).parameters.values()
        if each.name != "self"
    ]
    return f"| `{name}({', '.join(arguments)})` | {first_sentence(method)} |\n"


# The pages by their files.
PAGES = {"reference.md": render, "cli.md": commands}

if __name__ == "__main__":
    for name, text in PAGES.items():
        Path(__file__).with_name(name).write_text(text(), encoding="utf-8")
