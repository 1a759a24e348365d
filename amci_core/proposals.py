r"""Trained proposals on disk: safetensors for weights, JSON for everything else, no pickle.

A folder `<problem>/<variant>/` holds `recipe.json`, `config.json` (families, seed, hashes), one
safetensors file per proposal, `training.json` (the log), `evaluation.json` and `snapshots/`.

Weights are saved under names that `config.json` does not use. That file is replaced last: in this
moment new proposals take the place of old ones.
"""

from __future__ import annotations

__all__ = [
    "DEFAULT_VARIANT",
    "available_variants",
    "load_history",
    "load_proposals",
    "save_proposals",
    "save_trained",
    "write_proposals",
]

import dataclasses
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from reprlib import repr as short
from typing import Any

import torch
from torch import Tensor

from amci_core._arguments import check_name
from amci_core.flows import FAMILIES, HistoryEntry, Proposals, Trainable
from amci_core.flows.mixture import Mixture
from amci_core.flows.proposals import DEFENSIVE, NAMES
from amci_core.io import (
    StoredFileError,
    check_path,
    pretrained_root,
    read_json,
    read_tensors,
    vacant,
    write_json,
    write_tensors,
)
from amci_core.models import Problem, check_problem, problem, problems
from amci_core.models.fingerprint import unlike

FORMAT = 1
# What a configuration holds, and the types of its values.
CONFIGURATION: dict[str, Any] = {
    **{"problem": str, "variant": str, "proposals": dict, "snapshots": list},
    "fingerprint": (dict, type(None)),
}
WEIGHTS = {"file": str, "sha256": str}
FAMILY = {"family": str, "arguments": dict}
FIGURES: dict[str, Any] = {
    "step": int,
    "seconds": (int, float),
    "relative_variance": (int, float, type(None)),
}
# Names of a proposal's weights: where those there have one of them, new weights have the other.
FILES = "{}.safetensors", "{}-2.safetensors"
# What evaluations and trainings write beside proposals.
BESIDE = ("evaluation.json", "cases.parquet", "recipe.json", "training.json", "checkpoint.pt")
DEFAULT_VARIANT = "spline"
ORACLE = "oracle"


def load_proposals(
    name: str | Problem, *, variant: str | None = None, folder: str | Path | None = None
) -> Proposals:
    """Proposals for a problem, in float64 and ready to draw from.

    Arguments:
        name: The problem, or the name of a shipped one.
        variant: `spline`, `paper`, `oracle` for exact optimal proposals if they are known, or
            `defensive` for the problem's defensive density, as before any training. None (default)
            for `spline`, or for what the folder holds.
        folder: A folder that `amci train` or `save_proposals` wrote, instead of those that come
            with the package. It is known by the problem's fingerprint; in a folder without one,
            as saved before there were any, the name decides.

    Returns:
        `Proposals`: `q1_plus`, `q1_minus`, `q2` and `q1_complement`, None where there is
        none, and the model card as `card`.

    Raises:
        ValueError: no such problem or variant; the folder holds another variant; or a stored file
            is missing, damaged or made for another problem (the message names the file).

    Example:
        >>> load_proposals("tail-1d", variant="paper").present
        (0, 2)
    """
    chosen = check_problem(name)
    if folder is not None:
        loaded = _load(chosen, check_path("folder", folder))
        if variant not in (None, loaded.variant):
            raise ValueError(
                f"variant: {folder} holds {loaded.variant!r}, got {variant!r}. Leave variant out"
            )
        return loaded
    if variant == DEFENSIVE:
        return Proposals.from_defensive(chosen)
    available = available_variants(chosen)
    named = DEFAULT_VARIANT if variant is None else variant
    if named not in available:
        if variant is None:
            raise ValueError(
                f"proposals: none ship with the package for {chosen.name}. Pass those that "
                f"amci_core.learn trains, their folder, or variant={DEFENSIVE!r}"
            )
        check_name("variant", variant, (*available, DEFENSIVE), f" for {chosen.name}")
    if named == ORACLE:
        optimal: Mapping[str, Any] = chosen.optimal_proposals() or {}
        note = {"note": "The exact optimal proposals: every term has zero variance (Theorem 1)."}
        parts: Any = {name: optimal.get(name) for name in NAMES}
        return Proposals(chosen.name, ORACLE, card=note, fingerprint=chosen.fingerprint, **parts)
    return _load(chosen, pretrained_root() / chosen.name / named)


