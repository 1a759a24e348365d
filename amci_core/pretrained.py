r"""Trained proposals on disk: safetensors for weights, JSON for everything else, no pickle.

A folder `<problem>/<variant>/` holds `config.json` (families, recipe, seed, hashes), a safetensors
file a proposal, `training.json` (the log), `evaluation.json`, and `snapshots/` along the training
of q1_plus.
"""

from __future__ import annotations

__all__ = ["Snapshot", "load_proposals", "load_snapshots", "save_proposals"]

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from amci_core._files import pretrained_root
from amci_core.flows import FAMILIES, FlowProposal, Proposals
from amci_core.flows.exact import PosteriorNormal, TruncatedPosterior
from amci_core.models import Problem, problem
from amci_core.models.tail import GaussianTail
from amci_core.storage import (
    StoredFileError,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)

FORMAT = 1
DEFAULT_VARIANT = "spline"
ORACLE = "oracle"


@dataclass(frozen=True)
class Snapshot:
    """The proposals as they were at one moment of the training of q1_plus.

    Arguments:
        step: Steps of training until then.
        seconds: Time of training until then, on the machine that trained.
        relative_variance: Held-out relative variance of f_plus w for one draw, median over cases;
            None where no draw reached f.
        proposals: Proposals with q1_plus of that moment; q2 is the trained one.
    """

    step: int
    seconds: float
    relative_variance: float | None
    proposals: Proposals


def load_proposals(
    name: str, *, variant: str = DEFAULT_VARIANT, folder: str | Path | None = None
) -> Proposals:
    """Proposals for a problem, in float64 and ready to draw from.

    Arguments:
        name: The problem's name.
        variant: `spline` (the default), `paper`, or `oracle` for exact optimal proposals where
            they are known.
        folder: A folder that `amci train` wrote, instead of those that come with the package.

    Raises:
        ValueError: no such problem or variant; or a stored file is missing, damaged or made for
            another problem (the message names the file).
    """
    chosen = problem(name)
    if folder is not None:
        return _load(chosen, Path(folder))
    if variant == ORACLE:
        return _oracle(chosen)
    return _load_shipped(name, variant)


def load_snapshots(name: str, *, variant: str = DEFAULT_VARIANT) -> tuple[Snapshot, ...]:
    """The film of a training: proposals at a few moments along it, the last one trained.

    Raises:
        ValueError: see `load_proposals`.
    """
    return _load_snapshots(problem(name), _shipped_folder(name, variant))


def save_proposals(
    folder: Path,
    proposals: Mapping[str, FlowProposal],
    *,
    configuration: Mapping[str, Any],
    families: Mapping[str, Mapping[str, Any]],
    snapshots: list[dict[str, Any]],
) -> None:
    """Writes weights, then the configuration that vouches for them.

    Arguments:
        folder: Where to; made where it is missing.
        proposals: Proposal name to its flow.
        configuration: What is recorded beside: problem, variant, seed, recipe, versions.
        families: Proposal name to its family's name and arguments.
        snapshots: Entries with `file`, `sha256`, `step`, `seconds`, `relative_variance`, written
            already.
    """
    entries = {}
    for name, proposal in proposals.items():
        file = f"{name}.safetensors"
        digest = write_tensors(folder / file, proposal.state_dict())
        entries[name] = {"file": file, "sha256": digest, **families[name]}
    content = {"format": FORMAT, **configuration, "proposals": entries, "snapshots": snapshots}
    write_json(folder / "config.json", content)


@cache
def _load_shipped(name: str, variant: str) -> Proposals:
    return _load(problem(name), _shipped_folder(name, variant))


def _shipped_folder(name: str, variant: str) -> Path:
    folder = pretrained_root() / name
    shipped = sorted(p.parent.name for p in folder.glob("*/config.json"))
    if variant not in shipped:
        allowed = ", ".join([*shipped, ORACLE])
        raise ValueError(f"variant: expected one of {allowed} for {name}, got {variant!r}")
    return folder / variant


def _oracle(chosen: Problem) -> Proposals:
    if not isinstance(chosen, GaussianTail):
        raise ValueError(f"variant: the optimal proposals of {chosen.name} are not known")
    return Proposals(
        problem=chosen.name,
        variant=ORACLE,
        q1_plus=TruncatedPosterior(chosen),
        q1_minus=None,
        q2=PosteriorNormal(chosen),
        card={"note": "The exact optimal proposals: every term has zero variance (Theorem 1)."},
    )


def _load(chosen: Problem, folder: Path) -> Proposals:
    config = _read_config(chosen, folder)
    loaded = {
        name: _load_flow(chosen, folder, entry, entry)
        for name, entry in config["proposals"].items()
    }
    evaluation = folder / "evaluation.json"
    return Proposals(
        problem=chosen.name,
        variant=config["variant"],
        q1_plus=loaded["q1_plus"],
        q1_minus=loaded.get("q1_minus"),
        q2=loaded.get("q2"),
        card={
            "configuration": config,
            "evaluation": read_json(evaluation) if evaluation.is_file() else None,
        },
    )


def _read_config(chosen: Problem, folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config = read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise StoredFileError(f"{path}: not a configuration of format {FORMAT}")
    if config.get("problem") != chosen.name:
        raise StoredFileError(
            f"{path}: made for the problem {config.get('problem')!r}, not for {chosen.name}"
        )
    missing = {"variant", "proposals", "snapshots"} - config.keys()
    if missing or "q1_plus" not in config["proposals"]:
        raise StoredFileError(f"{path}: {', '.join(sorted(missing)) or 'q1_plus'} is missing")
    return config


def _load_flow(
    chosen: Problem, folder: Path, entry: Mapping[str, Any], weights: Mapping[str, Any]
) -> FlowProposal:
    path = folder / weights["file"]
    if entry.get("family") not in FAMILIES:
        raise StoredFileError(
            f"{folder / 'config.json'}: family {entry.get('family')!r} of {path.name} is not "
            f"one of {', '.join(FAMILIES)}"
        )
    tensors = read_tensors(path, expected_sha256=weights["sha256"])
    try:
        flow = FAMILIES[entry["family"]](chosen, **entry["arguments"])
        flow.load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise StoredFileError(f"{path}: does not fit its configuration ({reason})") from None
    return flow.to(torch.float64).eval().requires_grad_(False)


def _load_snapshots(chosen: Problem, folder: Path) -> tuple[Snapshot, ...]:
    config = _read_config(chosen, folder)
    trained = _load(chosen, folder)
    frames = []
    for entry in config["snapshots"]:
        q1_plus = _load_flow(chosen, folder, config["proposals"]["q1_plus"], entry)
        frames.append(
            Snapshot(
                step=entry["step"],
                seconds=entry["seconds"],
                relative_variance=entry["relative_variance"],
                proposals=Proposals(
                    problem=trained.problem,
                    variant=f"{trained.variant} at step {entry['step']}",
                    q1_plus=q1_plus,
                    q1_minus=trained.q1_minus,
                    q2=trained.q2,
                    card=trained.card,
                ),
            )
        )
    return tuple(frames)
