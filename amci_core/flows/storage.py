r"""Trained proposals to disk: safetensors for weights, JSON for everything else, no pickle.

Weights are saved under names that `config.json` does not use. That file is replaced last: in this
moment new proposals take the place of old ones.
"""

from __future__ import annotations

__all__ = ["FORMAT", "save_trained", "write_weights"]

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from amci_core.estimators.draws import COMPONENTS
from amci_core.io import StoredFileError, check_path, read_json, vacant, write_json, write_tensors

if TYPE_CHECKING:
    from amci_core.flows.proposals import Proposals

FORMAT = 1
# What builds a flow, and the types of these values.
FAMILY = {"family": str, "arguments": dict}
# Names of a proposal's weights: where those there have one of them, new weights have the other.
FILES = "{}.safetensors", "{}-2.safetensors"
# What evaluations and trainings write beside proposals; up to version 0.2 training.json too.
BESIDE = ("evaluation.json", "cases.parquet", "recipe.json", "training.json")


def save(folder: str | Path, proposals: Proposals, replace: bool) -> Path:
    """Writes proposals to a folder of their own, see `Proposals.save`."""
    built = proposals.card.get("configuration", {}).get("proposals", {})
    if proposals.fingerprint is None or not set(proposals.by_name) <= set(built):
        raise ValueError(
            "proposals: expected trained ones, of learn or load_proposals, got "
            f"{proposals.variant}. Make it again from its definition"
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


def save_trained(
    folder: Path, proposals: Proposals, snapshots: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Writes proposals to the folder of their training, whose other files stay.

    Weights come first, then the configuration with their hashes; the weights before are removed.

    Arguments:
        folder: Where to; made if it is missing.
        proposals: With the record of how they are built in their card.
        snapshots: The records of the training's history, its weights written already.
    """
    record, entries, before = proposals.card["configuration"], {}, _files(folder)
    for name, proposal in proposals.by_name.items():
        file = next(new for form in FILES if (new := form.format(name)) not in before)
        digest = write_weights(folder / file, proposal)
        built = {key: record["proposals"][name][key] for key in FAMILY}
        entries[name] = {"file": file, "sha256": digest, **built}
    content = {
        **record,
        **{name: getattr(proposals, name) for name in ("problem", "fingerprint", "variant")},
        **{"format": FORMAT, "proposals": entries, "snapshots": list(snapshots)},
    }
    write_json(folder / "config.json", content)
    kept = {"config.json", *(entry["file"] for entry in (*entries.values(), *snapshots))}
    _remove(folder, ["config.json", *(form.format(q) for form in FILES for q in COMPONENTS)], kept)


def write_weights(path: Path, flow: Any) -> str:
    """Writes a flow's weights, those that float32 holds in that type; returns their SHA-256."""
    weights = flow.state_dict()
    single = {name: t.float() for name, t in weights.items() if t.dtype == torch.float64}
    exact = {name: t for name, t in single.items() if torch.equal(t.double(), weights[name])}
    return write_tensors(path, weights | exact)


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
