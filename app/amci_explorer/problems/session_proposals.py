r"""Proposals that came while the server ran: whose they are, and how they reach its workers."""

from __future__ import annotations

__all__ = ["add", "forget", "get", "names", "parcel", "receive", "renew", "revision"]

import pickle
import weakref
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from itertools import count

from amci_core.flows import Proposals

# Proposals sent by the server that a process which computes keeps.
RECEIVED_KEPT = 32


@dataclass(frozen=True)
class _Added:
    """Proposals, as they are sent, and whose they are; None: everyone's."""

    proposals: Proposals
    parcel: bytes
    visitor: weakref.ref[object] | None
    revision: int


Key = tuple[str, str]
# By the problem's name and the variant.
_ADDED: dict[Key, _Added] = {}
# A name is given once: results of proposals that are gone may still be kept under it.
_GIVEN: set[Key] = set()
# What the server has sent to this process, by its revision as well.
_RECEIVED: dict[tuple[str, str, int], Proposals] = {}
# Every proposals that were added, under whatever name, have a number of their own.
_REVISIONS = count(1)


def add(
    problem: str,
    variant: str,
    proposals: Proposals,
    visitor: object | None,
    *,
    taken: Collection[str],
) -> str:
    """Keeps proposals under a name that nothing else had; returns that."""
    name, number = variant, 1
    while (problem, name) in _GIVEN or name in taken:
        number += 1
        name = f"{variant}-{number}"
    whose = None if visitor is None else weakref.ref(visitor, partial(_drop, (problem, name)))
    _ADDED[problem, name] = _Added(proposals, pickle.dumps(proposals), whose, next(_REVISIONS))
    _GIVEN.add((problem, name))
    return name


def renew(problem: str, variant: str, proposals: Proposals) -> None:
    """Keeps others under a name; nothing happens where whoever added them has gone."""
    before = _ADDED.get((problem, variant))
    if before is not None:
        _ADDED[problem, variant] = _Added(
            proposals, pickle.dumps(proposals), before.visitor, next(_REVISIONS)
        )


def revision(problem: str, variant: str) -> int:
    """The number of the proposals that have a name now; 0 for what was not added."""
    found = _ADDED.get((problem, variant))
    return 0 if found is None else found.revision


def names(problem: str, visitor: object | None) -> list[str]:
    """The variants that were added for all, and for a visitor."""
    return [
        variant
        for (of, variant), each in _ADDED.items()
        if of == problem
        and (each.visitor is None or (visitor is not None and each.visitor() is visitor))
    ]


def get(problem: str, variant: str, revision: int = 0) -> Proposals | None:
    """What was added, or sent to this process, under a name; there with that revision."""
    key = problem, variant
    return _ADDED[key].proposals if key in _ADDED else _RECEIVED.get((*key, revision))


def forget(visitor: object) -> None:
    """Forgets what a visitor has added who has gone."""
    gone = [key for key, each in _ADDED.items() if each.visitor and each.visitor() is visitor]
    for key in gone:
        del _ADDED[key]


def _drop(key: Key, _: object) -> None:
    """Forgets what belonged to a visitor that is no more."""
    _ADDED.pop(key, None)


def parcel(problem: str, variant: str) -> bytes | None:
    """What another process needs for proposals that were added here; None: it has them."""
    found = _ADDED.get((problem, variant))
    return None if found is None else found.parcel


def receive(problem: str, variant: str, revision: int, sent: bytes | None) -> None:
    """Takes what `parcel` gave in the server's process."""
    if sent is None or get(problem, variant, revision) is not None:
        return
    # A class of a file is found once the file has been run.
    from amci_explorer.problems.from_files import read_environment

    read_environment()
    _RECEIVED[problem, variant, revision] = pickle.loads(sent)
    if len(_RECEIVED) > RECEIVED_KEPT:
        del _RECEIVED[next(iter(_RECEIVED))]
