r"""A grid of trainings: problems, variants, seeds and settings of a recipe, in a TOML file.

`[base]` says what all trainings share, `[grid]` lists values to try, all combinations of them; a
setting is named by its place in the recipe:

    [base]
    problem = "tail-1d"
    minutes = 0.5

    [grid]
    seed = [0, 1]
    "terms.q1_plus.learning_rate" = [0.003, 0.01]
"""

from __future__ import annotations

__all__ = ["folder_name", "read_grid", "recipe_of"]

import copy
import hashlib
import itertools
import json
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from amci_core.checks import check_number, check_seed
from amci_core.devices import AUTO
from amci_core.files import StoredFileError, plain, read_text, write_json
from amci_core.models import problem as problem_named
from amci_core.models import problems
from amci_core.training.data import TARGETS
from amci_core.training.fit import proposal_of
from amci_core.training.recipes import DEFAULT_VARIANT, FILE, read_recipe, recipe

BASE = {"problem": None, "variant": DEFAULT_VARIANT, "minutes": None, "seed": 0, "device": "cpu"}
MOST = 1000
# Parts of a term's recipe that take further names.
FREE = ("arguments", "settings")


def read_grid(path: Path) -> list[dict[str, Any]]:
    """The trainings of a grid: for each the names in `[base]` and places in the recipe.

    Raises:
        StoredFileError: the file cannot be read or is no TOML.
        ValueError: a name is unknown, a list is empty, or there are more than 1000 combinations.
    """
    try:
        content = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise StoredFileError(f"{path}: not valid TOML ({error})") from None
    unknown = content.keys() - {"base", "grid"}
    if unknown:
        raise ValueError(f"{path}: expected [base] and [grid], got {', '.join(sorted(unknown))}")
    base, grid = content.get("base", {}), content.get("grid", {})
    for name, table in (("base", base), ("grid", grid)):
        if not isinstance(table, dict):
            raise ValueError(f"{path}: expected a table as [{name}], got {table!r}")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{path}: expected a list of values as grid.{name}, got {values!r}")
    for name in (*base, *grid):
        if name not in BASE and not name.startswith("terms."):
            expected = f"{', '.join(BASE)} or a place in the recipe such as"
            raise ValueError(
                f"{path}: expected {expected} terms.q1_plus.learning_rate, got {name!r}"
            )
    count = 1
    for values in grid.values():
        count *= len(values)
    if count > MOST:
        raise ValueError(f"{path}: expected at most {MOST:,} combinations, got {count:,}")
    every = [
        {**BASE, **base, **dict(zip(grid, values, strict=True))}
        for values in itertools.product(*grid.values())
    ]
    for settings in every:
        _check(path, settings)
    names = [folder_name(settings) for settings in every]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: expected different trainings, got {twice} twice")
    return every


def _check(path: Path, settings: Mapping[str, Any]) -> None:
    """Whether a training can be begun with these settings."""
    problem = settings["problem"]
    if problem not in problems():
        expected = f"one of {', '.join(problems())} as the problem"
        raise ValueError(f"{path}: expected {expected}, got {problem!r}")
    check_seed(settings["seed"])
    if settings["minutes"] is not None:
        check_number("minutes", settings["minutes"], "a number above 0", lambda v: v > 0)
    try:
        # Where it is trained, on Dask's workers say, there may be devices that are not here.
        torch.device("cpu" if settings["device"] == AUTO else settings["device"])
    except (RuntimeError, TypeError):
        expected = f"device: expected {AUTO}, cpu or a torch device"
        raise ValueError(f"{expected}, got {settings['device']!r}") from None
    for name, value in settings.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"{path}: expected numbers and words as {name}, got {value!r}"
            ) from None
    recipe_of(settings)


def recipe_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of a training: the shipped one, with what the settings change."""
    shipped = recipe(settings["problem"], settings["variant"])
    content: dict[str, Any] = copy.deepcopy(json.loads(json.dumps(plain(asdict(shipped)))))
    for place, value in settings.items():
        if place in BASE:
            continue
        *path, last = place.split(".")
        entry: Any = content
        for step in path:
            entry = entry.get(step) if isinstance(entry, dict) else None
        # An argument that the recipe leaves out may be given; the family refuses what it lacks.
        free = len(path) == 3 and path[2] in FREE
        if not isinstance(entry, dict) or not (last in entry or free):
            raise ValueError(f"grid: {place} is no place in the recipe of {settings['problem']}")
        entry[last] = value
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / FILE, content)
        try:
            read = read_recipe(Path(folder))
        except StoredFileError as error:
            raise ValueError(f"grid: {str(error).partition(': ')[2]}") from None
    problem = problem_named(settings["problem"])
    for name, term in read.terms.items():
        proposal_of(TARGETS[name](problem).problem, term)
    return content


def folder_name(settings: Mapping[str, Any]) -> str:
    """A folder's name that says what was chosen."""
    text = json.dumps(settings, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{settings['problem']}-{settings['variant']}-{settings['seed']}-{digest}"
