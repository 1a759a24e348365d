r"""Trained proposals on disk: safetensors for weights, JSON for everything else, no pickle.

A folder `<problem>/<variant>/` holds `recipe.json`, `config.json` (families, seed, hashes), one
safetensors file per proposal, `training.json` (the log), `evaluation.json` and `snapshots/`.
"""

from __future__ import annotations

__all__ = [
    "DEFAULT_VARIANT",
    "available_variants",
    "load_proposals",
    "load_snapshots",
    "save_proposals",
    "write_proposals",
]

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

from amci_core import files
from amci_core.estimators import PROPOSALS
from amci_core.flows import FAMILIES, Proposal, Proposals, Snapshot, Trainable
from amci_core.flows.mixture import Mixture
from amci_core.flows.proposals import DEFENSIVE
from amci_core.models import Problem, problem, problems

FORMAT = 1
# What a configuration must hold, and the types that its values may have.
CONFIGURATION: dict[str, files.Kinds] = {
    "variant": (str,),
    "proposals": (dict,),
    "snapshots": (list,),
}
WEIGHTS: dict[str, files.Kinds] = {"file": (str,), "sha256": (str,)}
FAMILY: dict[str, files.Kinds] = {"family": (str,), "arguments": (dict,)}
TRAINED: dict[str, files.Kinds] = {**WEIGHTS, **FAMILY}
FIGURES: dict[str, files.Kinds] = {
    "step": (int,),
    "seconds": (int, float),
    "relative_variance": (int, float, type(None)),
}
FRAME: dict[str, files.Kinds] = {**WEIGHTS, **FIGURES}
DEFAULT_VARIANT = "spline"
ORACLE = "oracle"


def load_proposals(
    name: str | Problem, *, variant: str | None = None, folder: str | Path | None = None
) -> Proposals:
    """Proposals for a problem, in float64 and ready to draw from.

    Arguments:
        name: The problem's name; or, with a folder, the problem itself, which may be one of the
            user's own.
        variant: `spline`, `paper`, `oracle` for exact optimal proposals if they are known, or
            `defensive` for the problem's defensive density, as before any training. None (default)
            for `spline`, or for what the folder holds.
        folder: A folder that `amci train` or `save_proposals` wrote, instead of those that come
            with the package.

    Raises:
        ValueError: no such problem or variant; the folder holds another variant; or a stored file
            is missing, damaged or made for another problem (the message names the file).

    Example:
        >>> load_proposals("tail-1d", variant="paper").present
        (0, 2)
    """
    chosen = name if isinstance(name, Problem) else problem(name)
    if folder is not None:
        loaded = _load(chosen, files.check_path("folder", folder))
        if variant not in (None, loaded.variant):
            raise ValueError(f"variant: {folder} holds {loaded.variant!r}, not {variant!r}")
        return loaded
    if variant == DEFENSIVE:
        return Proposals.from_defensive(chosen)
    if variant != ORACLE and chosen.name not in problems():
        raise ValueError(
            f"folder: expected one with proposals for {chosen.name}, since none come with the "
            "package, got None"
        )
    optimal = _optimal(chosen)
    if variant != ORACLE:
        shipped = _shipped_folder(chosen.name, DEFAULT_VARIANT if variant is None else variant)
        return _load(chosen, shipped)
    if optimal is None:
        raise ValueError(f"variant: the optimal proposals of {chosen.name} are not known")
    note = {"note": "The exact optimal proposals: every term has zero variance (Theorem 1)."}
    return _gathered(chosen, ORACLE, optimal, note)


def available_variants(name: str) -> tuple[str, ...]:
    """The variants that `load_proposals` knows for a problem, the default first.

    Raises:
        ValueError: there is no such problem.

    Example:
        >>> available_variants("peak")
        ('spline', 'oracle')
    """
    known = [ORACLE] if _optimal(problem(name)) is not None else []
    folders = (files.pretrained_root() / name).glob("*/config.json")
    shipped = sorted(config.parent.name for config in folders)
    return (*sorted(shipped, key=lambda variant: variant != DEFAULT_VARIANT), *known)