def available_variants(name: str | Problem) -> tuple[str, ...]:
    """The variants of a problem's proposals, beside `defensive`; the default first.

    Arguments:
        name: The problem, or the name of a shipped one.

    Returns:
        Their names; empty if nothing is trained and the optimal proposals are unknown.

    Raises:
        ValueError: there is no such problem.

    Example:
        >>> available_variants("peak")
        ('spline', 'oracle')
    """
    chosen = check_problem(name)
    oracle = (ORACLE,) if "q1_plus" in (chosen.optimal_proposals() or {}) else ()
    is_shipped = chosen.name in problems() and (
        chosen.fingerprint == problem(chosen.name).fingerprint
    )
    folders = (pretrained_root() / chosen.name).glob("*/config.json") if is_shipped else ()
    shipped = [config.parent.name for config in folders]
    return (*sorted(shipped, key=lambda variant: (variant != DEFAULT_VARIANT, variant)), *oracle)


def load_history(
    name: str | Problem, *, variant: str = DEFAULT_VARIANT
) -> tuple[HistoryEntry, ...]:
    """The checkpoints of a training: proposals at a few moments along it, the last one trained.

    Returns:
        The checkpoints as `HistoryEntry`, oldest first; empty if there are none.

    Raises:
        ValueError: see `load_proposals`.

    Example:
        >>> load_history("tail-1d")[0].step
        0
    """
    chosen = check_problem(name)
    trained = load_proposals(chosen, variant=variant)
    config = trained.card.get("configuration")
    if config is None:
        return ()
    folder, built = pretrained_root() / chosen.name / variant, config["proposals"]["q1_plus"]

    def entry(frame: Mapping[str, Any]) -> HistoryEntry:
        seconds = config.get("seconds", {}) | {"q1_plus": frame["seconds"]}
        proposals = dataclasses.replace(
            trained,
            variant=f"{variant} at step {frame['step']}",
            q1_plus=_flow(chosen, folder, {**built, **frame}, _read_weights(folder, frame)),
            card=trained.card | {"configuration": config | {"seconds": seconds}},
        )
        return HistoryEntry(**{name: frame[name] for name in FIGURES}, proposals=proposals)

    return tuple(map(entry, config["snapshots"]))


def save_proposals(folder: str | Path, proposals: Proposals, *, replace: bool = False) -> Path:
    """Writes proposals to a folder that `load_proposals(problem, folder=...)` reads; returns it.

    Arguments:
        folder: Where to; new, or empty.
        proposals: The result of `amci_core.training.learn` or `load_proposals`.
        replace: Whether to replace the proposals that the folder holds, with their evaluation,
            recipe, training and history; other files stay. Until the new ones are whole
            `load_proposals` gives the old ones.

    Returns:
        The folder.

    Raises:
        ValueError: the folder holds proposals already, and `replace` is False; or it holds other
            files; or there is no record of how these are built, as for the oracle and for
            densities of the user's own.
        StoredFileError: the folder cannot be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = save_proposals(mkdtemp(), load_proposals("peak"))
        >>> load_proposals("peak", folder=folder).variant
        'spline'
    """
    card = proposals.card if isinstance(proposals, Proposals) else {}
    built = card.get("configuration", {}).get("proposals", {})
    if not isinstance(proposals, Proposals) or not set(proposals.by_name) <= set(built):
        variant = proposals.variant if isinstance(proposals, Proposals) else repr(proposals)[:60]
        again = f". Rebuild it with variant={variant!r}" if variant in (ORACLE, DEFENSIVE) else ""
        raise ValueError(
            "proposals: expected trained proposals, of learn or load_proposals, got "
            f"{variant}{again}"
        )
    place = check_path("folder", folder)
    if not _files(place):
        vacant(place)
    elif not replace:
        raise ValueError(
            f"folder: {place} holds proposals already. Choose another, or pass replace=True"
        )
    save_trained(place, proposals)
    _remove(place, BESIDE)
    _remove(place / "snapshots", ["[0-9]*.safetensors"])
    with suppress(OSError):
        (place / "snapshots").rmdir()
    return place


