r"""Proposals that came while the server ran, trained or uploaded, and how workers get them.

They belong to a session, which alone lists them, or to all. A worker is sent them, pickled, with
each request that needs them.
"""

from __future__ import annotations

__all__ = ["add", "forget", "get", "names", "parcel", "receive", "renew", "revision"]

import pickle
import weakref
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

from amci_core.flows import Proposals

# Proposals that a worker keeps.
RECEIVED_KEPT = 32
Key = tuple[str, str]


@dataclass(frozen=True)
class _Added:
    """Proposals, the session that lists them (None: all do), and their number."""

    proposals: Proposals
    session: weakref.ref[object] | None
    revision: int

    @cached_property
    def parcel(self) -> bytes:
        return pickle.dumps(self.proposals)

    def is_listed_in(self, session: object | None) -> bool:
        return self.session is None or (session is not None and self.session() is session)


# In the server's process: by the problem's name and the variant.
_ADDED: dict[Key, _Added] = {}
# Names are given once: results of forgotten proposals may still be stored under theirs.
_GIVEN: set[Key] = set()
_REVISIONS = count(1)
# In a worker: what the server has sent.
_RECEIVED: dict[tuple[str, str, int], bytes] = {}


def add(
    problem: str,
    variant: str,
    proposals: Proposals,
    session: object | None,
    *,
    taken: Collection[str],
) -> str:
    """Adds proposals under a name that nothing else has had; returns that name."""
    name = variant
    for number in count(2):
        if (problem, name) not in _GIVEN and name not in taken:
            break
        name = f"{variant}-{number}"
    key = problem, name

    def drop(_: Any) -> None:
        _ADDED.pop(key, None)

    owner = None if session is None else weakref.ref(session, drop)
    _ADDED[key] = _Added(proposals, owner, next(_REVISIONS))
    _GIVEN.add(key)
    return name


def renew(problem: str, variant: str, proposals: Proposals) -> None:
    """Replaces the proposals of a name; does nothing if the session has gone."""
    key = problem, variant
    if key in _ADDED:
        _ADDED[key] = replace(_ADDED[key], proposals=proposals, revision=next(_REVISIONS))


def revision(problem: str, variant: str) -> int:
    """The number of a name's current proposals; 0 for names that were not added."""
    found = _ADDED.get((problem, variant))
    return 0 if found is None else found.revision


def names(problem: str, session: object | None) -> list[str]:
    """The variants that a session lists for a problem."""
    return [v for (p, v), each in _ADDED.items() if p == problem and each.is_listed_in(session)]


def get(problem: str, variant: str, revision: int = 0) -> Proposals | None:
    """The proposals of a name; in a worker, those of that revision."""
    if (problem, variant) in _ADDED:
        return _ADDED[problem, variant].proposals
    sent = _RECEIVED.get((problem, variant, revision))
    return None if sent is None else _unpickled(sent)


def forget(session: object) -> None:
    """Forgets the proposals of a session that has ended."""
    for key in [key for key, each in _ADDED.items() if each.session and each.session() is session]:
        del _ADDED[key]


def parcel(problem: str, variant: str) -> bytes | None:
    """The bytes that a worker needs for proposals that were added; None for others."""
    found = _ADDED.get((problem, variant))
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