def load_snapshots(name: str, *, variant: str = DEFAULT_VARIANT) -> tuple[Snapshot, ...]:
    """The film of a training: proposals at a few moments along it, the last one trained.

    Raises:
        ValueError: see `load_proposals`.

    Example:
        >>> load_snapshots("tail-1d")[0].step
        0
    """
    chosen, folder = problem(name), _shipped_folder(name, variant)
    trained = _load(chosen, folder)
    config = trained.card["configuration"]
    built = config["proposals"]["q1_plus"]

    def moment(frame: Mapping[str, Any]) -> Proposals:
        q1_plus = _load_flow(chosen, folder, built, frame)
        return dataclasses.replace(
            trained, variant=f"{variant} at step {frame['step']}", q1_plus=q1_plus
        )

    return tuple(
        Snapshot(**{name: frame[name] for name in FIGURES}, proposals=moment(frame))
        for frame in config["snapshots"]
    )


def save_proposals(folder: str | Path, proposals: Proposals, *, replace: bool = False) -> Path:
    """Writes proposals to a folder that `load_proposals(problem, folder=...)` reads; returns it.

    Arguments:
        folder: Where to; made where it is missing.
        proposals: What `amci_core.training.learn` or `load_proposals` gave.
        replace: Whether those that the folder holds give way.

    Raises:
        ValueError: the folder holds proposals already, and these are not to give way; it cannot
            be made; or there is no record of how these are built, as for the oracle and for
            densities of the user's own.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = save_proposals(mkdtemp(), load_proposals("peak"))
        >>> load_proposals("peak", folder=folder).variant
        'spline'
    """
    if not isinstance(proposals, Proposals):
        raise ValueError(
            f"proposals: expected what learn or load_proposals gave, got {proposals!r:.60}"
        )
    record = dict(proposals.card.get("configuration", {}))
    built = record.get("proposals", {})
    flows: dict[str, Trainable] = {}
    for name, proposal in zip(PROPOSALS, proposals.as_tuple, strict=True):
        if isinstance(proposal, Trainable) and name in built:
            flows[name] = proposal
        elif proposal is not None:
            raise ValueError(
                f"proposals: expected what learn or load_proposals gave, got {name} without a "
                "record of its family"
            )
    place = files.check_path("folder", folder)
    if (place / "config.json").exists() and not replace:
        raise ValueError(f"folder: {place} holds proposals already; choose another")
    files.make_folder("folder", place)
    write_proposals(
        place,
        flows,
        configuration=record | {"problem": proposals.problem, "variant": proposals.variant},
        families={name: {key: built[name][key] for key in FAMILY} for name in flows},
        snapshots=[],
    )
    return place


def write_proposals(
    folder: Path,
    proposals: Mapping[str, Trainable],
    *,
    configuration: Mapping[str, Any],
    families: Mapping[str, Mapping[str, Any]],
    snapshots: list[dict[str, Any]],
) -> None:
    """Writes weights, then the configuration with their hashes.

    Arguments:
        folder: Where to; made where it is missing.
        proposals: Proposal name to its flow.
        configuration: What is recorded beside: problem, variant, seed, recipe, versions.
        families: Proposal name to its family's name and arguments.
        snapshots: Entries with the fields of `FRAME`, their files written already.
    """
    entries = {}
    for name, proposal in proposals.items():
        file = f"{name}.safetensors"
        digest = files.write_tensors(folder / file, proposal.state_dict())
        entries[name] = {"file": file, "sha256": digest, **families[name]}
    content = {"format": FORMAT, **configuration, "proposals": entries, "snapshots": snapshots}
    files.write_json(folder / "config.json", content)


def _shipped_folder(name: str, variant: str) -> Path:
    available = available_variants(name)
    if variant not in available:
        allowed = ", ".join(available) or "none"
        raise ValueError(f"variant: expected one of {allowed} for {name}, got {variant!r}")
    return files.pretrained_root() / name / variant


