r"""Many trainings at once, over a grid, and a list of them, the best first."""

from __future__ import annotations

__all__ = ["Tried", "search"]

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock

from amci_core.files import StoredFileError, make_folder, plain, read_json, write_json
from amci_core.tasks import Where, run_tasks
from amci_core.training.grid import folder_name, recipe_of
from amci_core.training.recipes import FILE
from amci_core.training.train import train

RECORD, SUMMARY, LOCK = "tried.json", "search.json", ".search.lock"


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
        name = folder_name(settings)
        if (out / name / RECORD).exists():
            if read_json(out / name / FILE) != recipe_of(settings):
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
        write_json(variant / FILE, recipe_of(settings))
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
    try:
        beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            beside.chmod(0o755)
            for name, content in files.items():
                path = beside / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            os.replace(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise StoredFileError(f"{folder}: cannot be written ({error.strerror})") from None


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
