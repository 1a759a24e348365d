r"""Proposals that came while the server ran, trained by a visitor, and how workers get them.

They belong to a session, which alone lists them. A worker is sent them, pickled, with each request
that needs them.
"""

from __future__ import annotations

__all__ = ["add", "forget", "get", "names", "parcel", "receive", "renew", "revision"]

import pickle
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain, count
from typing import Any
from weakref import WeakKeyDictionary

from amci_core.flows import Proposals

# Proposals that a worker keeps.
RECEIVED_KEPT = 32
_REVISIONS = count(1)


@dataclass(frozen=True)
class _Added:
    proposals: Proposals
    revision: int

    @cached_property
    def parcel(self) -> bytes:
        return pickle.dumps(self.proposals)


# In the server's process: of each session, by the problem's name and the variant.
_ADDED: WeakKeyDictionary[Any, dict[tuple[str, str], _Added]] = WeakKeyDictionary()
# Names are given once: results of forgotten proposals may still be stored under theirs.
_GIVEN: set[tuple[str, str]] = set()
# In a worker: what the server has sent.
_RECEIVED: dict[tuple[str, str, int], bytes] = {}


def add(
    problem: str, variant: str, proposals: Proposals, session: object, *, taken: Collection[str]
) -> Proposals:
    """Adds proposals, and returns them as they are listed.

    Arguments:
        problem: The problem's name; with another f the one that `Case.problem` has then.
        variant: Their name; a number is appended if that was given before.
        proposals: They; anything that pickle takes.
        session: The state of the page that lists them.
        taken: The names of the problem's other proposals.
    """
    several = chain([variant], (f"{variant}-{number}" for number in count(2)))
    name = next(n for n in several if (problem, n) not in _GIVEN and n not in taken)
    _GIVEN.add((problem, name))
    _ADDED.setdefault(session, {})
    return _put(session, problem, name, proposals)


def renew(problem: str, variant: str, proposals: Proposals) -> Proposals:
    """Replaces the proposals of a name, unless the session has gone; returns the new ones.

    Results of earlier ones are not taken for theirs: see `revision`.
    """
    for session, of in list(_ADDED.items()):
        if (problem, variant) in of:
            return _put(session, problem, variant, proposals)
    return proposals


def _put(session: object, problem: str, variant: str, proposals: Proposals) -> Proposals:
    named = replace(proposals, variant=variant)
    _ADDED[session][problem, variant] = _Added(named, next(_REVISIONS))
    return named


def _find(problem: str, variant: str) -> _Added | None:
    key = problem, variant
    return next((of[key] for of in list(_ADDED.values()) if key in of), None)


def revision(problem: str, variant: str) -> int:
    """The number of a name's current proposals; 0 for names that were not added."""
    found = _find(problem, variant)
    return 0 if found is None else found.revision


def names(problem: str, session: object) -> list[str]:
    """The variants that a session lists for a problem."""
    return [v for p, v in ({} if session is None else _ADDED.get(session, {})) if p == problem]


def get(problem: str, variant: str, revision: int = 0) -> Proposals | None:
    """The proposals of a name; in a worker, those of that revision."""
    found, sent = _find(problem, variant), _RECEIVED.get((problem, variant, revision))
    return found.proposals if found else None if sent is None else _unpickled(sent)


def forget(session: object) -> None:
    """Forgets the proposals of a session that has ended."""
    _ADDED.pop(session, None)


def parcel(problem: str, variant: str) -> bytes | None:
    """The bytes that a worker needs for proposals that were added; None for others."""
    found = _find(problem, variant)
    return None if found is None else found.parcel


def receive(problem: str, variant: str, revision: int, sent: bytes | None) -> None:
    """Stores what `parcel` gave in the server's process.

    It is unpickled when it is used: a class from a user's file exists once the file has been run.
    """
    if sent is not None:
        _RECEIVED[problem, variant, revision] = sent
        if len(_RECEIVED) > RECEIVED_KEPT:
            del _RECEIVED[next(iter(_RECEIVED))]


@lru_cache(RECEIVED_KEPT)
def _unpickled(sent: bytes) -> Proposals:
    return pickle.loads(sent)