def _optimal(chosen: Problem) -> Mapping[str, Proposal] | None:
    """The optimal proposals by name; None where the one for E1_plus is not known."""
    optimal = chosen.optimal_proposals() or {}
    return cast(Mapping[str, Proposal], optimal) if "q1_plus" in optimal else None


def _load(chosen: Problem, folder: Path) -> Proposals:
    config = _read_config(chosen, folder)
    loaded = {
        name: _load_flow(
            chosen.with_negated_f() if name == "q1_minus" else chosen, folder, entry, entry
        )
        for name, entry in config["proposals"].items()
    }
    q2 = loaded.get("q2")
    for q1 in loaded.values():
        # Training has copied q2 into the mixture: from here on it is one.
        if isinstance(q1, Mixture) and q2 is not None and _equal(q1.defence, q2):
            q1.defence = q2
    card = {"configuration": config, "evaluation": _read_evaluation(folder, config)}
    return _gathered(chosen, config["variant"], loaded, card)


def _equal(one: Trainable, other: Trainable) -> bool:
    mine, its = one.state_dict(), other.state_dict()
    return mine.keys() == its.keys() and all(torch.equal(mine[k], its[k]) for k in mine)


def _gathered(
    chosen: Problem, variant: str, by_name: Mapping[str, Proposal], card: dict[str, Any]
) -> Proposals:
    q1_plus, q1_minus, q2 = by_name["q1_plus"], by_name.get("q1_minus"), by_name.get("q2")
    return Proposals(chosen.name, variant, q1_plus, q1_minus, q2, card)


def _read_evaluation(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    path = folder / "evaluation.json"
    if not path.is_file():
        return None
    evaluation: dict[str, Any] = files.read_json(path)
    files.check_object(path, evaluation, {"estimators": (dict,)})
    hashes = {name: entry["sha256"] for name, entry in config["proposals"].items()}
    if evaluation.get("weights", hashes) != hashes:
        raise files.StoredFileError(f"{path}: judges other weights than those here; remove it")
    return evaluation


def _read_config(chosen: Problem, folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config: dict[str, Any] = files.read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise files.StoredFileError(f"{path}: not a configuration of format {FORMAT}")
    made_for = config.get("problem")
    if made_for != chosen.name:
        raise files.StoredFileError(
            f"{path}: made for the problem {made_for!r}, not for {chosen.name}"
        )
    files.check_object(path, config, CONFIGURATION)
    if "q1_plus" not in config["proposals"]:
        raise files.StoredFileError(f"{path}: q1_plus is missing")
    for name, entry in config["proposals"].items():
        files.check_object(path, entry, TRAINED, within=f"proposals.{name}")
    for number, entry in enumerate(config["snapshots"]):
        files.check_object(path, entry, FRAME, within=f"snapshots.{number}")
    return config


def _load_flow(
    chosen: Problem, folder: Path, entry: Mapping[str, Any], weights: Mapping[str, Any]
) -> Trainable:
    path = files.check_path("file", folder / weights["file"])
    if not path.resolve().is_relative_to(folder.resolve()):
        raise files.StoredFileError(f"{folder}: weights lie outside, at {weights['file']!r}")
    family, known = entry["family"], ", ".join(FAMILIES)
    if family not in FAMILIES:
        config = folder / "config.json"
        raise files.StoredFileError(
            f"{config}: family {family!r} of {path.name} is not one of {known}"
        )
    tensors = files.read_tensors(path, expected_sha256=weights["sha256"])
    try:
        flow = FAMILIES[family](chosen, **entry["arguments"])
        flow.load_state_dict(tensors)
    except (RuntimeError, TypeError, LookupError, ValueError, ArithmeticError) as error:
        reason = str(error).partition("\n")[0]
        raise files.StoredFileError(f"{path}: does not fit its configuration ({reason})") from None
    if not all(bool(parameter.isfinite().all()) for parameter in flow.parameters()):
        raise files.StoredFileError(f"{path}: holds a number that is not finite")
    return flow.to(torch.float64).eval().requires_grad_(False)