def save_trained(folder: Path, proposals: Proposals) -> None:
    """Writes proposals to the folder of their training, whose other files stay."""
    record, flows = proposals.card["configuration"], proposals.by_name
    built = record["proposals"]
    write_proposals(
        folder,
        flows,
        configuration=record
        | {name: getattr(proposals, name) for name in ("problem", "fingerprint", "variant")},
        families={name: {key: built[name][key] for key in FAMILY} for name in flows},
        snapshots=[],
    )


def write_proposals(
    folder: Path,
    proposals: Mapping[str, Any],
    *,
    configuration: Mapping[str, Any],
    families: Mapping[str, Mapping[str, Any]],
    snapshots: list[dict[str, Any]],
) -> None:
    """Writes weights, then the configuration with their hashes; removes the weights before.

    Arguments:
        folder: Where to; made if it is missing.
        proposals: Proposal name to its flow.
        configuration: What is recorded beside: problem, variant, seed, recipe, versions.
        families: Proposal name to its family's name and arguments.
        snapshots: Entries with the fields of `WEIGHTS` and `FIGURES`, their files written already.
    """
    entries, before = {}, _files(folder)
    for name, proposal in proposals.items():
        file = next(each for form in FILES if (each := form.format(name)) not in before)
        digest = write_tensors(folder / file, proposal.state_dict())
        entries[name] = {"file": file, "sha256": digest, **families[name]}
    content = {"format": FORMAT, **configuration, "proposals": entries, "snapshots": snapshots}
    write_json(folder / "config.json", content)
    kept = {"config.json", *(entry["file"] for entry in (*entries.values(), *snapshots))}
    _remove(folder, ["config.json", *(form.format(q) for form in FILES for q in NAMES)], kept)


def _files(folder: Path) -> set[str]:
    """The files of weights that the configuration in a folder names; none where it has no such."""
    try:
        config = read_json(folder / "config.json")
        return {entry["file"] for entry in config["proposals"].values()}
    except (StoredFileError, LookupError, TypeError, AttributeError):
        return set()


def _remove(folder: Path, files: Iterable[str], kept: Container[str] = ()) -> None:
    """Removes files, and what was left of them where a process was killed."""
    for file in files:
        for path in (*folder.glob(file), *folder.glob(f".{file}.*")):
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _load(chosen: Problem, folder: Path) -> Proposals:
    config = _read_config(chosen, folder)
    built = config["proposals"]
    try:
        # In this order: of proposals that are replaced meanwhile the weights go first.
        evaluation = _read_evaluation(folder, config)
        weights = {name: _read_weights(folder, entry) for name, entry in built.items()}
    except StoredFileError:
        if str(_read_config(chosen, folder)) == str(config):
            raise
        return _load(chosen, folder)
    derived = {"q1_minus": chosen.with_negated_f, "q1_complement": chosen.complement}
    loaded = {
        name: _flow(derived[name]() if name in derived else chosen, folder, entry, weights[name])
        for name, entry in built.items()
    }
    for name, q1 in loaded.items():
        # Training has copied q2 into the mixture: from here on it is one.
        of_defence = built[name]["arguments"].get("defence", {})
        same = "q2" in built and of_defence == built["q2"]["arguments"]
        if same and isinstance(q1, Mixture) and _equal(q1.defence, loaded["q2"]):
            q1.defence = loaded["q2"]
    card = {"configuration": config, "evaluation": evaluation}
    parts: Any = {name: loaded.get(name) for name in NAMES}
    parts["fingerprint"] = chosen.fingerprint
    return Proposals(chosen.name, config["variant"], card=card, **parts)


