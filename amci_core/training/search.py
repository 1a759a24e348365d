r"""Many trainings at once: problems, variants, seeds and settings of a recipe, over a grid.

A grid is a TOML file. `[base]` says what all trainings share, `[grid]` lists values to try, all
combinations of them; a setting is named by its place in the recipe:

    [base]
    problem = "tail-1d"
    minutes = 0.5

    [grid]
    seed = [0, 1]
    "terms.q1_plus.learning_rate" = [0.003, 0.01]
"""

from __future__ import annotations

__all__ = ["Tried", "read_grid", "search"]

import copy
import itertools
import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock
import torch

from amci_core.checks import check_number, check_seed
from amci_core.devices import AUTO
from amci_core.files import StoredFileError, make_folder, plain, read_json, read_text, write_json
from amci_core.models import problem as problem_named
from amci_core.models import problems
from amci_core.tasks import Where, run_tasks
from amci_core.training.data import TARGETS
from amci_core.training.fit import proposal_of
from amci_core.training.recipes import DEFAULT_VARIANT, FILE, read_recipe, recipe
from amci_core.training.train import train

BASE = {"problem": None, "variant": DEFAULT_VARIANT, "minutes": None, "seed": 0, "device": "cpu"}
MOST = 1000
RECORD, SUMMARY, LOCK = "tried.json", "search.json", ".search.lock"
# Parts of a term's recipe that take further names.
FREE = ("arguments", "settings")


@dataclass(frozen=True)
class Tried:
    """A training of a grid.

    Arguments:
        folder: Its folder's name.
        settings: What was chosen: names of `[base]` and places in the recipe, and their values.
        relative_variance: For each proposal the held-out relative variance of its weights, median
            over cases; None where it is not known or the training failed.
        remse: Median over cases of the relative mean squared error of AMCI at the most draws that
            the evaluation has; None where the problem knows no truth or the training failed.
        seconds: Time of training, all proposals together.
        failure: What went wrong, or None.
    """

    folder: str
    settings: dict[str, Any]
    relative_variance: dict[str, float | None]
    remse: float | None
    seconds: float
    failure: str | None = None

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The best one is least: by its error, else by the relative variance of q1_plus."""
        variance = self.relative_variance.get("q1_plus")
        known = [float("inf") if value is None else value for value in (self.remse, variance)]
        return (self.failure is not None, known[0], known[1])


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
    names = [_name(settings) for settings in every]
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
    _recipe(settings)


def search(
    grid: Sequence[Mapping[str, Any]],
    out: Path,
    *,
    where: Where | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Tried]:
    """Trains all of a grid, each into a folder of its own; what is there already is kept.

    The same seed gives the same weights wherever they are trained, on machines of one kind. The
    trainings and their figures are listed in `search.json`, the best first.

    Arguments:
        grid: Trainings, as `read_grid` gives them.
        out: Folder for all of them.
        where: Where they are done; by default here, one after another.
        progress: Called with the number of trainings that are done, and of all.

    Returns:
        All trainings, the best first.

    Raises:
        ValueError: the folder cannot be made, or holds a training by another recipe,
            or another search writes it.
        StoredFileError: a file cannot be written.
    """
    make_folder("out", out)
    lock = filelock.FileLock(out / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ValueError(f"out: another search is writing {out}") from None
    try:
        return _searched(grid, out, where, progress)
    finally:
        lock.release()


def _searched(
    grid: Sequence[Mapping[str, Any]],
    out: Path,
    where: Where | None,
    progress: Callable[[int, int], None] | None,
) -> list[Tried]:
    found, missing = [], []
    for settings in grid:
        name = _name(settings)
        if (out / name / RECORD).exists():
            if read_json(out / name / FILE) != _recipe(settings):
                raise ValueError(
                    f"out: {out / name} was trained by another recipe, which has changed since: "
                    "expected another folder, or this one without it"
                )
            found.append(_tried(out / name))
        else:
            missing.append((name, dict(settings)))
    if progress is not None:
        progress(len(found), len(grid))
    for done in run_tasks(_train, None, missing, where):
        name, settings = done.item
        if done.failure is None:
            # What is left of a training without its record is not one.
            shutil.rmtree(out / name, ignore_errors=True)
            _unpack(out / name, done.value)
            found.append(_tried(out / name))
        else:
            found.append(Tried(name, settings, {}, None, done.seconds, done.failure))
        if progress is not None:
            progress(len(found), len(grid))
    found.sort(key=lambda tried: tried.rank)
    write_json(out / SUMMARY, [plain(asdict(tried)) for tried in found])
    return found


def _train(_: None, item: tuple[str, dict[str, Any]]) -> dict[str, bytes]:
    """A training, as the files that it wrote: where it is done there may be no common folder."""
    name, settings = item
    with tempfile.TemporaryDirectory() as folder:
        variant, out = Path(folder) / str(settings["variant"]), Path(folder) / "trained"
        variant.mkdir()
        write_json(variant / FILE, _recipe(settings))
        train(
            settings["problem"],
            variant=settings["variant"],
            recipe_file=variant,
            minutes=settings["minutes"],
            seed=settings["seed"],
            device=settings["device"],
            out=out,
        )
        (out / FILE).write_bytes((variant / FILE).read_bytes())
        write_json(out / RECORD, {"folder": name, "settings": settings})
        return {
            str(path.relative_to(out)): path.read_bytes() for path in _files(out)
        }  # fmt: skip


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _unpack(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes a training's files beside, and renames their folder."""
    beside = folder.with_name(f".{folder.name}.new")
    try:
        shutil.rmtree(beside, ignore_errors=True)
        for name, content in files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        os.replace(beside, folder)
    except OSError as error:
        raise StoredFileError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _recipe(settings: Mapping[str, Any]) -> dict[str, Any]:
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


def _name(settings: Mapping[str, Any]) -> str:
    """A folder's name that says what was chosen."""
    import hashlib

    text = json.dumps(settings, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{settings['problem']}-{settings['variant']}-{settings['seed']}-{digest}"


def _tried(folder: Path) -> Tried:
    evaluation = folder / "evaluation.json"
    try:
        record, config = read_json(folder / RECORD), read_json(folder / "config.json")
        remse = None
        if evaluation.exists():
            remse = read_json(evaluation)["estimators"]["amci"]["remse_median"][-1]
        return Tried(
            folder=record["folder"],
            settings=record["settings"],
            relative_variance={n: q["relative_variance"] for n, q in config["quality"].items()},
            remse=remse,
            seconds=sum(config["seconds"].values()),
        )
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise StoredFileError(f"{folder}: not as a search left it ({error!r})") from None
