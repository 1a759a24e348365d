r"""Trained proposals from disk: safetensors for weights, JSON for everything else, no pickle.

A folder `<problem>/<variant>/` holds `recipe.json`, `config.json` (families, seed, hashes), one
safetensors file per proposal, `evaluation.json` and `snapshots/`.
"""

from __future__ import annotations

__all__ = ["DEFAULT_VARIANT", "available_variants", "load_history", "load_proposals"]

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from amci_core._arguments import check_name
from amci_core.flows import FAMILIES, HistoryEntry, Proposals, Trainable
from amci_core.flows.proposals import DEFENSIVE
from amci_core.flows.storage import FORMAT
from amci_core.io import StoredFileError, check_path, pretrained_root, read_json, read_tensors
from amci_core.models import Problem, check_problem, problem, problems
from amci_core.models.fingerprint import unlike

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
        folder: A folder that `amci train` or `Proposals.save` wrote, instead of those that come
            with the package. The fingerprint of their problem has to be this one's.

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
        optimal: Any = chosen.optimal_proposals()
        note = {"note": "The exact optimal proposals: every term has zero variance (Theorem 1)."}
        of: Any = {"card": note, "fingerprint": chosen.fingerprint, "source": chosen}
        return Proposals(chosen.name, ORACLE, **optimal, **of)
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
        q1_plus = {**built, **frame}
        here = config | {
            "variant": f"{variant} at step {frame['step']}",
            "seconds": config.get("seconds", {}) | {"q1_plus": frame["seconds"]},
            "proposals": config["proposals"] | {"q1_plus": q1_plus},
        }
        proposals = dataclasses.replace(
            trained,
            variant=here["variant"],
            q1_plus=_flow(chosen, folder, q1_plus),
            card=trained.card | {"configuration": here},
        )
        return HistoryEntry(frame["step"], frame["seconds"], frame["relative_variance"], proposals)

    return tuple(map(entry, config["snapshots"]))


def _load(chosen: Problem, folder: Path) -> Proposals:
    path = folder / "config.json"
    if not path.exists():
        raise StoredFileError(
            f"folder: {folder} holds no proposals. `amci train {chosen.name} --out FOLDER` makes "
            "a folder that does"
        )
    config = read_json(path)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise StoredFileError(f"{path}: not a configuration of format {FORMAT}")
    if not config.get("fingerprint"):
        raise StoredFileError(f"{path}: does not say for which problem. Train anew")
    try:
        return _built(chosen, folder, config)
    except StoredFileError:
        # Where proposals are replaced meanwhile the weights go first.
        if read_json(path) == config:
            raise
        return _load(chosen, folder)
    except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise StoredFileError(f"{path}: does not fit these weights ({reason})") from None


def _built(chosen: Problem, folder: Path, config: Mapping[str, Any]) -> Proposals:
    """The proposals of a configuration, in the problem's own terms."""
    if other := unlike(chosen, config["problem"], dict(config["fingerprint"])):
        raise StoredFileError(f"{folder}: made for {other}, not for {chosen.name}. Train anew")
    built = config["proposals"]
    evaluation = _read_evaluation(folder, built)
    sides = {"q1_minus": chosen.with_negated_f, "q1_complement": chosen.complement}
    flows: dict[str, Any] = {
        name: _flow(sides.get(name, lambda: chosen)(), folder, entry)
        for name, entry in built.items()
    }
    for name, q1 in flows.items():
        # Training has copied q2 into the mixture: from here on it is one.
        component = built[name]["arguments"].get("defensive")
        if component is not None and component == built["q2"]["arguments"]:
            q1.defensive = flows["q2"]
    card = {"configuration": config, "evaluation": evaluation}
    of: Any = {"card": card, "fingerprint": chosen.fingerprint, "source": chosen}
    return Proposals(chosen.name, config["variant"], **flows, **of)


def _read_evaluation(folder: Path, built: Mapping[str, Any]) -> dict[str, Any] | None:
    path = folder / "evaluation.json"
    if not path.is_file():
        return None
    evaluation: dict[str, Any] = read_json(path)
    hashes = {name: entry["sha256"] for name, entry in built.items()}
    # Of proposals that its estimators do not draw from it says nothing. Where a process was killed
    # between weights and evaluation, that is of other weights.
    return evaluation if evaluation["weights"].items() <= hashes.items() else None


def _flow(chosen: Problem, folder: Path, entry: Mapping[str, Any]) -> Trainable:
    """A flow by its family, arguments and weights."""
    path, family = folder / entry["file"], entry["family"]
    if "\0" in entry["file"] or not path.resolve().is_relative_to(folder.resolve()):
        raise StoredFileError(f"{folder}: no weights of this folder, {entry['file']!r}")
    if family not in FAMILIES:
        raise StoredFileError(
            f"{folder / 'config.json'}: family {family!r} of {path.name} is not one of "
            f"{', '.join(FAMILIES)}. Put a family of your own into FAMILIES before"
        )
    flow = FAMILIES[family](chosen, **entry["arguments"])
    flow.load_state_dict(read_tensors(path, expected_sha256=str(entry["sha256"])))
    if not all(bool(parameter.isfinite().all()) for parameter in flow.parameters()):
        raise StoredFileError(f"{path}: holds a number that is not finite")
    return flow.to(torch.float64).eval().requires_grad_(False)