def _equal(one: Any, other: Trainable) -> bool:
    mine, its = one.state_dict(), other.state_dict()
    return mine.keys() == its.keys() and all(torch.equal(mine[k], its[k]) for k in mine)


def _read_evaluation(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    path = folder / "evaluation.json"
    if not path.is_file():
        return None
    evaluation: dict[str, Any] = read_json(path)
    _check_entry(path, evaluation, {"estimators": dict})
    hashes = {name: entry["sha256"] for name, entry in config["proposals"].items()}
    # Of proposals that its estimators do not draw from it says nothing. Where a process was killed
    # between weights and evaluation, that is of other weights.
    if not evaluation.get("weights", hashes).items() <= hashes.items():
        return None
    return evaluation


def _read_config(chosen: Problem, folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise StoredFileError(
            f"folder: {folder} holds no proposals. `amci train {chosen.name} --out FOLDER` makes "
            "a folder that does"
        )
    config: dict[str, Any] = read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise StoredFileError(f"{path}: not a configuration of format {FORMAT}")
    config.setdefault("fingerprint", None)
    _check_entry(path, config, CONFIGURATION)
    if other := unlike(chosen, config["problem"], config["fingerprint"]):
        raise StoredFileError(f"{path}: made for {other}, not for {chosen.name}. Train anew")
    if "q1_plus" not in config["proposals"]:
        raise StoredFileError(f"{path}: q1_plus is missing")
    for name, entry in config["proposals"].items():
        _check_entry(path, entry, {**WEIGHTS, **FAMILY}, f"proposals.{name}.")
    for number, entry in enumerate(config["snapshots"]):
        _check_entry(path, entry, {**WEIGHTS, **FIGURES}, f"snapshots.{number}.")
    return config


def _check_entry(path: Path, entry: Any, kinds: Mapping[str, Any], within: str = "") -> None:
    """Checks that a part of a JSON file is an object with these keys, of these types."""
    for key, kind in kinds.items():
        if not isinstance(entry, dict) or key not in entry:
            raise StoredFileError(f"{path}: {within}{key} is missing")
        if not isinstance(entry[key], kind):
            got = short(entry[key])
            raise StoredFileError(f"{path}: {within}{key} has another type than expected: {got}")


def _read_weights(folder: Path, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    path = folder / entry["file"]
    if "\0" in entry["file"] or not path.resolve().is_relative_to(folder.resolve()):
        raise StoredFileError(f"{folder}: no weights of this folder, {entry['file']!r}")
    return read_tensors(path, expected_sha256=entry["sha256"])


def _flow(
    chosen: Problem, folder: Path, entry: Mapping[str, Any], tensors: dict[str, Tensor]
) -> Trainable:
    """A flow by its family, arguments and weights."""
    path = folder / entry["file"]
    family = entry["family"]
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise StoredFileError(
            f"{folder / 'config.json'}: family {family!r} of {path.name} is not one of {known}"
        )
    try:
        flow = FAMILIES[family](chosen, **entry["arguments"])
        flow.load_state_dict(tensors)
    except (RuntimeError, TypeError, LookupError, ValueError, ArithmeticError) as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, KeyError):
            reason = f"there is no {reason} among its parts or in FAMILIES; a family of your own "
            reason += "has to be put there before"
        raise StoredFileError(f"{path}: does not fit its configuration ({reason})") from None
    if not all(bool(parameter.isfinite().all()) for parameter in flow.parameters()):
        raise StoredFileError(f"{path}: holds a number that is not finite")
    return flow.to(torch.float64).eval().requires_grad_(False)
