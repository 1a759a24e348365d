r"""Who may open what: only the server makes sessions, and only its own pages join them.

A page gets a token with its HTML, and shows it when its websocket connects. An id or token that
comes by an address or header is whoever's made the link: two visitors would share a page.
"""

from __future__ import annotations

__all__ = ["MOST_SENT", "SESSIONS", "SMALL", "Sessions", "brings_session"]

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

# What Bokeh would take an id or a token from.
ARGUMENTS, HEADER = {"bokeh-session-id", "bokeh-token"}, "Bokeh-Session-Id"
# A session with more errors than this in a minute is closed: no page makes so many.
MOST_ERRORS, SECONDS = 20, 60.0
# Bytes that a session may send in its life, for its models keep them, in messages of more bytes
# than `SMALL`. A file of draws or proposals has up to 20 MB.
MOST_SENT, SMALL = 64 * 2**20, 16 * 2**10


def brings_session(arguments: Collection[str], headers: Mapping[str, Any]) -> bool:
    """Whether a request names the session that it wants."""
    return not ARGUMENTS.isdisjoint(arguments) or HEADER in headers


class Sessions:
    """The tokens that the server has given out, and what each session sends and does wrong.

    Arguments:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By a digest of the token: the session's id, and until when the token may be shown.
        self._given: dict[bytes, tuple[str, float]] = {}
        self._errors: dict[str, deque[float]] = {}
        # Gone with the session itself.
        self._sent: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def give(self, token: str, session: str, seconds: float) -> None:
        """Notes a token that a page is given."""
        now = self._clock()
        self._given = {key: each for key, each in self._given.items() if each[1] > now}
        self._given[_digest(token)] = session, now + seconds

    def knows(self, token: str) -> bool:
        """Whether the server gave out that token, and it still holds."""
        _, until = self._given.get(_digest(token), ("", 0.0))
        return until > self._clock()

    def errs(self, session: str) -> bool:
        """Notes an error of a session; whether these are too many.

        Its tokens hold no longer then.
        """
        now = self._clock()
        since = now - SECONDS
        self._errors = {key: each for key, each in self._errors.items() if each[-1] > since}
        errors = self._errors.setdefault(session, deque(maxlen=MOST_ERRORS + 1))
        errors.append(now)
        if len(errors) <= MOST_ERRORS or errors[0] <= since:
            return False
        self._forget(session)
        return True

    def sends(self, session: Any, size: int) -> bool:
        """Notes the bytes of a large message of a session; whether these are too many.

        Its tokens hold no longer then.
        """
        self._sent[session] = self._sent.get(session, 0) + size
        if self._sent[session] <= MOST_SENT:
            return False
        self._forget(session.id)
        return True

    def _forget(self, session: str) -> None:
        self._given = {key: each for key, each in self._given.items() if each[0] != session}


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()


SESSIONS = Sessions()
